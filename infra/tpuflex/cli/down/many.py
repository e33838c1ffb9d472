"""The steps of `tpuflex down` for many stacks: look at all, ask once, tear down one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from tpuflex.cli.down.report import Outcome, Result, document, show_found, show_results
from tpuflex.deploy.candidates import Examined, examine
from tpuflex.deploy.known_stacks import KnownStack, known_stacks
from tpuflex.errors import (
    ConflictError,
    IncompleteTeardownError,
    InterruptedByUser,
    NotFoundError,
    TpuflexError,
)

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.known_stacks import Connect
    from tpuflex.deploy.selection import Selection


@dataclass(frozen=True, slots=True)
class Many:
    """What was asked for.

    Attributes:
        selection: what a stack must be like.
        every: whether all stacks of the project are meant, or the one that ``--stack`` names.
        dry_run: whether nothing is to be changed.
    """

    selection: Selection
    every: bool = True
    dry_run: bool = False


def run_down_many(invocation: Invocation, many: Many, connect: Connect) -> int:
    """Tear down the stacks that are meant, one after the other, and give the exit code: the highest
    of what did not succeed.

    One that fails does not stop the others; Ctrl-C stops after the call in flight. Each is looked
    at again before it is torn down, so that what has changed since the question counts.

    Raises:
        NotFoundError: ``--stack`` names a stack without a state.
        InterruptedByUser: nobody agreed.
    """
    output = invocation.output
    known, without_state = _meant(invocation, many)
    found = tuple(_examined(invocation, known, many, connect))
    show_found(output, found, without_state)
    chosen = [each for each in found if each.chosen]
    if many.dry_run or not chosen:
        results = [_result(each) for each in found]
    else:
        if not invocation.yes:
            _confirm(invocation, chosen)
        again = {each.name: each for each in known}
        work = _Work(many, connect, [_result(each) for each in found if not each.chosen])
        for number, each in enumerate(chosen, start=1):
            output.progress(f"Stack {each.name} ({number} of {len(chosen)}):")
            work.tear_down(invocation, each, again[each.name])
        results = work.results
    show_results(output, results, dry_run=many.dry_run)
    code = max((each.exit_code for each in results), default=0)
    output.document(document(found, results, without_state, dry_run=many.dry_run, exit_code=code))
    return code


def _meant(invocation: Invocation, many: Many) -> tuple[tuple[KnownStack, ...], tuple[str, ...]]:
    known, without_state = known_stacks(invocation)
    if many.every:
        return known, without_state
    name = invocation.stack
    one = tuple(each for each in known if each.name == name)
    if not one:
        invocation.project.stack_file(name)  # says which stacks there are
        raise NotFoundError(f"The stack {name} has no state: there is nothing to tear down.")
    return one, ()


def _examined(
    invocation: Invocation, known: Sequence[KnownStack], many: Many, connect: Connect
) -> Iterator[Examined]:
    for each in known:
        invocation.output.progress(f"Looking at stack {each.name} …")
        yield examine(invocation, each, many.selection, connect)


def _confirm(invocation: Invocation, chosen: Sequence[Examined]) -> None:
    """Ask for one word that nobody types by accident: the name, or how many there are."""
    if len(chosen) == 1:
        invocation.output.confirm_name("stack's name", chosen[0].name)
        return
    names = ", ".join(each.name for each in chosen)
    question = f"To tear down {names}, type how many stacks that are ({len(chosen)})"
    invocation.output.confirm(question, expected=str(len(chosen)))


@dataclass
class _Work:
    """The teardowns so far.

    Attributes:
        many: what was asked for.
        connect: connects to a stack's cloud.
        results: what became of each stack.
        stopped: whether the user has pressed Ctrl-C.
    """

    many: Many
    connect: Connect
    results: list[Result] = field(default_factory=list)
    stopped: bool = False

    def tear_down(self, invocation: Invocation, before: Examined, known: KnownStack) -> None:
        """Tear one stack down, unless the user has stopped."""
        if self.stopped:
            self.results.append(Result(before, Outcome.NOT_BEGUN, error=_stopped()))
            return
        try:
            self.results.append(self._torn_down(invocation, before, known))
        except (InterruptedByUser, KeyboardInterrupt, click.Abort):
            self.stopped = True
            self.results.append(Result(before, Outcome.FAILED, error=_stopped()))

    def _torn_down(self, invocation: Invocation, before: Examined, known: KnownStack) -> Result:
        now = examine(invocation, known, self.many.selection, self.connect)
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
        kept = now.teardown.kept(now.planned)
        return Result(before, Outcome.GONE, left=left, kept=kept)

    def _say(self, stack: Examined, error: TpuflexError | None) -> None:
        if error is None:
            return
        output = stack.invocation.output
        output.progress(f"Error: {stack.name}: {error.message}")
        if error.hint:
            output.progress(error.hint.for_stack(stack.name, stack.invocation.environ))


def _stopped() -> InterruptedByUser:
    return InterruptedByUser("stopped on request", hint="Run the same command again to go on.")


def _result(found: Examined) -> Result:
    """What becomes of a stack that is not torn down now."""
    if isinstance(found.error, ConflictError) and found.planned is not None:
        return Result(found, Outcome.PROTECTED, error=found.error)
    if found.error is not None:
        return Result(found, Outcome.FAILED, error=found.error)
    return Result(found, Outcome.KEPT if found.refusal else Outcome.TO_BE_DESTROYED)
