"""How long the tour takes beside vLLM's own start, and `up` beside queue and boot, on this machine.

Run with ``.venv/bin/python benchmarks/demo.py [--runs 3]`` where ``make demo`` has run before, so
that engine, image and model are there; docs/speed.md has figures. Each run takes the tour,
``tpuflex demo``, and brings the stack up once more. Before and after each of the two the same
server is started alone, in a home of its own, to its first completion, and *alone* is the mean
of the two: the speed of many a machine moves by a fifth within minutes. The ratio is that of the
tour to it. Of `up` is printed where the time went:

    queue   from the request for capacity to the host's first word
    boot    from there to READY, of which the startup script's own phases
    other   all else: what `up` does before it asks for capacity, and after READY

The script's own phases and the rest are printed as shares of the server alone, too, as are the
aims for them: seconds of one machine mean nothing on another. Nothing is asserted: on a busy
machine all of them take longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Any

from tpuflex.cli.demo import GRANTED, WITH_LIBRARY
from warmup import server

ROOT = Path(__file__).parents[1]
#: Phases of a boot in which the startup script works, and nothing is fetched or started.
OF_THE_SCRIPT = ("config", "capacity", "secrets", "container")
#: The aims in seconds, and what the server alone takes where they hold as they are.
SCRIPT_AIM, OTHER_AIM, AIMS_BY_HAND = 2.0, 5.0, 33.6


def tpuflex(*words: str) -> str:
    """What a command prints for scripts; ends this one if it fails."""
    command = [sys.executable, "-P", "-m", "tpuflex", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"tpuflex {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def tour() -> float:
    """Seconds of the tour."""
    began = time.perf_counter()
    tpuflex("demo")
    return time.perf_counter() - began


def by_hand() -> float:
    """Seconds to the first completion of the server that the tour starts."""
    began = time.perf_counter()
    with server(eager=True):
        return time.perf_counter() - began


def up() -> Mapping[str, float]:
    """Seconds of `up`, by what they went into."""
    stack = ("--stack", WITH_LIBRARY)
    tpuflex(*stack, "emulator", "start", "--capacity", GRANTED)
    try:
        began = time.time()
        document = json.loads(tpuflex(*stack, "up", "--yes", "--json"))
        ended = time.time()
        tpuflex(*stack, "down", "--yes")
    finally:
        tpuflex(*stack, "emulator", "stop")
    return shares(document, began, ended)


def shares(document: Mapping[str, Any], began: float, ended: float) -> Mapping[str, float]:
    """Where the time between two moments went.

    Args:
        document: what `up --json` has printed.
        began: when it was started, in seconds of Unix time.
        ended: when it had ended.
    """
    requested = datetime.fromisoformat(document["slice"]["created"]).timestamp()
    timeline = document["slice"]["host"]["timeline"]
    booted, ready = timeline["config"], timeline["READY"]
    phases = document["boot_seconds"]
    return {
        "up": ended - began,
        "queue": booted - requested,
        "boot": ready - booted,
        "script": sum(phases[phase] for phase in OF_THE_SCRIPT),
        "other": (requested - began) + (ended - ready),
    }


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    script, other = percent(SCRIPT_AIM, AIMS_BY_HAND), percent(OTHER_AIM, AIMS_BY_HAND)
    print(f"Aims: a ratio of 1.5; of the server by hand {script} for (script), {other} for other,")
    print(f"which are {SCRIPT_AIM:g} s and {OTHER_AIM:g} s where that takes {AIMS_BY_HAND} s.")
    heading = "up = queue + boot (script) + other"
    print(f"{'tour':>8}{'by hand':>10}{'ratio':>8}    {heading:<60}{'by hand':>8}")
    before = by_hand()
    for _ in range(runs):
        took = tour()
        between = by_hand()
        part = up()
        after = by_hand()
        beside_tour, beside_up = mean((before, between)), mean((between, after))
        split = (
            f"{part['up']:.1f} = {part['queue']:.1f}"
            f" + {part['boot']:.1f} ({part['script']:.1f}: {percent(part['script'], beside_up)})"
            f" + {part['other']:.1f}: {percent(part['other'], beside_up)}"
        )
        print(
            f"{took:6.1f} s{beside_tour:8.1f} s{took / beside_tour:8.2f}"
            f"    {split:<60}{beside_up:6.1f} s",
            flush=True,
        )
        before = after


def percent(seconds: float, own: float) -> str:
    """What ``seconds`` are of the ``own`` ones of the server alone."""
    return f"{seconds / own:.1%}"


if __name__ == "__main__":
    main()
