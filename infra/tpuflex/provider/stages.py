"""The state table of a slice's generations: what follows from each event, by stage. Pure data.

:class:`tpuflex.provider.generations.Generations` carries it out and, while a generation boots that
takes over from one that serves, :class:`tpuflex.provider.handover.HandOver`. They look up what is
refused, and with which code; the other rows describe what they do anyway. docs/lifecycle.md shows
the table, and tests walk it row by row.

A stage is what one resource sees in one run of the engine. It is not in Pulumi's state, which has
`lifecycle` (:mod:`tpuflex.queued_resource.states`), `takesOverFrom` while a generation is to take
over, and `drainsUntil` while its hosts drain.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from tpuflex.codes import Code


class Stage(StrEnum):
    """Where one generation stands.

    Attributes:
        meaning: the stage in a sentence, for docs/lifecycle.md.
    """

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Stage:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    FREE = ("free", "no resource of the stack is known to have its name")
    PLANNED = ("planned", "a preview has shown that the resource asks for it")
    REQUESTED = ("requested", "the resource has asked for it: it waits, or its hosts are made")
    BOOTS = ("boots", "its hosts run, and what it takes over from serves until it does")
    HELD = ("held", "the state holds it; what this run does about it is not decided")
    CURRENT = ("current", "this run has made it or keeps it: the state goes on with it")
    REPLACED = ("replaced", "the state has it as to be deleted, and goes on with another one")
    NEEDED = ("needed", "it serves, and what was to take over from it does not")
    PLANNED_ELSEWHERE = ("planned elsewhere", "as planned, by another resource of the stack")
    REQUESTED_ELSEWHERE = ("requested elsewhere", "as requested, by another resource of the stack")
    HELD_ELSEWHERE = ("held elsewhere", "as held, under another resource of the stack")


class Event(Enum):
    """What happens to a generation."""

    CHECK = "the engine checks the inputs of the resource, or of what replaces it"
    PREVIEW = "a preview creates it"
    PREVIEW_ELSEWHERE = "a preview creates it for another resource"
    CREATE = "the engine creates it"
    CREATE_ELSEWHERE = "the engine creates it for another resource"
    RUNS = "its hosts run, and something answers that it takes over from"
    READY = "it serves, or its hosts run and nothing answers that it takes over from"
    STOPPED = "the engine stops the wait"
    UNREADY = "its creation or update ends before it is ready"
    BOOT_FAILED = "its boot fails, and `onBootFailure` is `delete`"
    NEXT_READY = "what takes over from it is ready"
    NEXT_UNREADY = "the creation or update of what takes over from it ends before that is ready"
    READ = "the engine reads it"
    READ_ELSEWHERE = "the engine reads it for another resource"
    GONE = "it is read, and is not there"
    KEPT = "the diff of an `up` does not replace it"
    DELETE = "the engine deletes it"
    NEXT_RUN = "the engine begins another run with the same process"


class Action(Enum):
    """What the provider does."""

    PLAN = "remembers who asks for it"
    REQUEST = "calls off the drain of what serves, asks for capacity, and waits until its hosts run"
    WAIT = "waits until its host serves"
    GO_ON = "remembers what the state goes on with"
    KEEP_BOTH = "fails and deletes neither: the next `up` waits for it again"
    DELETE_FAILED = "deletes it and fails; what serves is not touched"
    HOLD = "remembers that the state holds it"
    PROTECT = "remembers that it serves"
    FORGET = "forgets that stage"
    DELETE = "drains and deletes it, unless it is protected and nothing has taken over from it"
    DELETE_LATER = "waits until what the state goes on with serves, then drains and deletes it"
    REFUSE_SAME_NAME = "refuses to adopt what the state is about to delete"
    REFUSE_SHARED = "refuses: two resources would share it"
    REFUSE_CURRENT = "refuses: the state goes on with it"
    REFUSE_NEEDED = "refuses: nothing else serves"


@dataclass(frozen=True, slots=True)
class Row:
    """What follows from an event.

    Attributes:
        before: the stages in which it may come.
        event: what happens.
        action: what the provider does.
        after: the stage afterwards; None for the same one.
        written: what its answer writes to the state; empty for nothing.
        code: of the failure that it answers with, where that is the same each time.
    """

    before: tuple[Stage, ...]
    event: Event
    action: Action
    after: Stage | None = None
    written: str = ""
    code: Code | None = None


_OUTPUTS = "its outputs, as the cloud has them"
_FAILED = "it, as created and failed, with `takesOverFrom`"
_LOST = "nothing by a creation; by an update, that it is lost, with `takesOverFrom`"
_GONE = "that it is gone"
_MISSED = (
    "that it is gone; that it has ended, where its run is over; that it is lost, while what it was"
    " to take over from serves"
)
_FREE, _PLANNED, _REQUESTED, _BOOTS = Stage.FREE, Stage.PLANNED, Stage.REQUESTED, Stage.BOOTS
_HELD, _CURRENT, _REPLACED, _NEEDED = Stage.HELD, Stage.CURRENT, Stage.REPLACED, Stage.NEEDED
#: What the state holds.
_HOLDS = (_HELD, _CURRENT, _REPLACED, _NEEDED)
#: What a creation or an update waits for.
_AWAITED = (_REQUESTED, _HELD, _CURRENT)
#: What another resource has.
_ELSEWHERE = (Stage.PLANNED_ELSEWHERE, Stage.REQUESTED_ELSEWHERE, Stage.HELD_ELSEWHERE)
_E, _A = Event, Action

TABLE: tuple[Row, ...] = (
    Row((_PLANNED,), _E.CHECK, _A.FORGET, _FREE),
    Row((_HELD, _CURRENT, _REPLACED), _E.CHECK, _A.FORGET, _HELD),
    Row((_FREE, _PLANNED), _E.PREVIEW, _A.PLAN, _PLANNED),
    Row((_REQUESTED, *_HOLDS), _E.PREVIEW, _A.PLAN),
    Row(_ELSEWHERE, _E.PREVIEW, _A.REFUSE_SHARED),
    Row((_FREE,), _E.PREVIEW_ELSEWHERE, _A.PLAN, Stage.PLANNED_ELSEWHERE),
    Row((_FREE, _PLANNED, _REQUESTED), _E.CREATE, _A.REQUEST, _REQUESTED),
    Row(_HOLDS, _E.CREATE, _A.REFUSE_SAME_NAME),
    Row(_ELSEWHERE, _E.CREATE, _A.REFUSE_SHARED),
    Row((_FREE,), _E.CREATE_ELSEWHERE, _A.REQUEST, Stage.REQUESTED_ELSEWHERE),
    Row((_REQUESTED,), _E.RUNS, _A.WAIT, _BOOTS),
    Row(_AWAITED, _E.READY, _A.GO_ON, _CURRENT, _OUTPUTS),
    Row(_AWAITED, _E.UNREADY, _A.KEEP_BOTH, None, _FAILED),
    Row((_BOOTS,), _E.READY, _A.GO_ON, _CURRENT, _OUTPUTS),
    Row((_BOOTS,), _E.STOPPED, _A.KEEP_BOTH, _REQUESTED, _FAILED, Code.STOPPED),
    Row((_BOOTS,), _E.UNREADY, _A.KEEP_BOTH, _REQUESTED, _FAILED, Code.NOT_SERVING),
    Row((_BOOTS,), _E.BOOT_FAILED, _A.DELETE_FAILED, _FREE, _LOST, Code.NOT_SERVING),
    Row((_HELD, _CURRENT), _E.NEXT_READY, _A.GO_ON, _REPLACED),
    Row(_HOLDS, _E.NEXT_UNREADY, _A.PROTECT, _NEEDED),
    Row((_FREE, _PLANNED, _REQUESTED), _E.READ, _A.HOLD, _HELD, _OUTPUTS),
    Row((Stage.HELD_ELSEWHERE,), _E.READ, _A.HOLD, _HELD, _OUTPUTS),  # it was renamed since
    Row((Stage.REQUESTED_ELSEWHERE, *_HOLDS), _E.READ, _A.HOLD, None, _OUTPUTS),
    Row((Stage.PLANNED_ELSEWHERE,), _E.READ, _A.REFUSE_SHARED),
    Row((_FREE,), _E.READ_ELSEWHERE, _A.HOLD, Stage.HELD_ELSEWHERE, _OUTPUTS),
    Row((_HELD,), _E.GONE, _A.FORGET, _FREE, _MISSED),
    Row((_HELD, _CURRENT), _E.KEPT, _A.GO_ON, _CURRENT),
    Row((_HELD,), _E.DELETE, _A.DELETE, _FREE, _GONE),
    Row((_REPLACED,), _E.DELETE, _A.DELETE_LATER, _FREE, _GONE),
    Row((_CURRENT,), _E.DELETE, _A.REFUSE_CURRENT),
    Row((_NEEDED,), _E.DELETE, _A.REFUSE_NEEDED, code=Code.NOT_SERVING),
    Row(_HOLDS, _E.NEXT_RUN, _A.FORGET, _HELD),
)
_ROWS = {(stage, row.event): row for row in TABLE for stage in row.before}


def row_of(stage: Stage, event: Event) -> Row:
    """What follows from ``event`` in ``stage``."""
    return _ROWS[stage, event]
