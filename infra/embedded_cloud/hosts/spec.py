"""What the TPU service wants a host to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One worker VM of a node.

    Attributes:
        key: name of its directory under ``hosts/``; unique among all hosts.
        node_name: full resource name of its node.
        node_id: the node's id.
        instance_id: numeric id of the VM.
        worker: its number within the node, from 0.
        address: its loopback address.
        addresses: the addresses of all workers of the node.
        project, project_number, zone: where it is.
        machine_type: such as ``ct6e-standard-8t``.
        accelerator_type, topology: such as ``v6e-8`` and ``2x4``.
        service_account: email of its service account.
        scopes: OAuth scopes of its service account.
        metadata: the node's metadata.
        description: the node's description.
        secure_boot: whether its Shielded VM options ask for Secure Boot.
        boot_id: changes when the node was stopped and started again: a new boot.
    """

    key: str
    node_name: str
    node_id: str
    instance_id: str
    worker: int
    address: str
    addresses: tuple[str, ...]
    project: str
    project_number: str
    zone: str
    machine_type: str
    accelerator_type: str
    topology: str
    service_account: str
    scopes: tuple[str, ...]
    metadata: Mapping[str, str]
    description: str
    boot_id: str
    secure_boot: bool = False

    @property
    def has_guest_attributes(self) -> bool:
        """Whether its metadata enables guest attributes."""
        return self.metadata.get("enable-guest-attributes", "").upper() in ("TRUE", "1")
