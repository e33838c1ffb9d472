"""A network of the endpoint's own: nothing gets in or out but what is listed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from tpuflex.components.egress import EgressArgs, in_region, to_google, to_internet
from tpuflex.components.given import when_known
from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import description, read_only_options
from tpuflex.gcloud_commands import enable_private_access
from tpuflex.naming import Names
from tpuflex.settings.network import Egress, ExistingNetwork

#: Source range of Identity-Aware Proxy's TCP forwarding
#: (https://cloud.google.com/iap/docs/using-tcp-forwarding).
IAP_RANGE = "35.235.240.0/20"


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """Inputs of :class:`Network`."""

    names: Names
    """Physical names."""

    state_id: pulumi.Input[str]
    """Id of the state that makes it."""

    project: str
    """Google Cloud project id."""

    region: str
    """Region of the subnetwork: the stack's home, where the slice is unless there are others."""

    subnetwork_cidrs: Mapping[str, str] | None = None
    """Ranges of subnetworks of its own in other regions, by region."""

    existing: pulumi.Input[ExistingNetwork] | None = None
    """A network that is there already; one of its own by default."""

    subnetwork_cidr: pulumi.Input[str]
    """Address range of a subnetwork of its own."""

    serving_port: int
    """Port of the endpoint."""

    allowed_cidrs: pulumi.Input[Sequence[str]]
    """Ranges that may reach the serving port; no rule is made when there are none. Of those that
    are known later there is one at least."""

    egress: Egress
    """Where the hosts may connect to."""

    manage_firewall: bool = True
    """Whether firewall rules are made."""

    ssh: bool = True
    """Whether one of them lets SSH in through IAP."""

    labels: pulumi.Input[Mapping[str, str]] | None = None
    """Labels of the user's."""


class Network(pulumi.ComponentResource):
    """A custom-mode VPC with one subnetwork, narrow ingress and, unless told otherwise, egress to
    Google's APIs only. Or a network that is there already, of which nothing is changed: rules in it
    are for the hosts' own tag, so endpoints can share one.

    Attributes:
        network_id: id of the VPC.
        subnetwork_id: id of its subnetwork, which has Private Google Access; one of its own has
            flow logs.
        subnetwork: how a slice names its subnetwork: by that id; where it may be in several
            regions, by the name that the subnetworks of all have, which the API looks up in the
            region of the zone that is asked.
        tag: the network tag that the firewall rules apply to; put it on the slice.
        barriers: what must be there before the slice and outlive it: the subnetworks, the
            firewall rules, and DNS zones or NAT.
    """

    network_id: pulumi.Output[str]
    subnetwork_id: pulumi.Output[str]
    subnetwork: pulumi.Output[str]
    tag: str
    barriers: tuple[pulumi.Resource, ...]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:Network", name, inputs_of(args), opts)
        self.tag = args.names.compute("host")
        if args.existing is None:
            subnetworks = self._own(name, args)
        else:
            subnetworks = (
                self._existing(name, args, args.existing, read_only_options(self, opts)),
            )
        self.subnetwork = subnetworks[0].name if len(subnetworks) > 1 else self.subnetwork_id
        self.barriers = (
            *subnetworks,
            *self._egress(name, args),
            *(self._firewalls(name, args) if args.manage_firewall else ()),
        )
        self.register_outputs(
            {"networkId": self.network_id, "subnetworkId": self.subnetwork_id, "tag": self.tag}
        )

    def _own(self, name: str, args: NetworkArgs) -> tuple[compute.Subnetwork, ...]:
        """A network and its subnetworks, that of the home first."""
        network = compute.Network(
            name,
            name=args.names.compute("net"),
            project=args.project,
            description=description(args.names, args.state_id),
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=pulumi.ResourceOptions(parent=self),
        )
        ranges = {args.region: args.subnetwork_cidr, **(args.subnetwork_cidrs or {})}
        subnetworks = tuple(
            self._subnetwork(name, args, network, region, cidr) for region, cidr in ranges.items()
        )
        self.network_id, self.subnetwork_id = network.id, subnetworks[0].id
        return subnetworks

    def _existing(
        self,
        name: str,
        args: NetworkArgs,
        existing: pulumi.Input[ExistingNetwork],
        reading: pulumi.ResourceOptions,
    ) -> compute.Subnetwork:
        """The engine reads the subnetwork, at every plan, and never changes or deletes it."""
        others = when_known(existing, lambda it: require_not_own(it, args.names, args.project))
        subnetwork = compute.Subnetwork.get(
            # Not the name of one of its own: an endpoint may move from that to this.
            f"{name}-brought-subnet",
            when_known(others, lambda it: it.subnetwork),
            opts=reading,
        )
        found = pulumi.Output.all(others, subnetwork.network, subnetwork.private_ip_google_access)
        changing = isinstance(existing, pulumi.Output) and pulumi.runtime.is_dry_run()
        usable = found.apply(lambda seen: (_warned_if_not if changing else require_usable)(*seen))
        self.network_id = usable.apply(lambda it: it.network)
        self.subnetwork_id = usable.apply(lambda it: it.subnetwork)
        return subnetwork

    def _subnetwork(
        self,
        name: str,
        args: NetworkArgs,
        network: compute.Network,
        region: str,
        cidr: pulumi.Input[str],
    ) -> compute.Subnetwork:
        return compute.Subnetwork(
            f"{name}-subnet{in_region(region, args.region)}",
            name=args.names.compute("subnet"),
            project=args.project,
            description=description(args.names, args.state_id),
            region=region,
            network=network.id,
            ip_cidr_range=cidr,
            # The host has no external address; it reaches Storage and Secret Manager this way.
            private_ip_google_access=True,
            log_config=compute.SubnetworkLogConfigArgs(
                aggregation_interval="INTERVAL_10_MIN",
                flow_sampling=0.5,
                metadata="INCLUDE_ALL_METADATA",
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _egress(self, name: str, args: NetworkArgs) -> tuple[pulumi.Resource, ...]:
        egress = EgressArgs(
            name=name,
            names=args.names,
            state_id=args.state_id,
            project=args.project,
            region=args.region,
            further=tuple(args.subnetwork_cidrs or ()),
            network_id=self.network_id,
            tag=self.tag,
            labels=args.labels,
            parent=self,
        )
        match args.egress:
            case "google":
                return to_google(egress)
            case "internet" if args.existing is not None:
                return to_internet(egress, only=when_known(args.existing, lambda it: it.subnetwork))
            case "internet":
                return to_internet(egress)
            case "existing":
                return ()

    def _firewalls(self, name: str, args: NetworkArgs) -> tuple[compute.Firewall, ...]:
        rules: list[tuple[str, int, pulumi.Input[list[str]]]] = []
        if args.ssh:
            rules.append(("ssh", 22, [IAP_RANGE]))
        if isinstance(args.allowed_cidrs, pulumi.Output) or args.allowed_cidrs:
            rules.append(("serving", args.serving_port, when_known(args.allowed_cidrs, list)))
        # A rule cannot change its network, which pulumi-gcp tries. Who moves from a network of its
        # own gets others before the old ones go; between two existing networks they have one name.
        prefix = "brought-" if args.existing is not None else ""
        moving = ["network"] if args.existing is not None else None
        opts = pulumi.ResourceOptions(
            parent=self, replace_on_changes=moving, delete_before_replace=True if moving else None
        )
        return tuple(
            compute.Firewall(
                f"{name}-{prefix}{role}",
                name=args.names.compute(f"{prefix}{role}"),
                project=args.project,
                description=description(args.names, args.state_id),
                network=self.network_id,
                direction="INGRESS",
                source_ranges=ranges,
                target_tags=[self.tag],
                allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port)])],
                opts=opts,
            )
            for role, port, ranges in rules
        )


def require_not_own(existing: ExistingNetwork, names: Names, project: str) -> ExistingNetwork:
    """``existing`` if neither network nor subnetwork of it has a name that an endpoint with
    these ``names`` gives in ``project``."""
    if existing.project != project:
        return existing
    for key, path, role in (
        ("name", existing.network, "net"),
        ("subnetwork", existing.subnetwork, "subnet"),
    ):
        if path.rpartition("/")[2] == names.compute(role):
            raise pulumi.RunError(
                f"tpuflex:network.{key}: {path} has the name of the endpoint's own, which `down`"
                " and `sweep` delete.\nWrite one that others have made."
            )
    return existing


def require_usable(
    existing: ExistingNetwork, network: str | None, private_access: object
) -> ExistingNetwork:
    """``existing`` if hosts without external addresses can be in its subnetwork."""
    key = "tpuflex:network.subnetwork"
    if not f"/{network}".endswith(f"/{existing.network}"):  # it is given as a URL
        raise pulumi.RunError(
            f"{key}: {existing.subnetwork} is not a subnetwork of {existing.network}.\n"
            f"It is one of {network}: write that network to tpuflex:network.name, or another"
            " subnetwork."
        )
    if private_access is not True:
        raise pulumi.RunError(
            f"{key}: Private Google Access is off in {existing.subnetwork}, and the hosts have no"
            " external address: they could reach neither weights nor secrets.\n"
            f"Run: {enable_private_access(existing.subnetwork)}"
        )
    return existing


def _warned_if_not(
    existing: ExistingNetwork, network: str | None, private_access: object
) -> ExistingNetwork:
    """``existing``, with a warning if it cannot be used as it is: the program may be about to
    change that, and its update looks again."""
    try:
        return require_usable(existing, network, private_access)
    except pulumi.RunError as error:
        pulumi.log.warn(str(error))
        return existing
