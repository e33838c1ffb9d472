"""``make reliability``: measures figures; updates docs/reliability.json and docs/reliability.md.

``python -m reliability.run [--budget 57m] [--seed 1] [--figures 1,3,4] [--workers 2]``, or
``--again FILE`` for one case that failed, or ``--render`` to write the document from earlier
measurements. Exits with 1 if a case failed or nothing was injected, and with 130 after Ctrl-C: the
results so far are then printed, and completed figures are saved.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from reliability import records, report
from reliability.command_rig import ROOT
from reliability.figures.figure import Case, Figure
from reliability.figures.pool import judged, measure, rig_for, scratch
from reliability.figures.table import FIGURES
from tpuflex.engine.find import ensure

DOCUMENT = ROOT / "docs" / "reliability.md"
RECORDS = DOCUMENT.with_suffix(".json")
REPRODUCTIONS = ROOT / ".tpuflex" / "reliability"
_UNITS = {"s": 1, "m": 60, "h": 3600}


def main(arguments: Sequence[str]) -> int:
    """Run; return the exit code."""
    given = _parser().parse_args(arguments)
    if given.again is not None:
        return _again(given.again)
    if given.render:
        _render()
        return 0
    chosen = [key.strip() for key in given.figures.split(",") if key.strip()]
    unknown = [key for key in chosen if key not in FIGURES]
    if unknown or not chosen:
        print(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    # In the order of the table: quick figures leave their unused time to slow ones.
    figures = [figure for figure in FIGURES.values() if figure.key in chosen]
    setting = records.Setting(
        seed=given.seed,
        budget_s=given.budget,
        workers=given.workers,
        versions=_versions(),
        command=f'make reliability ARGS="{" ".join(arguments)}"' if arguments else _PLAIN,
        commit=records.commit(ROOT),
    )
    shutil.rmtree(REPRODUCTIONS, ignore_errors=True)
    return _measure(figures, setting, write=given.write)


#: The document explains each of them.
_FIGURES_HELP = f"keys of the document's first column, of {', '.join(FIGURES)}"


def _measure(figures: Sequence[Figure], setting: records.Setting, *, write: bool) -> int:
    end = time.monotonic() + setting.budget_s
    passed = True
    for number, figure in enumerate(figures):
        left = end - time.monotonic()
        part = figure.share / sum(later.share for later in figures[number:])
        print(f"figure {figure.key} (seed {setting.seed}): {figure.title}", flush=True)
        outcome = measure(
            figure,
            seed=setting.seed,
            until=time.monotonic() + left * part,
            workers=setting.workers,
            reproductions=REPRODUCTIONS,
            progress=lambda text: print(text, flush=True),
        )
        print(report.line(outcome), flush=True)
        if outcome.cut_short:
            return 130
        passed = passed and outcome.passed
        if write:
            kept = records.load(RECORDS)
            kept[figure.key] = records.record(outcome, setting, datetime.now(UTC))
            records.save(RECORDS, kept)
            _render()
    return 0 if passed else 1


def _render() -> None:
    # From the file, whose order of words is not that of a fresh outcome: the rows that were not
    # measured stay as they are.
    DOCUMENT.write_text(report.markdown(records.load(RECORDS), FIGURES))
    print(f"written: {DOCUMENT.relative_to(ROOT)}", flush=True)


_PLAIN = "make reliability"


def _again(file: Path) -> int:
    """Repeat one case from its reproduction file."""
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
    parser.add_argument("--budget", type=_seconds, default=_seconds("57m"), help="such as 55m")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", default=",".join(FIGURES), help=_FIGURES_HELP)
    parser.add_argument("--workers", type=int, default=2, help="rigs at once")
    parser.add_argument("--again", type=Path, help="a reproduction file: run this case alone")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the document")
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


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
