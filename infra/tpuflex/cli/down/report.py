"""What `tpuflex down` prints about many stacks: the inventory before, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.deploy.plan import number
from tpuflex.deploy.teardown import Left
from tpuflex.duration import format_age
from tpuflex.errors import TpuflexError

if TYPE_CHECKING:
    from tpuflex.deploy.candidates import Examined
    from tpuflex.inventory.inventory import Inventory
    from tpuflex.terminal.output import Output


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

    found: Examined
    outcome: Outcome
    error: TpuflexError | None = None
    left: Inventory | None = None
    kept: Left = field(default_factory=Left)

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


def show_found(
    output: Output,
    found: Sequence[Examined],
    without_state: Sequence[str],
) -> None:
    """List what there is of each stack, with its cost per hour."""
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
            ("not up", ", ".join(without_state)),
        )
    )
    for each in found:
        if each.planned is None:
            continue
        project = each.stack.settings.project if each.stack is not None else ""
        for line in (*each.planned.unseen_lines(project), *each.planned.kept_lines()):
            output.result(f"  {each.name}: {line}")
    output.result()


def show_results(output: Output, results: Sequence[Result], *, dry_run: bool) -> None:
    """One table at the end: what became of each stack, and what it has cost."""
    if dry_run:
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
                output.result(f"  {each.found.name}: {each.kept.line}")
        output.result("What no state knows is not in this list: tpuflex sweep --all")


def document(
    found: Sequence[Examined],
    results: Sequence[Result],
    without_state: Sequence[str],
    *,
    dry_run: bool,
    exit_code: int,
) -> dict[str, object]:
    """The document of ``--json``."""
    by_name = {each.found.name: each for each in results}
    return {
        "dry_run": dry_run,
        "exit_code": exit_code,
        "not_up": list(without_state),
        "stacks": [_entry(each, by_name[each.name]) for each in found],
    }


def _entry(found: Examined, result: Result) -> dict[str, object]:
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
        "usd_per_hour": number(found.per_hour),
        "usd_so_far": number(found.spent),
        "inventory": [item.to_json() for item in items],
        "kept_weights": result.kept.weights,
        "not_deleted": [
            {"keeper": each.keeper.value, "id": each.id, "remedy": str(each.remedy)}
            for each in (planned.not_deleted if planned is not None else ())
        ],
    }


def _row(found: Examined) -> tuple[str, ...]:
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
