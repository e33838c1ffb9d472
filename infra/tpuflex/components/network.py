"""A network of the endpoint's own: nothing reaches it but what is listed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from tpuflex.components.marks import description, options
from tpuflex.naming import Names

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
    """Region of the subnetwork: the region of the slice."""

    subnetwork_cidr: str
    """Address range of the subnetwork."""

    serving_port: int
    """Port of the endpoint."""

    allowed_cidrs: Sequence[str]
    """Ranges that may reach the serving port; no rule is made when there are none."""


class Network(pulumi.ComponentResource):
    """A custom-mode VPC with one subnetwork, egress through NAT, and narrow ingress.

    Attributes:
        network: the VPC.
        subnetwork: its subnetwork, with Private Google Access and flow logs.
        tag: the network tag that the firewall rules apply to; put it on the slice.
        barriers: what must outlive the slice: the firewall rules, the subnetwork and NAT.
    """

    network: compute.Network
    subnetwork: compute.Subnetwork
    tag: str
    barriers: tuple[pulumi.Resource, ...]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:Network", name, None, opts)
        self.tag = args.names.compute("host")
        self.network = compute.Network(
            name,
            name=args.names.compute("net"),
            project=args.project,
            description=description(args.names, args.state_id),
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=options("gcp:compute/network:Network", self),
        )
        self.subnetwork = self._subnetwork(name, args)
        self.barriers = (
            self.subnetwork,
            self._egress(name, args),
            *self._firewalls(name, args),
        )
        self.register_outputs(
            {"networkId": self.network.id, "subnetworkId": self.subnetwork.id, "tag": self.tag}
        )

    def _subnetwork(self, name: str, args: NetworkArgs) -> compute.Subnetwork:
        return compute.Subnetwork(
            f"{name}-subnet",
            name=args.names.compute("subnet"),
            project=args.project,
            description=description(args.names, args.state_id),
            region=args.region,
            network=self.network.id,
            ip_cidr_range=args.subnetwork_cidr,
            # The host has no external address; it reaches Storage and Secret Manager this way.
            private_ip_google_access=True,
            log_config=compute.SubnetworkLogConfigArgs(
                aggregation_interval="INTERVAL_10_MIN",
                flow_sampling=0.5,
                metadata="INCLUDE_ALL_METADATA",
            ),
            opts=options("gcp:compute/subnetwork:Subnetwork", self),
        )

    def _egress(self, name: str, args: NetworkArgs) -> compute.RouterNat:
        """NAT: the serving image comes from a registry outside of Google."""
        router = compute.Router(
            f"{name}-router",
            name=args.names.compute("router"),
            project=args.project,
            description=description(args.names, args.state_id),
            region=args.region,
            network=self.network.id,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return compute.RouterNat(
            f"{name}-nat",
            name=args.names.compute("nat"),
            project=args.project,
            region=args.region,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _firewalls(self, name: str, args: NetworkArgs) -> tuple[compute.Firewall, ...]:
        rules = [("ssh", 22, [IAP_RANGE])]
        if args.allowed_cidrs:
            rules.append(("serving", args.serving_port, list(args.allowed_cidrs)))
        return tuple(
            compute.Firewall(
                f"{name}-{role}",
                name=args.names.compute(role),
                project=args.project,
                description=description(args.names, args.state_id),
                network=self.network.id,
                direction="INGRESS",
                source_ranges=ranges,
                target_tags=[self.tag],
                allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port)])],
                opts=pulumi.ResourceOptions(parent=self),
            )
            for role, port, ranges in rules
        )
