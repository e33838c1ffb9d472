"""``make reliability``: runs figures against the embedded cloud, and prints them as a table.

``--figures 1,3 --budget 15m --seed 1``; ``--strict`` runs them on a cloud as strict as Google,
``--case NAME`` one case alone. Exits with 1 if a case failed or nothing was injected. The rows are
those of docs/reliability.md, which is edited manually.
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reliability import faults, histories, kills, renewals, roles, teardown, weights
from reliability.cases import Case, Figure, Result, judged, sample

FIGURES = {
    figure.key: figure
    for figure in (
        faults.FIGURE,
        histories.FIGURE,
        *kills.FIGURES,
        teardown.FIGURE,
        *roles.FIGURES,
        *weights.FIGURES,
        *renewals.FIGURES,
    )
}
_SHM = Path("/dev/shm")
_UNITS = {"s": 1, "m": 60, "h": 3600}
_HEAD = """\
| # | Claim | Good / run | Run / all cases | Faults struck | Found | Measured |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a figure: of ``possible`` cases, those that were run."""

    figure: Figure
    possible: int
    results: Sequence[Result]

    @property
    def good(self) -> int:
        """The number of cases without a problem."""
        return sum(not result.problems for result in self.results)

    @property
    def struck(self) -> int:
        """The number of faults that struck."""
        return sum(result.struck for result in self.results)

    @property
    def passed(self) -> bool:
        """Whether every case that was run is good, and something was injected where it should."""
        meant = [result for result in self.results if result.must_strike]
        idle = not self.results or (bool(meant) and not any(each.struck for each in meant))
        return self.good == len(self.results) and not idle

    def row(self, measured: str, *, strict: bool) -> str:
        """Its row of the table."""
        ran, key = len(self.results), self.figure.key
        kinds = Counter(kind for each in self.results for kind in {k for k, _ in each.problems})
        counted = dict.fromkeys(self.figure.counted, 0) | kinds
        cells = (
            f"{key}-strict" if strict else key,
            self.figure.title,
            f"{self.good}/{ran}",
            f"{ran} of {self.possible}" + ("" if ran == self.possible else " (sampled)"),
            str(self.struck),
            ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items())),
            measured,
        )
        return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """Run; return the exit code."""
    given = _parser().parse_args(arguments)
    chosen = [key.strip() for key in given.figures.split(",") if key.strip()]
    unknown = [key for key in chosen if key not in FIGURES]
    if unknown or not chosen:
        print(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    end, rows, passed = time.monotonic() + given.budget, [], True
    measured = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, `{_commit()}`, seed {given.seed}"
    for number, key in enumerate(chosen):
        # What a quick figure leaves of its share, the later ones have.
        until = time.monotonic() + (end - time.monotonic()) / (len(chosen) - number)
        outcome = _measure(FIGURES[key], until, given)
        rows.append(outcome.row(measured, strict=given.strict))
        passed = passed and outcome.passed
        print(rows[-1], flush=True)
    print(_HEAD, *rows, sep="\n", flush=True)
    return 0 if passed else 1


def _measure(figure: Figure, until: float, given: argparse.Namespace) -> Outcome:
    """Run as many cases as the time allows, on several rigs at once."""
    print(f"figure {figure.key} (seed {given.seed}): {figure.title}", flush=True)
    with _scratch() as home, figure.rig(Path(home), given.strict) as rig:
        cases = sample(figure.cases(rig, given.seed), given.seed)
    if given.case:
        cases = [case for case in cases if case.name == given.case]
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    count = min(given.workers, figure.workers, len(cases))
    workers = [
        context.Process(
            target=_work, args=(figure.key, given.strict, cases[n::count], until, results)
        )
        for n in range(count)
    ]
    for worker in workers:
        worker.start()
    found: list[Result] = []
    while any(worker.is_alive() for worker in workers) or not results.empty():
        with suppress(queue.Empty):
            found.append(results.get(timeout=0.5))
            for kind, text in found[-1].problems:
                print(f"  ✗ {found[-1].name}: {kind}: {text[-600:]}", flush=True)
    return Outcome(figure, len(cases), found)


def _work(key: str, strict: bool, cases: list[Case], until: float, results: Any) -> None:
    figure = FIGURES[key]
    slowest = 0.0
    with suppress(KeyboardInterrupt), _scratch() as home, figure.rig(Path(home), strict) as rig:
        for number, case in enumerate(cases):
            began = time.monotonic()
            # At least one case of each worker: a figure without cases shows nothing.
            if number and began + slowest > until:
                break
            results.put(judged(figure, rig, case))
            slowest = max(slowest, time.monotonic() - began)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory for a rig, in memory if possible."""
    return tempfile.TemporaryDirectory(
        prefix="tpuflex-reliability-", dir=_SHM if _SHM.is_dir() else None
    )


def _commit() -> str:
    words = ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "no commit"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make reliability ARGS=…", allow_abbrev=False)
    parser.add_argument("--budget", type=_seconds, default=_seconds("15m"), help="such as 15m")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figures", default=",".join(FIGURES), help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--workers", type=int, default=2, help="rigs at once")
    parser.add_argument("--strict", action="store_true", help="on a cloud as strict as Google")
    parser.add_argument("--case", help="run this case alone")
    return parser


def _seconds(text: str) -> float:
    """``55m``, ``90s``, ``1h`` in seconds."""
    unit = text[-1:]
    if unit not in _UNITS or not text[:-1].isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 55m or 90s")
    return float(int(text[:-1]) * _UNITS[unit])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
