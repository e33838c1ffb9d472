"""The record of a run: its calls, what the cloud has, and the exported state, read as
:mod:`reliability.invariants` judges them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tpuflex.naming import QUEUED_RESOURCE

Json = dict[str, Any]
Name = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "R0"]

#: Commands that bring up, refresh, recover and remove a stack: ours, and Pulumi's where it differs.
UP, REFRESH, RECOVER, DOWN = ("up",), ("refresh",), ("recover",), ("down", "destroy")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a run.

    Attributes:
        name: its first word; ``event`` for what happened between commands.
        exit_code: negative for a signal, None if it did not end by itself.
        first_seq, last_seq: the history's last lines before and after it.
    """

    name: str
    exit_code: int | None
    first_seq: int = 0
    last_seq: int = 0
    seconds: float = 0.0

    def succeeded(self, kind: tuple[str, ...]) -> bool:
        """Whether it is one of ``kind`` and exited with 0."""
        return self.name in kind and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The record of a run.

    Attributes:
        history: calls as the control API returns them.
        strikes: the ``fault`` events of the history.
        deletions: its events of :data:`reliability.serving_hosts.DELETION`.
        inventory: what exists in the cloud at the end: service -> kind -> resources.
        export: ``pulumi stack export`` at the end; None if there is no stack.
        commands: the commands, in order.
        owners: owner label -> prefix of the names of that owner's resources.
        foreign: the inventory of other owners' resources, taken before the run.
        reported: names that were reported as left behind.
    """

    history: Sequence[Json]
    inventory: Mapping[str, Mapping[str, Sequence[Json]]]
    export: Json | None
    commands: Sequence[Command]
    owners: Mapping[str, str]
    strikes: Sequence[Json] = ()
    deletions: Sequence[Json] = ()
    foreign: Mapping[str, Mapping[str, Sequence[Json]]] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()

    @property
    def last(self) -> Command:
        """The last command, or an empty one if there is none."""
        ran = [command for command in self.commands if command.name != "event"]
        return ran[-1] if ran else Command("", 0)

    def ours(self) -> list[Thing]:
        """Our resources in the cloud."""
        theirs = {thing.name for thing in things(self.foreign)}
        return [
            thing
            for thing in things(self.inventory)
            if thing.name not in theirs and ours(thing, self.owners)
        ]


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that does not hold."""

    invariant: Name
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


# -- what the cloud has, and its calls ------------------------------------------------------------

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
    """Something that the cloud has."""

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


# -- the exported state --------------------------------------------------------------------------


def stored_resources(export: Json | None) -> list[Json]:
    """The resources in the state; none if there is no state."""
    deployment = (export or {}).get("deployment") or {}
    return list(deployment.get("resources") or ())


def present_resources(export: Json | None) -> list[Json]:
    """The resources that exist according to the state: not those that it only remembers as deleted
    for a replacement. A `down` drops such a reminder without asking a provider to delete anything
    (`RemovePendingReplaceStep` of pulumi/pulumi v3.256.0)."""
    return [one for one in stored_resources(export) if not one.get("pendingReplacement")]


def is_leaving(export: Json | None) -> bool:
    """Whether something that was replaced is still to be deleted: the next `up` does."""
    return any(resource.get("delete") for resource in stored_resources(export))


def is_over(resource: Json, *, without_leftover: bool = False) -> bool:
    """Whether the state says that a queued resource's run is over and, if ``without_leftover``,
    that its leftover is gone, too."""
    outputs = resource.get("outputs") or {}
    gone = outputs.get("state") == "NOT_FOUND"
    return outputs.get("lifecycle") == "ended" and (gone or not without_leftover)


def pending_operations(export: Json) -> list[Json]:
    """The operations that were begun and not completed, according to the state."""
    deployment = export.get("deployment") or {}
    return list(deployment.get("pending_operations") or ())


def snapshot_faults(export: Json) -> Iterator[str]:
    """What the engine would reject (by its own ``Snapshot.VerifyIntegrity``): names must be unique,
    and everything that a resource refers to must come before it."""
    seen: set[str] = set()
    references: set[str] = set()
    for resource in stored_resources(export):
        urn = str(resource.get("urn", ""))
        if not urn.startswith("urn:pulumi:") or str(resource.get("type")) not in urn:
            yield f"{urn!r} is not the name of a {resource.get('type')}"
        if urn in seen and not resource.get("delete"):
            yield f"{urn} is in the snapshot twice"
        if resource.get("custom") and not resource.get("id") and not resource.get("external"):
            yield f"{urn} has no id"
        yield from _dangling(resource, seen, references)
        if not resource.get("delete"):
            seen.add(urn)
        references.add(f"{urn}::{resource.get('id', '')}")


def _dangling(resource: Json, seen: set[str], references: set[str]) -> Iterator[str]:
    urn, to_delete = resource.get("urn"), resource.get("delete")
    parent, provider = resource.get("parent"), resource.get("provider")
    if parent and parent not in seen:
        yield f"the parent of {urn} is not in the snapshot before it: {parent}"
    if provider and provider not in references:
        yield f"the provider of {urn} is not in the snapshot before it: {provider}"
    for needed in resource.get("dependencies") or ():
        if needed not in seen and not to_delete:
            yield f"{urn} depends on what is not in the snapshot before it: {needed}"
