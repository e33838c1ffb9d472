"""The section ``tpuflex:network``: the network of the hosts, and who gets in and out of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.settings.base import AllowedCidr, Frozen, Remedy, SubnetworkCidr, refusal

#: Names of Compute Engine (https://cloud.google.com/compute/docs/naming-resources).
_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
#: What a link has before the path (`selfLink` in https://cloud.google.com/compute/docs/reference).
_LINK = r"(?:https://(?:www|compute)\.googleapis\.com/compute/(?:v1|beta|alpha)/)?"
_PROJECT = rf"{_LINK}projects/(?P<project>{PROJECT_PATTERN})"
_NETWORK = re.compile(rf"(?:{_PROJECT}/global/networks/)?(?P<name>{_NAME})")
_SUBNETWORK = re.compile(
    rf"(?:{_PROJECT}/regions/(?P<region>[a-z]+-[a-z]+\d+)/subnetworks/)?(?P<name>{_NAME})"
)

Egress = Literal["google", "internet", "existing"]
Region = Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+$")]


def check_network(text: str) -> str:
    """``text`` if it names a network."""
    if not _NETWORK.fullmatch(text):
        raise refusal(
            f"{text!r} does not name a network",
            "Write its name, or projects/HOST/global/networks/NAME for one of another project.",
        )
    return text


def check_subnetwork_name(text: str) -> str:
    """``text`` if it names a subnetwork."""
    if not _SUBNETWORK.fullmatch(text):
        raise refusal(
            f"{text!r} does not name a subnetwork",
            "Write its name, or projects/HOST/regions/REGION/subnetworks/NAME for one of another "
            "project.",
        )
    return text


@dataclass(frozen=True, slots=True)
class ExistingNetwork:
    """A network that was there before the endpoint, and stays.

    Attributes:
        project: the project that has it; of a Shared VPC the host project.
        network: ``projects/P/global/networks/N``.
        subnetwork: ``projects/P/regions/R/subnetworks/S``.
    """

    project: str
    network: str
    subnetwork: str


class NetworkSettings(Frozen):
    """Who may reach the endpoint, and where its hosts may connect to."""

    name: Annotated[str, AfterValidator(check_network)] | None = None
    """A network of yours for the hosts, which is there already: its name, or
    `projects/HOST/global/networks/NAME` for one of another project (Shared VPC). It is neither
    changed nor deleted. Without it, the endpoint gets a network of its own."""

    subnetwork: Annotated[str, AfterValidator(check_subnetwork_name)] | None = None
    """The subnetwork of that network for the hosts, in the region of the zones: its name, or
    `projects/HOST/regions/REGION/subnetworks/NAME`. Private Google Access has to be on in it."""

    subnetwork_cidr: Annotated[SubnetworkCidr, Remedy("Write a range such as 10.128.0.0/20.")] = (
        "10.128.0.0/20"
    )
    """Address range of the slice's subnetwork, in a network of its own."""

    subnetwork_cidrs: Annotated[
        dict[Region, SubnetworkCidr],
        Remedy("Write ranges by region, such as {europe-west4: 10.128.16.0/20}."),
    ] = {}
    """Where the zones are in several regions: the address range of the subnetwork in each of them
    but one. That one is the stack's home: its subnetwork has subnetwork_cidr, and the secrets are
    there. Weights have to be in the library then (`tpuflex:model.weights.bucket: library`); hosts
    read them, and keep compiled programs, in their own region."""

    allowed_cidrs: Annotated[
        tuple[AllowedCidr, ...], Remedy("Write a range such as 203.0.113.0/24.")
    ] = ()
    """Ranges that may reach the serving port; none by default (use an IAP tunnel)."""

    egress: Egress = "google"
    """Where the hosts may connect to: `google` is Google's APIs and registries and nothing else, so
    the image has to be in Artifact Registry; `internet` is everything, through NAT that is made for
    them; `existing` is what a network of yours lets them reach, and nothing is made for it."""

    manage_firewall: bool = True
    """Whether firewall rules are made in a network of yours, for the hosts alone: for SSH through
    IAP, and for allowed_cidrs. With false, the rules of that network have to let them in."""

    ssh: bool = True
    """Whether a firewall rule lets SSH in through IAP, which `tunnel`, `ssh`, `logs --follow` and,
    without allowed_cidrs, `ask` need."""

    tags: Annotated[
        tuple[Annotated[str, Field(pattern=f"^{_NAME}$")], ...],
        Remedy("Write lower-case letters, digits and hyphens, such as inference."),
    ] = Field(default=(), max_length=63)
    """Network tags that the hosts have beside their own, for rules of yours."""

    @property
    def makes_network(self) -> bool:
        """Whether the endpoint gets a network of its own."""
        return self.name is None

    def home(self, regions: Sequence[str]) -> str:
        """Which of ``regions``, those of the zones, is the stack's home: where it has what it has
        in one region only. The order of the zones says nothing of it: who changes that would else
        move secrets."""
        return next((each for each in regions if each not in self.subnetwork_cidrs), regions[0])

    def existing(self, project: str, region: str) -> ExistingNetwork | None:
        """The network that is there already; None for one of the endpoint's own.

        Args:
            project: the stack's project.
            region: the region of its zones.
        """
        network = _NETWORK.fullmatch(self.name or "")
        subnetwork = _SUBNETWORK.fullmatch(self.subnetwork or "")
        if network is None or subnetwork is None:
            return None
        host = network["project"] or subnetwork["project"] or project
        at = subnetwork["project"] or host
        return ExistingNetwork(
            host,
            f"projects/{host}/global/networks/{network['name']}",
            f"projects/{at}/regions/{subnetwork['region'] or region}/subnetworks/"
            f"{subnetwork['name']}",
        )
