"""``make reliability``: measures the figures and writes docs/reliability.md.

``python -m reliability.run [--budget 55m] [--seed 1] [--figures 1,3,4] [--workers 2]``, or
``--again FILE`` for one case that failed. Exits with 1 if a case failed or nothing was injected.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from reliability import report
from reliability.command_rig import ROOT
from reliability.figures.figure import Case, Outcome
from reliability.figures.pool import judged, measure, rig_for, scratch
from reliability.figures.table import FIGURES
from tpuflex.engine.find import ensure

DOCUMENT = ROOT / "docs" / "reliability.md"
REPRODUCTIONS = ROOT / ".tpuflex" / "reliability"
_UNITS = {"s": 1, "m": 60, "h": 3600}


def main(arguments: Sequence[str]) -> int:
    """Run; gives the exit code."""
    given = _parser().parse_args(arguments)
    if given.again is not None:
        return _again(given.again)
    chosen = [key.strip() for key in given.figures.split(",") if key.strip()]
    unknown = [key for key in chosen if key not in FIGURES]
    if unknown or not chosen:
        print(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    # The order of the table, so that what is quick leaves its time to what is slow.
    figures = [figure for figure in FIGURES.values() if figure.key in chosen]
    setting = report.Setting(
        seed=given.seed,
        budget_s=given.budget,
        workers=given.workers,
        versions=_versions(),
        command=f'make reliability ARGS="{" ".join(arguments)}"' if arguments else _PLAIN,
    )
    shutil.rmtree(REPRODUCTIONS, ignore_errors=True)
    end = time.monotonic() + given.budget
    outcomes: list[Outcome] = []
    for number, figure in enumerate(figures):
        left = end - time.monotonic()
        part = figure.share / sum(later.share for later in figures[number:])
        print(f"figure {figure.key} (seed {given.seed}): {figure.title}", flush=True)
        outcome = measure(
            figure,
            seed=given.seed,
            until=time.monotonic() + left * part,
            workers=given.workers,
            reproductions=REPRODUCTIONS,
            progress=lambda text: print(text, flush=True),
        )
        outcomes.append(outcome)
        print(report.line(outcome), flush=True)
    if given.write:
        report.write(DOCUMENT, outcomes, setting)
        print(f"written: {DOCUMENT.relative_to(ROOT)}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


_PLAIN = "make reliability"


def _again(file: Path) -> int:
    """One case from its reproduction file."""
    told = json.loads(file.read_text())
    figure = FIGURES[told["figure"]]
    with scratch() as home, rig_for(figure, Path(home)) as rig:
        result = judged(figure, rig, Case(told["name"], told["facts"]))
    print(f"{result.name}: {result.struck} faults struck, {len(result.problems)} problems")
    for kind, text in result.problems:
        print(f"  {kind}: {text}")
    return 1 if result.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make reliability ARGS=…", allow_abbrev=False)
    parser.add_argument("--budget", type=_seconds, default=_seconds("55m"), help="such as 55m")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", default=",".join(FIGURES), help="such as 1,3,4")
    parser.add_argument("--workers", type=int, default=2, help="rigs at once")
    parser.add_argument("--again", type=Path, help="a reproduction file: run this case alone")
    parser.add_argument(
        "--no-write",
        dest="write",
        action="store_false",
        help=f"leave {DOCUMENT.relative_to(ROOT)} as it is",
    )
    return parser


def _seconds(text: str) -> float:
    """``55m``, ``90s``, ``1h`` in seconds."""
    unit = text[-1:]
    if unit not in _UNITS or not text[:-1].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 55m or 90s")
    return float(int(text[:-1]) * _UNITS[unit])


def _versions() -> dict[str, str]:
    engine = ensure(ROOT / ".tpuflex", os.environ, lambda _: None)
    return {
        "tpuflex": version("tpuflex"),
        "Python": platform.python_version(),
        "Pulumi engine": engine.version,
        "Pulumi SDK": version("pulumi"),
    }


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
