"""What a service wants a host to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from embedded_cloud.core.json_types import texts
from embedded_cloud.core.store import Store

_NODES = "tpu/nodes"


def free_addresses(store: Store, base_url: str, count: int) -> list[str]:
    """Addresses that no host has, from 127.<port high>.<port low>.1 upwards.

    The port in the middle keeps two emulators on one machine apart.

    Args:
        store: the cloud's memory: what has an address is in it.
        base_url: the emulator's address.
        count: how many.
    """
    taken = {each for _, node in store.list(_NODES) for each in texts(node, "addresses")}
    port = urlsplit(base_url).port or 1
    candidates = (
        f"127.{block >> 8 & 255}.{block & 255}.{last}"
        for block in range(port, port + 64)
        for last in range(1, 255)
    )
    free = (address for address in candidates if address not in taken)
    return [next(free) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class TpuWorker:
    """What a host is as one worker of a TPU node.

    Attributes:
        node_id: the node's id.
        addresses: the addresses of all workers of the node.
        accelerator_type, topology: such as ``v6e-8`` and ``2x4``.
    """

    node_id: str
    addresses: tuple[str, ...]
    accelerator_type: str
    topology: str


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One virtual machine: a worker of a TPU node.

    Attributes:
        key: name of its directory under ``hosts/``; unique among all hosts.
        owner: full resource name of its node.
        name: the short name of the machine.
        instance_id: numeric id of the machine.
        worker: its number within its owner, from 0.
        address: its loopback address.
        project, project_number, zone: where it is.
        machine_type: such as ``ct6e-standard-8t``.
        service_account: email of its service account.
        scopes: OAuth scopes of its service account.
        metadata: its owner's metadata.
        description: its owner's description.
        tpu: what it is as a worker of its node.
        boot_id: changes when its owner was stopped and started again: a new boot.
        secure_boot: whether its Shielded VM options ask for Secure Boot.
    """

    key: str
    owner: str
    name: str
    instance_id: str
    worker: int
    address: str
    project: str
    project_number: str
    zone: str
    machine_type: str
    service_account: str
    scopes: tuple[str, ...]
    metadata: Mapping[str, str]
    description: str
    boot_id: str
    tpu: TpuWorker
    secure_boot: bool = False

    @property
    def has_guest_attributes(self) -> bool:
        """Whether its metadata enables guest attributes."""
        return self.metadata.get("enable-guest-attributes", "").upper() in ("TRUE", "1")
