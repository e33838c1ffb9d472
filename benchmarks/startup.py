"""How long the first second feels: ratios against named references, measured in the same run.

Run with ``.venv/bin/python benchmarks/startup.py [--runs 5]``. Each pair is run alternately, so
that a busy machine slows both sides; the medians and their ratio are printed.

    tpuflex --help           beside   python -c "import click"            aim: at most 2x
    tpuflex memory           beside   python -c "import click"            aim: at most 2x + 0.3 s
    tpuflex recommend        beside   python -c "import click"            aim: at most 2x + 0.3 s
    tpuflex preview (dev)    beside   pulumi preview of an empty program  aim: at most 2x
    emulator start           alone                                        aim: at most 1 s
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
#: Commands that answer from tables: no cloud, no engine.
TABLE_COMMANDS = {
    "memory": ["memory", "--model", "google/gemma-4-E4B-it", "--accelerator", "v6e-1"],
    "memory (dev)": ["memory", "--stack", "dev"],
    "recommend": ["recommend", "--scenario", "interactive-api"],
}
EMPTY_PREVIEW = """
import pulumi.automation as auto
stack = auto.create_or_select_stack(
    stack_name="empty", project_name="empty", program=lambda: None,
    opts=auto.LocalWorkspaceOptions(
        project_settings=auto.ProjectSettings(name="empty", runtime="python")),
)
stack.preview()
"""


def seconds(command: list[str], env: dict[str, str]) -> float:
    """Wall time of ``command``, which must succeed."""
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return took


def pair(runs: int, ours: Callable[[], float], reference: Callable[[], float]) -> tuple[float, ...]:
    """Medians of both sides after one warm-up each, run alternately."""
    ours(), reference()
    times = [(ours(), reference()) for _ in range(runs)]
    mine = statistics.median(t[0] for t in times)
    theirs = statistics.median(t[1] for t in times)
    return mine, theirs, mine / theirs


@contextmanager
def scratch_home() -> Iterator[dict[str, str]]:
    """An environment whose state directory is new but shares engine, vLLM and models."""
    with tempfile.TemporaryDirectory(prefix="tpuflex-bench-") as directory:
        for cache in ("engine", "vllm", "models"):
            source = ROOT / ".tpuflex" / cache
            if source.exists():
                (Path(directory) / cache).symlink_to(source)
        env = {**os.environ, "TPUFLEX_HOME": directory}
        try:
            yield env
        finally:
            subprocess.run(
                [str(BIN / "tpuflex"), "emulator", "stop"],
                env=env,
                cwd=ROOT,
                capture_output=True,
                check=False,
            )


def emulator_start(env: dict[str, str]) -> float:
    """Seconds of one `emulator start`, stopped again afterwards."""
    tpuflex = str(BIN / "tpuflex")
    took = seconds([tpuflex, "emulator", "start", "--port", "0"], env)
    seconds([tpuflex, "emulator", "stop"], env)
    return took


def engine_environment(env: dict[str, str]) -> dict[str, str]:
    """What the reference needs: the same engine, backend and passphrase as ours."""
    tpuflex = str(BIN / "tpuflex")
    seconds([tpuflex, "emulator", "start", "--port", "0"], env)
    shown = subprocess.run(
        [tpuflex, "--json", "emulator", "env"],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    engine = json.loads(
        subprocess.run(
            [tpuflex, "--json", "engine"],
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    path = f"{Path(engine['engine']['path']).parent}{os.pathsep}{env['PATH']}"
    return {**env, **json.loads(shown.stdout), "PATH": path}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    if shutil.which("tpuflex", path=str(BIN)) is None:
        sys.exit("tpuflex is not installed beside this Python; run make test once")
    tpuflex, python = str(BIN / "tpuflex"), sys.executable
    with scratch_home() as env:
        commands = {"--help": (["--help"], 0.0)}
        commands |= {name: (words, 0.3) for name, words in TABLE_COMMANDS.items()}
        rows = [
            (
                f"tpuflex {name} / import click",
                (2.0, more),
                pair(
                    runs,
                    partial(seconds, [tpuflex, *words], env),
                    partial(seconds, [python, "-P", "-c", "import click"], env),
                ),
            )
            for name, (words, more) in commands.items()
        ]
        starts = [emulator_start(env) for _ in range(runs)]
        reference = engine_environment(env)
        rows.append(
            (
                "tpuflex preview / empty preview",
                (2.0, 0.0),
                pair(
                    runs,
                    lambda: seconds([tpuflex, "preview"], env),
                    lambda: seconds([python, "-P", "-c", EMPTY_PREVIEW], reference),
                ),
            )
        )
    print(f"{'':34}{'ours':>9}{'reference':>11}{'ratio':>8}{'aim':>14}")
    for name, (factor, more), (mine, theirs, ratio) in rows:
        aim = f"{factor:.1f}x + {more:.1f}s" if more else f"{factor:.1f}x"
        print(f"{name:34}{mine:8.2f}s{theirs:10.2f}s{ratio:7.2f}x{aim:>14}")
    print(f"{'emulator start':34}{statistics.median(starts):8.2f}s{'':11}{'':8}{'1.0s':>14}")


if __name__ == "__main__":
    main()
