"""Rules about the network: what one of yours can have, and what only one of the endpoint's own."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.settings.model import Draft, StackSettings
from tpuflex.settings.network import BroughtNetwork, NetworkSettings

_KEY = "tpuflex:network"


def network_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the network of a stack from being what its settings say."""
    network = draft.network
    if network is None:
        return
    if (network.name is None) != (network.subnetwork is None):
        there, lacking = ("subnetwork", "name") if network.name is None else ("name", "subnetwork")
        yield Finding(
            f"{_KEY}.{lacking}",
            f"is missing, and {there} is there",
            "Write both for a network of yours, or neither.",
        )
    elif network.name is None:
        yield from _own(network)
    if not network.manage_firewall and network.allowed_cidrs:
        yield Finding(
            f"{_KEY}.allowed_cidrs",
            "it would have no effect: with manage_firewall: false no rule is made",
            "Remove it, and let the clients in by a rule of your network; or write"
            " manage_firewall: true.",
        )
    if draft.project is not None and draft.slice is not None:
        region = network.home(draft.slice.regions)
        brought = network.brought(draft.project, region)
        if brought is not None:
            yield from _brought(network, brought, draft.project, region)


def network_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What a network of one's own making may lack."""
    network = settings.network
    if not network.ssh or not network.manage_firewall:
        key = "ssh" if network.manage_firewall else "manage_firewall"
        yield Finding(
            f"{_KEY}.{key}",
            "no firewall rule of the endpoint lets SSH in, which `tunnel`, `ssh`, `logs --follow`"
            " and, without allowed_cidrs, `ask` need",
            "Use the endpoint from within the network; or have a rule of it let 35.235.240.0/20"
            " (IAP) reach port 22 of the hosts.",
        )


def _own(network: NetworkSettings) -> Iterator[Finding]:
    """What a network of the endpoint's own cannot be without."""
    if network.egress == "existing":
        yield Finding(
            f"{_KEY}.egress",
            "existing is for a network of yours: one of the endpoint's own leads nowhere",
            f"Write google or internet, or name your network in {_KEY}.name.",
        )
    if not network.manage_firewall:
        yield Finding(
            f"{_KEY}.manage_firewall",
            "false is for a network of yours: nobody makes rules in one of the endpoint's own",
            f"Remove it, or name your network in {_KEY}.name.",
        )


def _brought(
    network: NetworkSettings, brought: BroughtNetwork, project: str, region: str
) -> Iterator[Finding]:
    """What a network that is there already does not allow."""
    if f"/regions/{region}/" not in brought.subnetwork:
        yield Finding(
            f"{_KEY}.subnetwork",
            f"{brought.subnetwork} is not in {region}, the region of tpuflex:slice.zones",
            "Write a subnetwork of that region.",
        )
    if not brought.subnetwork.startswith(f"projects/{brought.project}/"):
        yield Finding(
            f"{_KEY}.subnetwork",
            f"it is in another project than {brought.network}",
            "Write network and subnetwork of one project.",
        )
    if network.subnetwork_cidr != NetworkSettings().subnetwork_cidr:
        yield Finding(
            f"{_KEY}.subnetwork_cidr",
            "it would have no effect: the subnetwork is yours and has its range",
            "Remove it.",
        )
    if network.egress == "google":
        yield Finding(
            f"{_KEY}.egress",
            "google needs private DNS zones, which would change Google's names for everything else"
            " in a network of yours",
            "Write existing; or internet, which makes NAT for the subnetwork.",
        )
    if brought.project != project:
        yield from _of_a_host_project(network, brought.project)


def _of_a_host_project(network: NetworkSettings, host: str) -> Iterator[Finding]:
    """What is made in the project of a network only, where no teardown of the stack looks."""
    if network.egress == "internet":
        yield Finding(
            f"{_KEY}.egress",
            f"NAT for a network of {host} belongs into that project",
            "Write existing, and have NAT made there.",
        )
    if network.manage_firewall:
        yield Finding(
            f"{_KEY}.manage_firewall",
            f"firewall rules for a network of {host} belong into that project",
            f"Write false, and have rules made there; network tags for them go to {_KEY}.tags.",
        )
