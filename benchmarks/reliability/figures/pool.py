"""Runs a figure's cases on several rigs at once, until they are done or time is up."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from reliability.edge_rig import EdgeRig
from reliability.figures.figure import Case, Figure, MakeRig, Outcome, Result, RigName, sample
from reliability.naive_rig import NaiveRig
from reliability.provider_process import ProviderProcess
from reliability.rig import SliceRig, StackRig
from reliability.row_rig import RowRig
from reliability.servicer_rig import ServicerRig

#: How much faster than real time the clock of a :class:`SliceRig` runs.
SPEED = 10.0
#: The same on a strict cloud, where a minute must outlast the start of a command.
STRICT_SPEED = 2.0
#: The same for a :class:`RowRig`, whose commands wait until their deadline.
ROW_SPEED = 60.0
_SHM = Path("/dev/shm")
#: How often a case is tried if its fault does not strike.
_TRIES = 3


_RIGS: Mapping[RigName, MakeRig] = {
    "servicer": lambda home: ServicerRig(home / "emulator"),
    "edges": lambda home: EdgeRig(home / "emulator"),
    "provider": ProviderProcess,
    "slice": lambda home: SliceRig(home / "project", speed=SPEED),
    "rows": lambda home: RowRig(home / "project", speed=ROW_SPEED),
    "stack": lambda home: StackRig(home / "project", speed=SPEED),
    "naive": lambda home: NaiveRig(home / "project", speed=SPEED),
}


#: The same on a strict cloud, as far as there are figures on it.
_STRICT_RIGS: Mapping[RigName, MakeRig] = {
    "servicer": lambda home: ServicerRig(home / "emulator", strict=True),
    "edges": lambda home: EdgeRig(home / "emulator", strict=True),
    "slice": lambda home: SliceRig(home / "project", speed=STRICT_SPEED, strict=True),
    "stack": lambda home: StackRig(home / "project", speed=SPEED, strict=True),
}


def rig_for(figure: Figure, home: Path) -> AbstractContextManager[Any]:
    """The rig that a figure's cases run on."""
    if callable(figure.rig):
        return figure.rig(home)
    make = (_STRICT_RIGS if figure.strict else _RIGS)[figure.rig]
    return make(home)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory for a rig, in memory if possible."""
    return tempfile.TemporaryDirectory(
        prefix="tpuflex-reliability-", dir=_SHM if _SHM.is_dir() else None
    )


def judged(figure: Figure, rig: object, case: Case) -> Result:
    """One case's result; an exception counts against the case and does not end the run.

    A fault that missed (the process had ended a moment before, another thread made the call)
    says nothing about what the case should show: the case is run again, and that is counted.
    """
    for again in range(_TRIES):
        result, told = _told(figure, rig, case)
        missed = told and {kind for kind, _ in result.problems} == {"rig"}
        if again:
            result.values["told again"] = again
        if not missed:
            break
    return result


def _told(figure: Figure, rig: object, case: Case) -> tuple[Result, bool]:
    """The result, and whether the case ran to its end."""
    try:
        return figure.judge(rig, case), True
    except Exception as error:
        text = str(error)
        kind = "traceback" if "Traceback (most recent" in text else "rig"
        problem = (kind, f"{type(error).__name__}: {text[-800:]}")
        return Result(case.name, 0, True, [problem]), False


def measure(
    figure: Figure,
    *,
    seed: int,
    until: float,
    workers: int,
    reproductions: Path,
    progress: Callable[[str], None],
) -> Outcome:
    """Run as many cases as the time allows.

    Args:
        figure: the figure to measure.
        seed: decides the order, and so which cases are run when time is short.
        until: when to end, by ``time.monotonic()``.
        workers: the number of rigs.
        reproductions: directory for files that repeat failed cases.
        progress: called with a line now and then.
    """
    began = time.monotonic()
    with scratch() as home, rig_for(figure, Path(home)) as rig:
        cases = sample(figure.cases(rig, seed), seed)
    context = multiprocessing.get_context("spawn")
    tasks: Any = context.Queue()
    results: Any = context.Queue()
    for number, case in enumerate(cases):
        tasks.put((number, case))
    running = [
        context.Process(target=_work, args=(figure.key, tasks, results, until - figure.spare))
        for _ in range(min(workers, len(cases)))
    ]
    for process in running:
        process.start()
    outcome = Outcome(
        figure.key,
        figure.title,
        len(cases),
        [],
        0.0,
        counted=figure.counted,
        yardstick=figure.yardstick,
    )

    def note(number: int, result: Result) -> None:
        outcome.results.append(result)
        if result.problems:
            outcome.reproductions.append(_write(reproductions, figure, seed, cases[number], result))
            # A yardstick's failures are not reported one by one.
            if not figure.yardstick:
                text = "; ".join(" ".join(problem) for problem in result.problems)
                progress(f"  ✗ {result.name}: {text[:300]}")

    try:
        _gather(running, results, note, lambda: progress(_so_far(outcome)))
    except KeyboardInterrupt:
        outcome.cut_short = True
        for process in running:
            process.terminate()  # what their rigs started ends with them
    tasks.cancel_join_thread()
    tasks.close()
    for process in running:
        process.join()
    outcome.results.sort(key=lambda result: result.name)
    outcome.seconds = time.monotonic() - began
    return outcome


def _so_far(outcome: Outcome) -> str:
    return f"  figure {outcome.key}: {outcome.good}/{len(outcome.results)} so far"


def _gather(
    running: list[Any],
    results: Any,
    note: Callable[[int, Result], None],
    tell: Callable[[], None],
) -> None:
    """Collect the workers' results until all workers have ended."""
    told = time.monotonic()
    while True:
        alive = any(process.is_alive() for process in running)
        try:
            note(*results.get(timeout=0.2))
        except queue.Empty:
            if not alive:
                return
            continue
        if time.monotonic() - told > 10:
            told = time.monotonic()
            tell()


def _work(key: str, tasks: Any, results: Any, until: float) -> None:
    from reliability.figures.table import FIGURES

    # Ctrl-C reaches the whole process group, but the main process ends the others. The signal is
    # handled rather than ignored, because commands would inherit that it is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    figure = FIGURES[key]
    with scratch() as home, rig_for(figure, Path(home)) as rig:
        # At least one case per worker: a figure without cases shows nothing.
        for turn in itertools.count():
            if turn and time.monotonic() >= until:
                return
            try:
                number, case = tasks.get(timeout=0.5)
            except queue.Empty:
                return
            results.put((number, judged(figure, rig, case)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _write(directory: Path, figure: Figure, seed: int, case: Case, result: Result) -> Path:
    """The file that reproduces a failed case."""
    from reliability.figures import histories
    from reliability.figures.history_plans import plan

    facts = dict(case.facts)
    if figure.judge is histories.judge and "steps" not in facts:
        facts["steps"] = plan(facts["seed"])
    directory.mkdir(parents=True, exist_ok=True)
    words = "".join(c if c.isalnum() or c in ".#-" else "-" for c in case.name)
    file = directory / f"{figure.key}-{words}.json"
    document = {"figure": figure.key, "seed": seed, "name": case.name, "facts": facts}
    file.write_text(json.dumps({**document, "problems": result.problems}, indent=1) + "\n")
    return file
