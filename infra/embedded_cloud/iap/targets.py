"""What a client of the relay asks for, and whether the cloud lets it through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from embedded_cloud.compute.ingress import Connection, lets_in
from embedded_cloud.compute.paths import relative
from embedded_cloud.compute.state import Resources
from embedded_cloud.hosts.spec import HostSpec
from embedded_cloud.iap.frames import Close
from embedded_cloud.json_types import JsonObject, child, text, texts
from embedded_cloud.tpu.state import TpuState

#: Where IAP's connections come from (https://cloud.google.com/iap/docs/using-tcp-forwarding).
IAP_RANGE = "35.235.240.0/20"
SSH_PORT = 22
#: The rule for SSH that a project's first network has
#: (https://cloud.google.com/firewall/docs/firewalls#more_rules_default_vpc).
_DEFAULT_ALLOW_SSH: JsonObject = {
    "network": "global/networks/default",
    "priority": 65534,
    "sourceRanges": ["0.0.0.0/0"],
    "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
}


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a virtual machine.

    Attributes:
        project, zone: where it is.
        instance: its name, which for a host of a TPU node is its hostname.
        port: the port.
    """

    project: str
    zone: str
    instance: str
    port: int

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Target | None:
        """What the query of a request to connect names; None where it names nothing."""
        project, zone, instance = (query.get(key, "") for key in ("project", "zone", "instance"))
        port = query.get("port", "")
        if not (project and zone and instance and port.isdecimal()):
            return None
        return cls(project, zone, instance, int(port))


class Targets:
    """The hosts, and the firewalls in front of them.

    Args:
        tpu: the TPU service.
        resources: Compute Engine's, for firewall rules.
    """

    def __init__(self, tpu: TpuState, resources: Resources) -> None:
        self._tpu = tpu
        self._resources = resources

    def find(self, target: Target) -> HostSpec | Close:
        """The host that ``target`` names, or how the relay refuses."""
        for spec in self._tpu.desired_hosts():
            if (spec.project, spec.zone) == (target.project, target.zone) and (
                spec.name == target.instance
            ):
                return spec if self._lets_in(spec, target.port) else Close.NO_BACKEND
        return Close.LOOKUP_FAILED

    def private_address(self, spec: HostSpec) -> str:
        """The address of a host that clients know it by."""
        node = self._tpu.nodes.find(spec.owner)
        return spec.address if node is None else self._tpu.addresses(node)[spec.worker]

    def _lets_in(self, spec: HostSpec, port: int) -> bool:
        node = self._tpu.nodes.find(spec.owner)
        config = child({} if node is None else node.spec, "networkConfig")
        named = text(config, "network") or "global/networks/default"
        network = str(relative(named, spec.project))
        if "/" not in network:
            network = f"projects/{spec.project}/global/networks/{network}"
        rules = self._resources.all("firewalls", f"projects/{spec.project}/")
        if network.endswith("/networks/default") and not self._resources.exists(network):
            rules.append(_DEFAULT_ALLOW_SSH)
        tags = texts({} if node is None else node.spec, "tags")
        connection = Connection(IAP_RANGE, port, network, tags, spec.service_account)
        return lets_in(rules, connection)
