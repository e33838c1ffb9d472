"""What calls and inventories show: who owns a resource, and whether a call changes anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reliability.snapshot import present_resources
from tpuflex.naming import QUEUED_RESOURCE

Json = dict[str, Any]

OWNER = "tpuflex-owner"

#: Inventory kind -> resource type in the state.
TYPES = {
    "queuedResources": QUEUED_RESOURCE,
    "networks": "gcp:compute/network:Network",
    "subnetworks": "gcp:compute/subnetwork:Subnetwork",
    "firewalls": "gcp:compute/firewall:Firewall",
    "routers": "gcp:compute/router:Router",
    "managedZones": "gcp:dns/managedZone:ManagedZone",
    "serviceAccounts": "gcp:serviceaccount/account:Account",
    "secrets": "gcp:secretmanager/secret:Secret",
    "buckets": "gcp:storage/bucket:Bucket",
}
#: Kinds of resources that live and die with their parent.
_PARTS = frozenset({"versions", "objects", "uploads", "operations", "services"})
_NUMBER = re.compile(r"-\d+$")
#: Requests by POST that change nothing; the last three give tokens.
_READING = (
    *(".getIamPolicy", ".testIamPermissions", ".getGuestAttributes", ".access"),
    *("oauth2.token", "sts.v1.token", ".generateAccessToken"),
)


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that the cloud has.

    Attributes:
        kind: heading in the inventory.
        name: its name there.
        labels: its labels, sorted.
        state: its state, if it has one.
        description: its text for people, if it has one.
        owner: the owner in its marker, if it has one.
    """

    kind: str
    name: str
    labels: tuple[tuple[str, str], ...]
    state: str
    description: str
    owner: str

    @property
    def id(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    def is_resource(self, resource: Json) -> bool:
        """Whether ``resource`` of the state is this thing."""
        if resource["type"] != TYPES.get(self.kind):
            return False
        # Project numbers stand for project ids in some names; zones tell requests apart.
        if self.kind == "queuedResources":
            return bool(resource.get("id") == self.name)
        return str(resource.get("id", "")).rpartition("/")[2] == self.id

    def node_of(self, queued: Thing) -> bool:
        """Whether this is a node of a queued resource: same zone and same id, or the id and a
        number if there are several nodes."""
        own = queued.name.replace("/queuedResources/", "/nodes/")
        return own in (self.name, _NUMBER.sub("", self.name))

    def is_node_of(self, resource: Json) -> bool:
        """Whether this is a node of a queued resource that the state has."""
        return self.kind == "nodes" and not _requests_of(self).isdisjoint(_queued_names(resource))

    def is_in(self, path: str) -> bool:
        """Whether a call's path refers to this thing."""
        return self.id in path.replace(":", "/").split("/")

    @staticmethod
    def can_be(resource: Json) -> bool:
        """Whether the inventory lists resources of this type."""
        return resource["type"] in TYPES.values() and bool(resource.get("id"))


def things(inventory: Mapping[str, Mapping[str, Sequence[Json]]]) -> list[Thing]:
    """Every resource that can have an owner; not parts of other resources."""
    return [
        _thing(kind, entry)
        for kinds in inventory.values()
        for kind, entries in kinds.items()
        if kind not in _PARTS
        for entry in entries
    ]


def ours(thing: Thing, owners: Mapping[str, str]) -> bool:
    """Whether ``thing`` has an owner label of ``owners`` or, without labels, one of their names."""
    if thing.owner:
        return thing.owner in owners
    return any(thing.id.startswith(f"{prefix}-") for prefix in owners.values())


def known_to_state(thing: Thing, export: Json | None) -> bool:
    """Whether the state has ``thing`` or, for a node, its queued resource."""
    resources = present_resources(export)
    if thing.kind == "nodes":
        return any(thing.is_node_of(resource) for resource in resources)
    if thing.kind == "queuedResources":
        return any(thing.name in _queued_names(resource) for resource in resources)
    return any(thing.is_resource(resource) for resource in resources)


def is_mutating(call: Json) -> bool:
    """Whether a call asks for a change."""
    if call["method"] in ("GET", "HEAD"):
        return False
    return not call["method_id"].endswith(_READING)


def was_done(call: Json) -> bool:
    """Whether a call took effect, whatever the response."""
    return bool(call.get("committed", 200 <= call["status"] < 300))


def _requests_of(node: Thing) -> set[str]:
    """Possible names of a node's queued resource: one of several nodes ends in a number."""
    queued = node.name.replace("/nodes/", "/queuedResources/")
    return {queued, _NUMBER.sub("", queued)}


def _queued_names(resource: Json) -> set[str]:
    """Full names of the queued resources that a resource of the state may stand for."""
    if resource["type"] != QUEUED_RESOURCE:
        return set()
    inputs, outputs = resource.get("inputs") or {}, resource.get("outputs") or {}
    named = {str(resource.get("id", "")), *_texts(outputs)}
    if outputs.get("lifecycle") in ("waiting", "provisioning"):
        project, id_ = inputs.get("project"), inputs.get("queuedResourceId")
        named |= {
            f"projects/{project}/locations/{zone}/queuedResources/{id_}"
            for zone in inputs.get("zones") or ()
        }
    return named


def _texts(value: object) -> set[str]:
    if isinstance(value, str):
        return {value} if "/queuedResources/" in value else set()
    if isinstance(value, dict):
        return {text for item in value.values() for text in _texts(item)}
    if isinstance(value, list):
        return {text for item in value for text in _texts(item)}
    return set()


def _thing(kind: str, entry: Json) -> Thing:
    labels = entry.get("labels") or {}
    description = str(entry.get("description", ""))
    marked = description.partition("Managed by tpuflex; owner ")[2][:16]
    return Thing(
        kind=kind,
        name=entry["name"],
        labels=tuple(sorted(labels.items())),
        state=str(entry.get("state", "")),
        description=description,
        owner=str(labels.get(OWNER, marked)),
    )
