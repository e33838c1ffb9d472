"""The records of the TPU service: queued resources, nodes, operations."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from embedded_cloud.core.json_types import JsonObject


class QueuedState(StrEnum):
    """States of a queued resource, in the API's spelling.

    GONE is not a state of the API: the record is to be deleted.
    """

    CREATING = "CREATING"
    WAITING = "WAITING_FOR_RESOURCES"
    PROVISIONING = "PROVISIONING"
    ACTIVE = "ACTIVE"
    SUSPENDING = "SUSPENDING"
    SUSPENDED = "SUSPENDED"
    FAILED = "FAILED"
    DELETING = "DELETING"
    GONE = "GONE"


class NodeState(StrEnum):
    """The states of a node that the emulator uses, in the API's spelling."""

    CREATING = "CREATING"
    READY = "READY"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    STARTING = "STARTING"
    DELETING = "DELETING"
    PREEMPTED = "PREEMPTED"


class Initiator(StrEnum):
    """Who caused the present state of a queued resource."""

    USER = "USER"
    SERVICE = "SERVICE"


@dataclass(frozen=True, slots=True)
class Place:
    """A project and a zone."""

    project: str
    zone: str

    @property
    def parent(self) -> str:
        """``projects/{project}/locations/{zone}``."""
        return f"projects/{self.project}/locations/{self.zone}"


@dataclass(frozen=True, slots=True)
class Record:
    """What every record has.

    Attributes:
        project, zone, id: where it is and what it is called.
    """

    #: Its collection in the store; the last part is its collection in the API.
    collection: ClassVar[str]

    project: str
    zone: str
    id: str

    @property
    def place(self) -> Place:
        """Project and zone."""
        return Place(self.project, self.zone)

    @property
    def name(self) -> str:
        """Full resource name."""
        return f"{self.place.parent}/{self.collection.rpartition('/')[2]}/{self.id}"

    def to_json(self) -> JsonObject:
        """The stored form: the fields as they are (the store copies them)."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass(frozen=True, slots=True)
class QueuedResource(Record):
    """One queued resource. Times are epoch seconds on the cloud's clock.

    Attributes:
        spec: the request's body, as given in v2alpha1 spelling.
        created_at: when it was requested.
        state, since: the present state and when it was entered.
        initiator: who caused it.
        rejection: canonical code and message with which admission will reject it.
        error: canonical code and message of its failure.
        granted_by_poll_at: when a poll granted it (capacity by number of polls).
        polls: GETs seen while it waited.
        active_at: when it became ACTIVE.
        valid_after, valid_until: bounds of its queueing policy.
        run_for: seconds that its nodes run, or ``None`` for no limit.
        run_until: fixed end of its run, or ``None``.
    """

    collection: ClassVar[str] = "tpu/queuedResources"

    spec: JsonObject
    created_at: float
    since: float
    state: QueuedState = QueuedState.CREATING
    initiator: Initiator = Initiator.USER
    rejection: tuple[str, str] | None = None
    error: tuple[str, str] | None = None
    granted_by_poll_at: float | None = None
    polls: int = 0
    active_at: float | None = None
    valid_after: float | None = None
    valid_until: float | None = None
    run_for: float | None = None
    run_until: float | None = None

    @property
    def ends_at(self) -> float | None:
        """When its run is over, if it is ACTIVE and has an end."""
        if self.active_at is None:
            return None
        ends = [self.run_until, None if self.run_for is None else self.active_at + self.run_for]
        return min((end for end in ends if end is not None), default=None)

    @classmethod
    def from_json(cls, document: JsonObject) -> QueuedResource:
        """Read the stored form."""
        fields = dict[str, object](document)
        fields["state"] = QueuedState(str(document["state"]))
        fields["initiator"] = Initiator(str(document["initiator"]))
        for key in ("rejection", "error"):
            fields[key] = _pair(document.get(key))
        return cls(**fields)  # type: ignore[arg-type]  # what to_json() wrote


@dataclass(frozen=True, slots=True)
class Node(Record):
    """One node.

    Attributes:
        spec: the node as requested, without output fields.
        api_version: ``V2_ALPHA1`` or ``V2``: the API version that created it.
        created_at: when it was created.
        state, since: the present state and when it was entered.
        queued_resource: full name of the queued resource it belongs to, or empty.
        host_key: name of its first worker's directory under ``hosts/``.
        addresses: one loopback address per worker.
    """

    collection: ClassVar[str] = "tpu/nodes"

    spec: JsonObject
    api_version: str
    created_at: float
    since: float
    state: NodeState = NodeState.CREATING
    queued_resource: str = ""
    host_key: str = ""
    addresses: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: JsonObject) -> Node:
        """Read the stored form."""
        fields = dict[str, object](document)
        fields["state"] = NodeState(str(document["state"]))
        addresses = document.get("addresses")
        fields["addresses"] = tuple(addresses) if isinstance(addresses, list) else ()
        return cls(**fields)  # type: ignore[arg-type]  # what to_json() wrote


class Outcome(StrEnum):
    """What an operation's ``response`` holds."""

    QUEUED_RESOURCE = "QueuedResource"
    NODE = "Node"
    EMPTY = "Empty"


@dataclass(frozen=True, slots=True)
class Operation(Record):
    """One long-running operation.

    Attributes:
        verb: such as ``create``.
        target: full name of the resource it works on.
        api_version: API version of the call.
        created_at: when it began.
        done_at: when it is done (known from the beginning: nothing here is random).
        error: canonical code and message that it ends with.
        outcome: what its response holds when it succeeds.
        snapshot: the stored form of the target, answered when the target is gone.
    """

    collection: ClassVar[str] = "_tpu/operations"

    verb: str
    target: str
    api_version: str
    created_at: float
    done_at: float
    outcome: Outcome
    error: tuple[str, str] | None = None
    snapshot: JsonObject | None = None

    @classmethod
    def from_json(cls, document: JsonObject) -> Operation:
        """Read the stored form."""
        fields = dict[str, object](document)
        fields["outcome"] = Outcome(str(document["outcome"]))
        fields["error"] = _pair(document.get("error"))
        return cls(**fields)  # type: ignore[arg-type]  # what to_json() wrote


def _pair(value: object) -> tuple[str, str] | None:
    if isinstance(value, list | tuple) and len(value) == 2:
        return str(value[0]), str(value[1])
    return None


def numeric_id(name: str, created_at: float) -> str:
    """The int64 id of the resource ``name`` created at that time; another one if recreated."""
    digest = hashlib.sha256(f"{name}\0{created_at!r}".encode()).digest()
    return str(int.from_bytes(digest[:8]) >> 1 | 1 << 60)
