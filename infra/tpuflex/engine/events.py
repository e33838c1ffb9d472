"""The engine's event stream, reduced to a few typed events for people and logs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tpuflex.codes import Code, split_code

if TYPE_CHECKING:
    from pulumi.automation.events import DiagnosticEvent, EngineEvent, StepEventMetadata

#: Colour directives of the engine, such as ``<{%fg 1%}>``.
_COLOUR = re.compile(r"<\{%.*?%\}>")

#: Operations that leave the cloud as it is.
QUIET_OPERATIONS = frozenset({"same", "read", "refresh", "discard", "remove-pending-replace"})
#: The steps of a replacement that make something, and the one that deletes what is replaced.
_MAKING = frozenset({"create-replacement", "replace", "import-replacement", "read-replacement"})
_ENDING = "delete-replaced"
#: What the engine shows in place of a value that is secret.
_MASKED = "[secret]"


@dataclass(frozen=True, slots=True)
class Step:
    """One resource, and what the engine does with it.

    Attributes:
        operation: the engine's word: create, update, delete, replace, same, …
        type: type token such as ``gcp:storage/bucket:Bucket``.
        name: logical name of the resource.
        urn: the resource's URN.
        inputs: input properties as the program gave them, and of what is only read the properties
            that the cloud has; secrets are masked by the engine.
        changed: names of the properties that changed.
        custom: whether a provider makes it; components only group others.
        parent: URN of its parent, or empty.
        provider: reference of its provider (``URN::ID``), or empty.
        before: input properties that the state has; empty for what is created.
        replaced_for: names of the properties because of which it is replaced, if it is.
        deleted_first: whether it is deleted before there is another one in its place.
        ends_replaced: whether what an earlier operation has replaced under this URN, and did not
            come to delete, is deleted with it.
    """

    operation: str
    type: str
    name: str
    urn: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    custom: bool = True
    parent: str = ""
    provider: str = ""
    before: Mapping[str, object] = field(default_factory=dict)
    replaced_for: tuple[str, ...] = ()
    deleted_first: bool = False
    ends_replaced: bool = False

    def __str__(self) -> str:
        return f"{self.operation} {self.type.rpartition(':')[2]} {self.name}"

    @property
    def changes(self) -> bool:
        """Whether this step changes anything in the stack's state."""
        if self.type == "pulumi:pulumi:Stack":
            return False
        return self.ends_replaced or self.operation not in QUIET_OPERATIONS

    @property
    def touches_cloud(self) -> bool:
        """Whether this step changes anything in the cloud: no components, no providers."""
        return self.changes and self.custom and not self.type.startswith("pulumi:providers:")


@dataclass(frozen=True, slots=True)
class Drift:
    """A resource that is not in the cloud as the state has it.

    Attributes:
        type: type token such as ``gcp:storage/bucket:Bucket``.
        name: logical name of the resource.
        properties: names of those that were changed; none of a resource that was deleted.
    """

    type: str
    name: str
    properties: tuple[str, ...] = ()

    def __str__(self) -> str:
        changed = f": {', '.join(self.properties)}" if self.properties else ""
        return f"{self.type.rpartition(':')[2]} {self.name}{changed}"

    @property
    def word(self) -> str:
        """What became of it."""
        return "changed" if self.properties else "deleted"

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex preview --json``."""
        return {
            "change": self.word,
            "type": self.type,
            "name": self.name,
            "properties": list(self.properties),
        }


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What an operation would do, step by step.

    Attributes:
        steps: one per resource.
        saved: the plan as the engine saves it and can be held to it; empty if it was not asked for.
        drift: what is not as the state has it, of what was compared with the cloud: all if
            ``refreshed``, else the slice alone, which the engine reads before each update.
        refreshed: whether the state was brought in line with the cloud before it was planned.
    """

    steps: tuple[Step, ...]
    saved: bytes = field(default=b"", repr=False)
    drift: tuple[Drift, ...] = ()
    refreshed: bool = False

    @classmethod
    def of(cls, steps: Iterable[Step]) -> EnginePlan:
        """One step per resource: a replacement's parts (create, delete) count as `replace`, with
        the inputs of what is made and not of what is deleted."""
        parts: dict[str, list[Step]] = {}
        for step in steps:
            parts.setdefault(step.urn, []).append(step)
        return cls(tuple(map(_merged, parts.values())))

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change something in the stack's state."""
        return tuple(step for step in self.steps if step.changes)

    @property
    def resources(self) -> tuple[Step, ...]:
        """The steps that change something in the cloud."""
        return tuple(step for step in self.steps if step.touches_cloud)

    @property
    def digest(self) -> str:
        """The SHA-256, in hex, of every step that changes something, whatever their order: the same
        for two plans that would do the same.

        What was approved, perhaps on another machine, is compared by it with what would run before
        anything is created; while it runs, the engine holds it to the plan that was compared
        (:meth:`tpuflex.engine.run.EngineRun.up`). Inputs as they are and as they will be are part
        of it, so a state that another user has changed makes another digest. Values of secrets
        are not: the engine masks them.
        """
        steps = sorted(map(_digested, self.changes), key=lambda step: str(step["urn"]))
        text = json.dumps(steps, sort_keys=True, separators=(",", ":"), default=dict)
        return hashlib.sha256(text.encode()).hexdigest()


def _digested(step: Step) -> dict[str, object]:
    """What a digest tells of ``step``."""
    return {
        "urn": step.urn,
        "operation": step.operation,
        "before": step.before,
        "inputs": step.inputs,
        "deleted_first": step.deleted_first,
        "ends_replaced": step.ends_replaced,
    }


def _merged(parts: list[Step]) -> Step:
    """What the engine does under one URN, of which it tells in ``parts``, in their order."""
    ends = [each.operation == _ENDING for each in parts]
    makes = [each.operation in _MAKING for each in parts]
    if any(makes):
        (*_, made) = (each for each in parts if each.operation in _MAKING)
        return replace(
            made,
            operation="replace",
            before=made.before or next((each.before for each in parts if each.before), {}),
            deleted_first=any(ends) and ends.index(True) < makes.index(True),
        )
    stays = [each for each in parts if each.operation not in {_ENDING, "refresh"}]
    if not stays:
        return parts[-1]
    said = next((each for each in stays if each.changes), stays[-1])
    return replace(said, ends_replaced=any(ends))


@dataclass(frozen=True, slots=True)
class Started:
    """The engine begins a step."""

    step: Step

    def __str__(self) -> str:
        return f"{self.step} …"


@dataclass(frozen=True, slots=True)
class Finished:
    """A step is done."""

    step: Step
    outputs: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.step}: done"


@dataclass(frozen=True, slots=True)
class Failed:
    """A step failed; the reason comes as a :class:`Note`."""

    step: Step

    def __str__(self) -> str:
        return f"{self.step}: failed"


@dataclass(frozen=True, slots=True)
class Note:
    """A message of a provider, the program or the engine.

    Attributes:
        severity: ``info``, ``warning`` or ``error``.
        text: the message, without colours and code.
        name: logical name of the resource it is about, or empty.
        passing: the message only reports the progress of a wait.
        code: what our provider says that it is about, if it says so.
    """

    severity: str
    text: str
    name: str = ""
    passing: bool = False
    code: Code | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text

    @classmethod
    def of(cls, severity: str, message: str, name: str = "", *, passing: bool = False) -> Note:
        """The note of a message as the engine hands it over."""
        text, code = split_code(message)
        return cls(severity, text, name, passing, code)


@dataclass(frozen=True, slots=True)
class Totals:
    """The end of an operation: how many resources saw which operation."""

    changes: Mapping[str, int]
    seconds: int

    def __str__(self) -> str:
        counts = ", ".join(f"{operation} {count}" for operation, count in self.changes.items())
        return f"{counts or 'nothing'} in {self.seconds} s"


RunProgress = Started | Finished | Failed | Note | Totals


def progress_of(event: EngineEvent) -> RunProgress | None:
    """What ``event`` says, or None if it says nothing that is shown."""
    if event.resource_pre_event:
        return Started(_step(event.resource_pre_event.metadata))
    if event.res_outputs_event:
        metadata = event.res_outputs_event.metadata
        outputs = metadata.new.outputs if metadata.new and metadata.new.outputs else {}
        return Finished(_step(metadata), outputs)
    if event.res_op_failed_event:
        return Failed(_step(event.res_op_failed_event.metadata))
    if event.diagnostic_event:
        return _note(event.diagnostic_event)
    if event.summary_event:
        summary = event.summary_event
        changes = {str(getattr(k, "value", k)): n for k, n in summary.resource_changes.items()}
        return Totals(changes, summary.duration_seconds)
    return None


def drift_of(event: EngineEvent) -> Drift | None:
    """What a refresh found, if ``event`` says that it found something else than the state has."""
    ended = event.res_outputs_event
    if ended is None or ended.metadata.op.value != "refresh":
        return None
    found, old, new = ended.metadata, ended.metadata.old, ended.metadata.new
    if old is None or not old.custom or old.delete:
        return None  # what an update has replaced, and did not come to delete, is to be gone
    if new is None:
        return Drift(found.type, name_of(found.urn))
    # The engine names what it would take to go back to the state. That a request still waits, or
    # that a run has come to its last hours, is in there, too, and nobody has changed it.
    before, after = old.outputs or {}, new.outputs or {}
    changed = [
        name
        for name in found.diffs or ()
        if before.get(name) != after.get(name) or after.get(name) == _MASKED
    ]
    return Drift(found.type, name_of(found.urn), tuple(sorted(changed))) if changed else None


def name_of(urn: str) -> str:
    """The logical name at the end of a URN."""
    return urn.rsplit("::", 1)[-1]


def _step(metadata: StepEventMetadata) -> Step:
    state = metadata.new or metadata.old
    operation = metadata.op.value
    said = (state.outputs if operation == "read" else state.inputs) if state else None
    return Step(
        operation=operation,
        type=metadata.type,
        name=name_of(metadata.urn),
        urn=metadata.urn,
        inputs=dict(said or {}),
        changed=tuple(metadata.diffs or ()),
        # The engine hands them over in the order of a Go map: another one in every run.
        replaced_for=tuple(sorted(metadata.keys or ())),
        custom=bool(state and state.custom),
        parent=(state.parent or "") if state else "",
        provider=(state.provider or "") if state else "",
        before=dict(metadata.old.inputs) if metadata.old and metadata.old.inputs else {},
    )


def _note(event: DiagnosticEvent) -> Note | None:
    text = _COLOUR.sub("", event.message).strip()
    # The SDK's debug messages describe its internals, several for each resource.
    if not text or event.severity == "debug":
        return None
    return Note.of(
        event.severity.partition("#")[0],
        text,
        name_of(event.urn) if event.urn else "",
        passing=bool(event.ephemeral),
    )
