"""What a program may say about the network of the hosts.

Source of all fields: `NetworkConfig` and `Node` of `tpu.v2alpha1`, revision 20261001.
"""

from __future__ import annotations

from pydantic import Field

from tpuflex.request.values import Group

#: Inputs that describe the one network, for which `networkConfigs` leaves no room.
ONE_NETWORK = ("network", "subnetwork", "externalIps", "canIpForward", "queueCount")


class NetworkConfig(Group):
    """One network interface of every host."""

    network: str | None = Field(default=None, min_length=1)
    """VPC network, by name or full path; the project's default network unless given."""

    subnetwork: str | None = Field(default=None, min_length=1)
    """Subnetwork, by name or full path. Without external IPs it needs Private Google Access."""

    external_ips: bool = False
    """Whether the hosts get external IP addresses on it. Off by default."""

    can_ip_forward: bool = False
    """Whether packets with other source or destination addresses pass. Off by default."""

    queue_count: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Number of queues of the interface; Google chooses unless given."""


class NetworkArgs(Group):
    """Inputs for the network: one interface, or `networkConfigs` for several."""

    network: str | None = Field(default=None, min_length=1)
    """VPC network, by name or full path; the project's default network unless given."""

    subnetwork: str | None = Field(default=None, min_length=1)
    """Subnetwork, by name or full path. Without external IPs it needs Private Google Access."""

    external_ips: bool = False
    """Whether the hosts get external IP addresses. Off by default; changed in place."""

    can_ip_forward: bool = False
    """Whether the hosts may send and receive packets with other source or destination
    addresses, as routers do. Off by default."""

    queue_count: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Number of queues of the hosts' network interface; Google chooses unless given."""

    network_configs: tuple[NetworkConfig, ...] = ()
    """Several network interfaces, instead of `network` and `subnetwork`. Changing any of it
    replaces."""

    cidr_block: str | None = Field(default=None, pattern=r"^\d{1,3}(\.\d{1,3}){3}/29$")
    """Block of addresses for the hosts, a /29 such as 10.240.0.0/29; Google chooses unless
    given."""
