"""A benchmark of the real server: killed in the middle and gone on with, and as a ramp; and what
the server counts, recorded."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.vllm.test_load import Running, under_load
from tests.embedded_cloud.api import eventually
from tests.engine.embedded import ROOT
from tests.security.vllm_host import image_is_installed
from tpuflex.measure.archive import read_archive
from tpuflex.measure.run_file import read_run

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

#: Nine points, of which three are longer than the server's context; with short answers.
GRID = ("--concurrency", "1,2,4", "--context", "16,64,600", "--output", "4")
TPUFLEX = (sys.executable, "-P", "-m", "tpuflex")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The dev stack of a new project; what is large is this checkout's."""
    root = tmp_path_factory.mktemp("bench") / "project"
    (home := root / ".tpuflex").mkdir(parents=True, mode=0o700)
    for cache in ("engine", "vllm", "models"):
        (home / cache).symlink_to(ROOT / ".tpuflex" / cache)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent), "LANG": "C.UTF-8"}

    def tpuflex(*words: str) -> None:
        subprocess.run([*TPUFLEX, *words], cwd=root, env=environ, check=True)

    tpuflex("init", "--cloud", "embedded")
    tpuflex("emulator", "start", "--port", "0")
    try:
        tpuflex("up", "--yes")
        yield Running(root, environ)
    finally:
        tpuflex("emulator", "stop")


@contextmanager
def typed(running: Running, *words: str) -> Iterator[subprocess.Popen[str]]:
    """``tpuflex bench`` with these words, while it runs."""
    with subprocess.Popen(
        [*TPUFLEX, "bench", *words, "--yes"],
        cwd=running.root,
        env=running.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield process


def test_a_killed_run_goes_on_to_the_same_points(running: Running) -> None:
    """SIGKILL at a random moment of a random point leaves those before; the rest is measured by
    --resume, none twice. A generator that is stopped for a second meanwhile makes its point no
    result, which is said, and decides the exit code."""
    path = running.root / "bench" / "run.jsonl"
    kept = 3 + secrets.randbelow(4)
    with typed(running, "run", *GRID, "--output-file", str(path)) as first:
        eventually(lambda: path.is_file() and path.read_bytes().count(b"\n") > kept, within=600)
        time.sleep(secrets.randbelow(1000) / 1000)
        first.kill()
    before = read_run(path)

    with typed(running, "run", "--resume", str(path)) as second:
        _stop_for_a_second(running, path)
        said, _ = second.communicate()
    found = read_run(path)

    assert kept <= len(before.points) < 9
    assert found.points[: len(before.points)] == before.points
    assert [point.load.key for point in found.points] == [
        *(point.load.key for point in before.points),
        *(load.key for load in found.run.loads if load not in [p.load for p in before.points]),
    ]
    assert len({point.load.seed for point in found.points}) == 9
    assert sum(point.verdict == "not_feasible" for point in found.points) == 3
    assert "the load generator stood still for" in said
    assert second.returncode == 15
    for point in found.points:
        if point.measured is not None:
            assert point.measured.completed == point.load.requests
            assert point.measured.counted is not None
            assert point.measured.counted.output_tokens == 4 * point.load.requests


def test_a_ramp_passes_or_ends_at_the_gate_that_fails(running: Running) -> None:
    """With a limit that the server keeps all steps are measured, and the exit code is 0; with one
    that it cannot keep, the first step is the last, the code another one, and the figure stands
    beside the gate."""
    steps = ("ramp", "--concurrency", "1,2", "--context", "16", "--output", "4")
    ended = {}
    for limit in ("60s", "1ms"):
        path = running.root / "bench" / f"ramp-{limit}.jsonl"
        gate = f"ttft_p95<{limit}"
        with typed(running, *steps, "--gate", gate, "--output-file", str(path)) as process:
            said, _ = process.communicate()
        ended[limit] = (process.returncode, len(read_run(path).points))
        assert re.search(rf"^  {gate}  (holds|fails): .* with \d users?$", said, re.MULTILINE)

    assert ended == {"60s": (0, 2), "1ms": (14, 1)}


def test_what_a_server_counts_is_recorded_and_read(running: Running) -> None:
    """Until Ctrl-C, which is no failure; the tokens of an answer meanwhile are in the archive."""
    archive = running.root / "metrics"

    def tpuflex(*words: str) -> str:
        done = subprocess.run(
            [*TPUFLEX, *words],
            cwd=running.root,
            env=running.environ,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        )
        return done.stdout

    def generated() -> float:
        answers = [each.metrics for each in read_archive(archive, "dev") if each.metrics]
        return (answers[-1].generation_tokens or 0) - (answers[0].generation_tokens or 0)

    with subprocess.Popen(
        [*TPUFLEX, "metrics", "record", "--interval", "10", "--json"],
        cwd=running.root,
        env=running.environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        eventually(lambda: any(archive.glob("date=*/dev.parquet")), within=180)
        tpuflex("ask", "Hello", "--max-tokens", "8")
        eventually(lambda: generated() >= 8, within=180)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    found = json.loads(tpuflex("capacity", "--json"))

    assert process.returncode == 0
    assert json.loads(said)["snapshots"] == found["total"]["snapshots"]
    assert json.loads(said)["unanswered"] == 0
    assert found["total"]["generated_tokens"] == generated()
    assert found["total"]["requests"] >= 1
    assert found["total"]["ttft_seconds"]["p50"] > 0
    assert found["peaks"]["cache_tokens"] == 46_592


def _stop_for_a_second(running: Running, path: Path) -> None:
    """Stop the generator again and again, until a point is recorded that this has spoilt."""
    process = under_load(running, 1)
    while not any(point.verdict == "not_a_result" for point in read_run(path).points):
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        time.sleep(1)
