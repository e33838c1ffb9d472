"""Ours beside the yardsticks, in one table of the report."""

from __future__ import annotations

from collections.abc import Sequence

from reliability.figures.figure import Outcome

#: Figure -> what it is here.
_WHO = {
    "1": "tpuflex",
    "10": "naive provider, names with a random end",
    "10g": "naive provider, one given name",
}
_KINDS = ("orphan", "duplicate", "manual")


def section(outcomes: Sequence[Outcome]) -> list[str]:
    """The table; nothing unless a yardstick was measured."""
    if not any(outcome.yardstick for outcome in outcomes):
        return []
    shown = [outcome for outcome in outcomes if outcome.key in _WHO]
    lines = [
        "## Killed, beside a naive provider",
        "",
        "The same roles and stages at every TPU call of each one's own `up` and `down`. After",
        "the kill: `tpuflex recover` and the same command; for the naive provider",
        "(`benchmarks/naive_provider`) `pulumi cancel`, `pulumi refresh --clear-pending-creates`,",
        "the same command, once more ten minutes later if it fails, and `down`. Cases that end",
        "with something in the cloud that nobody knows, with a second one, or in a state that",
        "takes a person; one case may count in several columns.",
        "",
        "| | Good / run | All cases | Orphans | Duplicates | Manual | Other |",
        "|---|---|---|---|---|---|---|",
        *(_row(outcome) for outcome in shown),
        "",
    ]
    if not any(outcome.key == "1" for outcome in shown):
        lines += ["Ours (figure 1) was not measured in this run.", ""]
    return lines


def _row(outcome: Outcome) -> str:
    ran, kinds = len(outcome.results), outcome.kinds
    other = sum(
        any(kind not in _KINDS for kind, _ in result.problems)
        and not any(kind in _KINDS for kind, _ in result.problems)
        for result in outcome.results
    )
    cells = [
        _WHO[outcome.key],
        f"{outcome.good}/{ran}",
        f"{outcome.possible}",
        *(f"{kinds[kind]}" for kind in _KINDS),
        f"{other}",
    ]
    return f"| {' | '.join(cells)} |"
