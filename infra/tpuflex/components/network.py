"""A network of the endpoint's own: nothing gets in or out but what is listed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
from pulumi_gcp import compute

from tpuflex.components.egress import EgressArgs, to_google, to_internet
from tpuflex.components.inputs import inputs_of
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

    egress: Literal["google", "internet"]
    """Where the hosts may connect to."""


class Network(pulumi.ComponentResource):
    """A custom-mode VPC with one subnetwork, narrow ingress and, unless told otherwise, egress to
    Google's APIs only.

    Attributes:
        network: the VPC.
        subnetwork: its subnetwork, with Private Google Access and flow logs.
        tag: the network tag that the firewall rules apply to; put it on the slice.
        barriers: what must be there before the slice and outlive it: the subnetwork, the firewall
            rules, and DNS zones or NAT.
    """

    network: compute.Network
    subnetwork: compute.Subnetwork
    tag: str
    barriers: tuple[pulumi.Resource, ...]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuflex:index:Network", name, inputs_of(args), opts)
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
            *self._egress(name, args),
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

    def _egress(self, name: str, args: NetworkArgs) -> tuple[pulumi.Resource, ...]:
        egress = EgressArgs(
            name=name,
            names=args.names,
            state_id=args.state_id,
            project=args.project,
            region=args.region,
            network=self.network,
            tag=self.tag,
            parent=self,
        )
        return to_google(egress) if args.egress == "google" else to_internet(egress)

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
