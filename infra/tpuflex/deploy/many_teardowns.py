"""The teardown of many stacks of a project: look at all, ask once, tear down one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.deploy.candidates import Candidate, Selection, candidate
from tpuflex.deploy.known_stacks import KnownStack
from tpuflex.deploy.teardown import Remainder
from tpuflex.errors import (
    ConflictError,
    IncompleteTeardownError,
    InterruptedByUser,
    TpuflexError,
)
from tpuflex.planning.cost import usd
from tpuflex.stack.progress import (
    Consent,
    Progress,
    require_consent,
    require_name,
    silent,
)

if TYPE_CHECKING:
    from tpuflex.inventory.inventory import Inventory
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

Connect = Callable[["Stack"], "Connection"]


class Outcome(StrEnum):
    """What became of a stack."""

    GONE = "gone"
    TO_BE_DESTROYED = "to be destroyed"
    KEPT = "kept"
    PROTECTED = "protected"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    NOT_BEGUN = "not begun"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one stack.

    Attributes:
        found: the stack as it was before.
        outcome: what became of it.
        error: what went wrong; None if nothing did.
        left: the inventory afterwards, if it was torn down.
        kept: what it leaves of weights.
    """

    found: Candidate
    outcome: Outcome
    error: TpuflexError | None = None
    left: Inventory | None = None
    kept: Remainder = field(default_factory=Remainder)

    @property
    def exit_code(self) -> int:
        """The exit code that this stack alone would give."""
        return 0 if self.error is None else self.error.exit_code

    @property
    def what(self) -> str:
        """The rest of it on one line: what is left, or why."""
        if self.error is not None:
            return " ".join(self.error.message.split())
        if self.outcome is Outcome.KEPT:
            return self.found.refusal
        return "nothing is left: every service was asked" if self.outcome is Outcome.GONE else ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """What there is, told before `down` asks.

    Attributes:
        found: the stacks with a state.
        without_state: names of those that have a stack file alone.
    """

    found: tuple[Candidate, ...]
    without_state: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"Stacks: {', '.join(each.name for each in self.found) or 'none'}"


@dataclass(frozen=True, slots=True)
class ManyDown:
    """What became of many stacks.

    Attributes:
        before: what there was.
        results: what became of each, in the order in which they were taken.
        dry_run: whether nothing was to be changed.
    """

    before: Candidates
    results: tuple[Result, ...]
    dry_run: bool

    @property
    def exit_code(self) -> int:
        """The highest of what did not succeed; 0 if all did."""
        return max((each.exit_code for each in self.results), default=0)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex down --all --json`` prints."""
        by_name = {each.found.name: each for each in self.results}
        return {
            "dry_run": self.dry_run,
            "exit_code": self.exit_code,
            "not_up": list(self.before.without_state),
            "stacks": [_entry(each, by_name[each.name]) for each in self.before.found],
        }


@dataclass(frozen=True, slots=True)
class TeardownFailed:
    """One stack could not be torn down; the others go on.

    Attributes:
        stack: its name.
        error: why.
    """

    stack: str
    error: TpuflexError

    def __str__(self) -> str:
        return f"Error: {self.stack}: {self.error.message}"


#: Takes what there is, how far the teardowns are, and what fails.
ManyReport = Callable[[Progress | Candidates | TeardownFailed], None]


def down_many(
    known: Sequence[KnownStack],
    selection: Selection,
    connect: Connect,
    report: ManyReport = silent,
    *,
    consent: Consent,
    without_state: tuple[str, ...] = (),
    dry_run: bool = False,
) -> ManyDown:
    """Tear down those of the ``known`` stacks that are meant, one after the other.

    One that fails does not stop the others; Ctrl-C stops after the call in flight. Each is looked
    at again before it is torn down, so that what has changed since the question counts.

    Args:
        known: the stacks that have a state.
        selection: what a stack must be like.
        connect: connects to a stack's cloud.
        report: is told what there is, and then how far it is.
        consent: asked once for one word that nobody types by accident.
        without_state: names of stacks that have a stack file alone.
        dry_run: whether nothing is to be changed.

    Raises:
        InterruptedByUser: nobody agreed.
    """
    found: list[Candidate] = []
    for stack in known:
        report(f"Looking at stack {stack.name} …")
        found.append(candidate(stack, selection, connect, report))
    before = Candidates(tuple(found), without_state)
    report(before)
    chosen = [each for each in found if each.chosen]
    if dry_run or not chosen:
        return ManyDown(before, tuple(map(_result, found)), dry_run)
    _agree(consent, [each.name for each in chosen])
    again = {stack.name: stack for stack in known}
    work = _Work(selection, connect, report, [_result(each) for each in found if not each.chosen])
    for number, each in enumerate(chosen, start=1):
        report(f"Stack {each.name} ({number} of {len(chosen)}):")
        work.tear_down(each, again[each.name])
    return ManyDown(before, tuple(work.results), dry_run)


def _agree(consent: Consent, names: Sequence[str]) -> None:
    """Ask for one word that nobody types by accident: the name, or how many there are."""
    if len(names) == 1:
        require_name(consent, "stack's name", names[0])
        return
    question = f"To tear down {', '.join(names)}, type how many stacks that are ({len(names)})"
    require_consent(consent, question, expected=str(len(names)))


@dataclass
class _Work:
    """The teardowns so far.

    Attributes:
        selection: what a stack must be like.
        connect: connects to a stack's cloud.
        report: receives progress.
        results: what became of each stack.
        stopped: whether the user has pressed Ctrl-C.
    """

    selection: Selection
    connect: Connect
    report: ManyReport
    results: list[Result] = field(default_factory=list)
    stopped: bool = False

    def tear_down(self, before: Candidate, known: KnownStack) -> None:
        """Tear one stack down, unless the user has stopped."""
        if self.stopped:
            self.results.append(Result(before, Outcome.NOT_BEGUN, error=_stopped()))
            return
        try:
            self.results.append(self._torn_down(before, known))
        except (InterruptedByUser, KeyboardInterrupt):
            self.stopped = True
            self.results.append(Result(before, Outcome.FAILED, error=_stopped()))

    def _torn_down(self, before: Candidate, known: KnownStack) -> Result:
        now = candidate(known, self.selection, self.connect, self.report)
        if not now.chosen or now.teardown is None or now.planned is None:
            result = _result(now)
            self._say(now, result.error)
            return result
        try:
            left = now.teardown.carry_out(now.planned)
        except InterruptedByUser:
            raise
        except TpuflexError as error:
            self._say(now, error)
            left_behind = isinstance(error, IncompleteTeardownError)
            outcome = Outcome.INCOMPLETE if left_behind else Outcome.FAILED
            return Result(before, outcome, error=error)
        return Result(before, Outcome.GONE, left=left, kept=now.teardown.kept(now.planned))

    def _say(self, stack: Candidate, error: TpuflexError | None) -> None:
        if error is None:
            return
        self.report(TeardownFailed(stack.name, error))


def _stopped() -> InterruptedByUser:
    return InterruptedByUser("stopped on request", hint="Run the same command again to go on.")


def _result(found: Candidate) -> Result:
    """What becomes of a stack that is not torn down now."""
    if isinstance(found.error, ConflictError) and found.planned is not None:
        return Result(found, Outcome.PROTECTED, error=found.error)
    if found.error is not None:
        return Result(found, Outcome.FAILED, error=found.error)
    return Result(found, Outcome.KEPT if found.refusal else Outcome.TO_BE_DESTROYED)


def _entry(found: Candidate, result: Result) -> dict[str, object]:
    planned, status, error = found.planned, found.status, result.error
    settings = found.stack.settings if found.stack is not None else None
    before = planned.before.items if planned is not None else ()
    items = result.left.items if result.left is not None else before
    return {
        "stack": found.name,
        "cloud": settings.cloud if settings is not None else None,
        "project": settings.project if settings is not None else None,
        "chosen": found.chosen,
        "outcome": result.outcome.value,
        "why": result.what,
        "exit_code": result.exit_code,
        "error": None
        if error is None
        else {"kind": type(error).__name__, "message": error.message, "hint": str(error.hint)},
        "slice": None if status is None else status.state,
        "created": found.created,
        "usd_per_hour": usd(found.per_hour),
        "usd_so_far": usd(found.spent),
        "inventory": [item.to_json() for item in items],
        "kept_weights": result.kept.weights,
        "not_deleted": [
            {"keeper": each.keeper.value, "id": each.id, "remedy": str(each.remedy)}
            for each in (planned.not_deleted if planned is not None else ())
        ],
    }
