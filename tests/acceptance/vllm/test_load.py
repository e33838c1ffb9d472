"""vLLM's own load generator beside the real server, on a host of loopback and on a private one."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.embedded_cloud.api import eventually
from tests.engine.embedded import ROOT
from tests.security.vllm_host import image_is_installed
from tpuflex.errors import ConflictError
from tpuflex.measure.load import on_host
from tpuflex.measure.run import Load
from tpuflex.operate.endpoint_connection import api_key, serving_slice
from tpuflex.operate.gcloud import find_gcloud
from tpuflex.stack.connection import Connection, connect
from tpuflex.stack.opening import open_stack

pytestmark = [
    pytest.mark.engine,
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

LOAD = Load(concurrency=3, context=64, output=16, requests=12, shared=16, seed=3)
#: Goes on for a while.
LONG = Load(concurrency=3, context=64, output=64, requests=15, seed=4)
#: In /proc/net/tcp: a connection to port 8000 that is open.
OPEN = re.compile(r"^ *\d+: \S+ \S+:1F40 01 ", re.MULTILINE)
#: What a user types, who then goes away.
USER = """
import os, sys
from pathlib import Path
from tpuflex.measure.load import on_host
from tpuflex.measure.run import Load
from tpuflex.operate.endpoint_connection import serving_slice
from tpuflex.stack.connection import connect
from tpuflex.stack.opening import open_stack

cloud = connect(open_stack(Path.cwd(), "dev", os.environ), os.environ)
with on_host(cloud, serving_slice(cloud)) as generator:
    generator.drive(Load.model_validate_json(sys.argv[1]))
"""


@dataclass(frozen=True)
class Running:
    """The dev stack, up.

    Attributes:
        root: the project's directory.
        environ: the environment of its user.
    """

    root: Path
    environ: dict[str, str]

    @property
    def cloud(self) -> Connection:
        return connect(open_stack(self.root, "dev", self.environ), self.environ)

    def generators(self) -> list[psutil.Process]:
        """The processes of load generators on the host."""
        return [
            process
            for process in psutil.process_iter(["cmdline", "environ"])
            if "sys.stdin.buffer" in " ".join(process.info["cmdline"] or ())
            and process.info["cmdline"][0] == "python3"
            and str(self.root) in (process.info["environ"] or {}).get("HOME", "")
        ]

    def containers(self) -> list[str]:
        """The names of the containers on the host."""
        hosts = self.root / ".tpuflex" / "emulator" / "hosts"
        return sorted(path.stem for path in hosts.glob("*/containers/*.json"))


@pytest.fixture(
    scope="module", params=["loopback", pytest.param("private", marks=pytest.mark.gcloud)]
)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The dev stack of a new project; what is large is this checkout's."""
    root = tmp_path_factory.mktemp("load") / "project"
    (home := root / ".tpuflex").mkdir(parents=True, mode=0o700)
    for cache in ("engine", "vllm", "models"):
        (home / cache).symlink_to(ROOT / ".tpuflex" / cache)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(root.parent), "LANG": "C.UTF-8"}
    gcloud = find_gcloud(environ)
    private = request.param == "private"
    if private and (gcloud is None or "alpha" not in gcloud.components or not shutil.which("ssh")):
        pytest.skip("gcloud with its component alpha, or ssh, is not on PATH")

    def tpuflex(*words: str) -> None:
        subprocess.run(
            [sys.executable, "-P", "-m", "tpuflex", *words], cwd=root, env=environ, check=True
        )

    tpuflex("init", "--cloud", "embedded")
    tpuflex("emulator", "start", "--port", "0")
    try:
        if private:
            tpuflex("emulator", "strictness", '{"network": {"private_addresses": true}}')
        tpuflex("up", "--yes")
        yield Running(root, environ)
    finally:
        tpuflex("emulator", "stop")


def under_load(running: Running, most: int = LONG.concurrency) -> psutil.Process:
    """The generator's process, once it has so many requests open."""

    def open_requests() -> int:
        found = 0
        for each in running.generators():
            with suppress(OSError):  # it has ended meanwhile, as those that only start one do
                text = Path(f"/proc/{each.pid}/net/tcp").read_text()
                found = max(found, len(OPEN.findall(text)))
        return found

    eventually(lambda: open_requests() >= most, within=120)
    return running.generators()[-1]


def counted(name: str, metrics: str) -> float:
    """The sum of a counter of vLLM."""
    lines = [line for line in metrics.splitlines() if line.startswith(f"vllm:{name}_total{{")]
    assert lines
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_a_load_is_what_the_server_counts(running: Running) -> None:
    """Client and server agree on every token; a generator that was stopped for a second says so;
    meanwhile nobody else drives a load there, and no process shows the key."""
    cloud, said = running.cloud, list[object]()
    status = serving_slice(cloud)
    with on_host(cloud, status, said.append) as generator, ThreadPoolExecutor() as threads:
        drive = generator.drive(LOAD)
        assert running.containers() == ["tpuflex-bench", "vllm"]
        with pytest.raises(ConflictError, match="Another benchmark runs"), on_host(cloud, status):
            pass
        driving = threads.submit(generator.drive, LONG)
        process = under_load(running)
        key = api_key(cloud)
        assert not [each for each in psutil.process_iter(["cmdline"]) if key in str(each.info)]
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        stopped = driving.result()

    assert (drive.result.completed, drive.result.failed) == (LOAD.requests, 0)
    for name, tokens in (
        ("prompt_tokens", drive.result.total_input_tokens),
        ("generation_tokens", drive.result.total_output_tokens),
    ):
        assert counted(name, drive.after) - counted(name, drive.before) == tokens
    assert drive.result.output_lens == LOAD.requests * (LOAD.output,)
    assert drive.busy < 0.9
    assert stopped.lag >= 0.9
    assert stopped.result.failed == 0
    assert said[-1] == f"vllm bench serve {generator.version} is ready"
    eventually(lambda: running.containers() == ["vllm"], within=30)
    assert running.generators() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_without_its_user(running: Running, how: signal.Signals) -> None:
    """Ctrl-C in the middle of a load, and the death of the command, end the container too."""
    words = [sys.executable, "-P", "-c", USER, LONG.model_dump_json()]
    with subprocess.Popen(words, cwd=running.root, env=running.environ) as user:
        under_load(running)
        user.send_signal(how)
        user.wait(timeout=30)
    eventually(lambda: running.generators() == [], within=30)
    eventually(lambda: running.containers() == ["vllm"], within=30)
