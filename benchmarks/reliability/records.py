"""Measured figures, kept beside the document: each with when and how it was measured."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reliability.figures.figure import Outcome

Json = dict[str, Any]
#: How many failed cases are described; every one has a reproduction file.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Setting:
    """The conditions of a measurement.

    Attributes:
        seed: decides the order of the cases, and every random choice.
        budget_s: how long the run was allowed to take, for all figures that it measured.
        workers: number of rigs at once.
        versions: program -> version.
        command: the command that repeats it.
        commit: the checkout; with a ``+`` if files in it were changed.
    """

    seed: int
    budget_s: float
    workers: int
    versions: dict[str, str]
    command: str
    commit: str


def record(outcome: Outcome, setting: Setting, now: datetime) -> Json:
    """One figure as it is stored."""
    values: dict[str, list[float]] = {}
    for result in outcome.results:
        for name, value in result.values.items():
            values.setdefault(name, []).append(value)
    failed = [result for result in outcome.results if result.problems]
    kinds = dict.fromkeys(outcome.counted, 0) | dict(sorted(outcome.kinds.items()))
    return {
        "title": outcome.title,
        "good": outcome.good,
        "ran": len(outcome.results),
        "possible": outcome.possible,
        "struck": outcome.struck,
        "idle": outcome.idle,
        "seconds": round(outcome.seconds),
        "found": kinds,
        "values": {
            name: {
                "cases": len(found),
                "least": min(found),
                "median": sorted(found)[len(found) // 2],
                "most": max(found),
            }
            for name, found in sorted(values.items())
        },
        "failed": len(failed),
        "shown": [[result.name, *result.problems[0]] for result in failed[:_SHOWN]],
        "measured": now.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "setting": asdict(setting),
    }


def load(file: Path) -> dict[str, Json]:
    """The figures in ``file``, by key; none if there is no such file."""
    if not file.is_file():
        return {}
    found: dict[str, Json] = json.loads(file.read_text())
    return found


def save(file: Path, records: dict[str, Json]) -> None:
    """Write ``records``, one figure per line, so that a diff shows what was measured."""
    lines = (
        f"{json.dumps(figure)}: {json.dumps(record, sort_keys=True, ensure_ascii=False)}"
        for figure, record in sorted(records.items())
    )
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def commit(root: Path) -> str:
    """The commit checked out in ``root``, with a ``+`` if files in it were changed; empty if git is
    not available."""
    try:
        head = _git(root, "rev-parse", "--short=10", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    # Files that the measurement writes do not count as changes.
    other = [line for line in changed.splitlines() if "docs/reliability." not in line]
    return head + ("+" if other else "")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()
