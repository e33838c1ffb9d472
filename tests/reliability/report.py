"""What was measured, for the terminal and as docs/reliability.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from reliability.figures.figure import Outcome

#: What every report counts by name, also when there is none.
COUNTED = {
    "1": ("orphan", "duplicate", "manual"),
    "2": ("slow", "not converged", "orphan", "duplicate"),
    "3": ("untyped", "not converged", "orphan", "duplicate"),
    "3p": ("traceback", "untyped", "not converged", "orphan", "duplicate"),
    "4": ("orphan", "duplicate", "manual", "untyped"),
    "5": ("text", "exit code", "plan", "json", "orphan"),
    "5p": ("text", "exit code", "json"),
    "8": ("mutating",),
    "9": ("manual", "orphan"),
}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Setting:
    """Under what the figures were measured.

    Attributes:
        seed: decides the order of the cases, and every random choice.
        budget_s: how long the run was allowed to take.
        workers: rigs at once.
        versions: program -> version.
        command: what repeats it.
    """

    seed: int
    budget_s: float
    workers: int
    versions: dict[str, str]
    command: str


def line(outcome: Outcome) -> str:
    """One figure in one line."""
    ran = len(outcome.results)
    counted = outcome.kinds
    names = COUNTED.get(outcome.key, ())
    parts = [f"{counted[name]} {name}" for name in names]
    parts += [f"{n} {name}" for name, n in sorted(counted.items()) if name not in names]
    return (
        f"figure {outcome.key}: {outcome.good}/{ran} good ({', '.join(parts)}); "
        f"{ran} of {outcome.possible} cases run, {outcome.struck} faults struck, "
        f"{outcome.seconds:.0f} s"
    )


def markdown(outcomes: Sequence[Outcome], setting: Setting) -> str:
    """The whole document."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    versions = ", ".join(f"{name} {version}" for name, version in setting.versions.items())
    minutes = setting.budget_s / 60
    head = [
        "# Reliability, measured",
        "",
        "Written by `make reliability`; do not edit. Everything runs against the embedded cloud,",
        "with faults injected by rule, and is judged by an independent checker",
        "(`tests/reliability/invariants.py`). Nothing here was measured on Google Cloud.",
        "",
        f"- Measured: {now}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        f"- Versions: {versions}",
        f"- Seed: {setting.seed}; budget: {minutes:g} minutes; rigs at once: {setting.workers}",
        f"- Again: `{setting.command}`",
        "",
        "| # | Claim | Good / run | Run / all cases | Faults struck | Found |",
        "|---|---|---|---|---|---|",
        *(_row(outcome) for outcome in outcomes),
        "",
        "A figure whose cases are not all run is a sample, in an order that the seed decides.",
        "A run that injected nothing counts as failed. Real faults take real time: what keeps a",
        "connection silent for 40 s is injected into the provider's own code only (figure 3).",
        "Figure 4 judges I2 and I6 after each faulted step, and all while it settles without",
        "faults, but for I3 right after `recover` (only `refresh` finds what was deleted behind",
        "our back), and I2 while a replaced request stands in the state as to be deleted (the next",
        "`up` deletes it).",
        "",
    ]
    for outcome in outcomes:
        head += _section(outcome)
    return "\n".join(head).rstrip() + "\n"


def write(file: Path, outcomes: Sequence[Outcome], setting: Setting) -> None:
    """Write the document."""
    file.write_text(markdown(outcomes, setting))


def _row(outcome: Outcome) -> str:
    ran = len(outcome.results)
    counted = outcome.kinds
    names = [*COUNTED.get(outcome.key, ())]
    names += sorted(name for name in counted if name not in names)
    found = ", ".join(f"{counted[name]} {name}" for name in names)
    share = f"{ran}/{outcome.possible}" + ("" if ran == outcome.possible else " (sampled)")
    good = f"{outcome.good}/{ran}"
    claim = outcome.title
    return f"| {outcome.key} | {claim} | {good} | {share} | {outcome.struck} | {found} |"


def _section(outcome: Outcome) -> list[str]:
    """What failed, and what was measured beside good and bad."""
    values: dict[str, list[float]] = {}
    for result in outcome.results:
        for name, value in result.values.items():
            values.setdefault(name, []).append(value)
    lines = [
        f"- `{name}` over {len(found)} cases: least {min(found):g}, "
        f"median {sorted(found)[len(found) // 2]:g}, most {max(found):g}"
        for name, found in sorted(values.items())
    ]
    if outcome.idle:
        lines.append("- **Nothing was injected, or no case was run: this figure says nothing.**")
    failed = [result for result in outcome.results if result.problems]
    for result in failed[:_SHOWN]:
        kind, text = result.problems[0]
        lines.append(f"- `{result.name}`: {kind}: {_short(text)}")
    if len(failed) > _SHOWN:
        lines.append(f"- and {len(failed) - _SHOWN} more; each wrote its own reproduction file")
    return [f"## Figure {outcome.key}", "", *lines, ""] if lines else []


def _short(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return words if len(words) <= 240 else words[:240] + " …"
