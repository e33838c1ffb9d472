"""How `tpuflex down` shows the teardown of many stacks: what there is, and what became of each."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.known_stacks import KnownStack, known_stacks
from tpuflex.deploy.many_teardowns import Candidates, ManyDown, TeardownFailed, down_many
from tpuflex.duration import format_age
from tpuflex.errors import NotFoundError

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.candidates import Candidate, Selection
    from tpuflex.deploy.many_teardowns import Connect
    from tpuflex.stack.progress import Progress
    from tpuflex.terminal.output import Output


def run_down_many(
    invocation: Invocation,
    selection: Selection,
    connect: Connect,
    *,
    every: bool = True,
    dry_run: bool = False,
) -> int:
    """Tear down the stacks that are meant, and give the exit code.

    Args:
        invocation: the command.
        selection: what a stack must be like.
        connect: connects to a stack's cloud.
        every: whether all stacks of the project are meant, or the one that ``--stack`` names.
        dry_run: whether nothing is to be changed.

    Raises:
        NotFoundError: ``--stack`` names a stack without a state.
        InterruptedByUser: nobody agreed.
    """
    output = invocation.output
    known, without_state = _meant(invocation, every=every)

    def report(progress: Progress | Candidates | TeardownFailed) -> None:
        match progress:
            case Candidates():
                show_found(output, progress)
            case TeardownFailed(stack, error):
                invocation.report(str(progress))
                if error.hint:
                    invocation.report(error.hint.for_stack(stack, invocation.environ))
            case _:
                invocation.report(progress)

    done = down_many(
        known,
        selection,
        connect,
        report,
        consent=invocation.consent,
        without_state=without_state,
        dry_run=dry_run,
    )
    show_results(output, done)
    output.document(done.to_json())
    return done.exit_code


def _meant(
    invocation: Invocation, *, every: bool
) -> tuple[tuple[KnownStack, ...], tuple[str, ...]]:
    known, without_state = known_stacks(
        invocation.project,
        invocation.open_named,
        invocation.environ,
        invocation.report,
        rehearsing=invocation.rehearsing,
    )
    if every:
        return known, tuple(each.name for each in without_state)
    name = invocation.stack
    one = tuple(each for each in known if each.name == name)
    if not one:
        invocation.project.stack_file(name)  # says which stacks there are
        raise NotFoundError(f"The stack {name} has no state: there is nothing to tear down.")
    return one, ()


def show_found(
    output: Output,
    before: Candidates,
) -> None:
    """List what there is of each stack, with its cost per hour."""
    found = before.found
    if not found:
        output.result("No stack of this project has a state: there is nothing to tear down.")
        return
    header = ("STACK", "PROJECT", "SLICE", "AGE", "RESOURCES", "$/HOUR", "SO FAR", "TEARDOWN")
    output.table(header, [_row(each) for each in found])
    total = [each.per_hour for each in found]
    known = sum((each for each in total if each is not None), Decimal("0.00"))
    more = ", and what is not known" if None in total else ""
    output.facts(
        (
            ("together", f"${known} per hour{more}"),
            ("not up", ", ".join(before.without_state)),
        )
    )
    for each in found:
        if each.planned is None:
            continue
        project = each.stack.settings.project if each.stack is not None else ""
        for line in (*each.planned.unlisted_lines(project), *each.planned.kept_lines()):
            output.result(f"  {each.name}: {line}")
    output.result()


def show_results(output: Output, done: ManyDown) -> None:
    """One table at the end: what became of each stack, and what it has cost."""
    results = done.results
    if done.dry_run:
        output.result("Nothing was changed (--dry-run).")
    elif results:
        output.table(
            ("STACK", "OUTCOME", "COST", "LEFT"),
            [
                (each.found.name, each.outcome.value, _dollars(each.found.spent), each.what)
                for each in results
            ],
        )
        for each in results:
            if each.kept.line:
                line = Advice.of(each.kept.line).for_stack(each.found.name, os.environ)
                output.result(f"  {each.found.name}: {line}")
        output.result("What no state knows is not in this list: tpuflex sweep --all")


def _row(found: Candidate) -> tuple[str, ...]:
    settings = found.stack.settings if found.stack is not None else None
    ours = len(found.planned.to_destroy) if found.planned is not None else None
    at, created = found.at, found.created
    age = None if at is None or created is None else at - created
    verdict = "yes"
    if found.error is not None:
        verdict = f"no: {' '.join(found.error.message.split())}"
    elif found.refusal:
        verdict = f"no: {found.refusal}"
    return (
        found.name,
        settings.project if settings is not None else "?",
        found.status.state if found.status is not None else "none" if found.planned else "?",
        "" if age is None else format_age(age),
        "?" if ours is None else str(ours),
        _dollars(found.per_hour),
        _dollars(found.spent),
        verdict,
    )


def _dollars(amount: Decimal | None) -> str:
    return "?" if amount is None else f"{amount}"
