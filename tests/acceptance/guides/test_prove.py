"""The whole of `make prove-on-google`, on the embedded cloud: real command line, engine, provider.

The hosts are stand-ins that are READY at once, and answer every question. A rehearsal like this
proves nothing of Google, and must not say that it does.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud import daemon
from proof import claims
from proof.options import Options
from proof.run import prove
from tests.checkpoints import smollm2
from tests.engine.embedded import ROOT, pulumi_engine
from tpuflex.engine.find import Engine
from tpuflex.stack.emulator import Daemon

__all__ = ["pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture
def home(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Path]:
    """A state directory with an embedded cloud whose hosts are stand-ins."""
    directory = tmp_path / "home"
    directory.mkdir(mode=0o700)
    if pulumi_engine.source != "path":
        (directory / "engine").symlink_to(pulumi_engine.path.parents[1])
    image = ROOT / ".tpuflex" / "vllm"
    image.mkdir(parents=True, exist_ok=True)
    (directory / "vllm").symlink_to(image)
    daemon.start(directory / "emulator", port=0, stub_hosts=True)
    try:
        yield directory
    finally:
        daemon.stop(directory / "emulator")


def asked(home: Path, weights: Path) -> Options:
    """A rehearsal in ``home``."""
    return Options(
        cloud="embedded",
        project="tpuflex-dev",
        zone="us-east5-a",
        cap_usd=Decimal(1),
        template="dev",
        weights=str(weights),
        tier="run",
        give_up_after="1h",
        directory=home / "proof" / "20261122-120000",
    )


def environment(home: Path) -> dict[str, str]:
    """The environment of a run in ``home``."""
    return {**os.environ, "TPUFLEX_HOME": str(home), "HOME": str(home)}


def test_a_whole_run(home: Path, tmp_path: Path) -> None:
    """Doctor, up, questions, restart and down, each with what it said, in a new project of a cloud
    that is as strict as Google; nothing is left, nothing that names anybody is in the archive, and
    no claim about Google is made."""
    Daemon(home).call("POST", "clock", {"speed": 8.0})
    Daemon(home).call("POST", "strictness?preset=strict")
    given = asked(home, smollm2().write(tmp_path / "checkpoint"))
    terminal = io.StringIO()
    page = claims.PAGE.read_text()

    code = prove(given, environment(home), terminal)

    said = terminal.getvalue()
    assert code == 0, said
    assert "A rehearsal: nothing of this is proved of Google" in said
    assert claims.PAGE.read_text() == page
    names = sorted(file.stem.partition("-")[2] for file in (given.directory / "raw").glob("[0-9]*"))
    requests = [f"request-{number:02}" for number in range(1, 11)]
    assert {"doctor", "up", "status", "ask", "status-after-reboot", "down", "sweep"} <= set(names)
    assert [name for name in names if name.startswith("request")] == requests
    states = json.loads((given.directory / "raw" / "states.json").read_text())
    assert "ACTIVE" in {one["state"] for one in states}
    assert _left(home) == []
    with tarfile.open(given.directory / "evidence.tar.gz") as archive:
        members = [archive.extractfile(member) for member in archive if member.isfile()]
        evidence = b"".join(member.read() for member in members if member is not None)
    assert b"tpuflex-dev" not in evidence
    assert str(home).encode() not in evidence
    assert b"ya29." not in evidence


def test_however_it_ends_nothing_is_left(home: Path, tmp_path: Path) -> None:
    """A terminal that is closed while `up` waits for capacity (Ctrl-C goes the same way) takes
    everything down, and the report says what was not done."""
    Daemon(home).call("POST", "capacity", {"never": True})
    weights = smollm2().write(tmp_path / "checkpoint")
    words = ["--cloud", "embedded", "--template", "dev", "--project", "tpuflex-dev"]
    words += ["--zone", "us-east5-a", "--cap-usd", "1", "--weights", str(weights)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "proof.run", *words],
        env={**environment(home), "PYTHONPATH": str(ROOT / "benchmarks")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not Daemon(home).call("GET", "inventory").get("tpu", {}).get("queuedResources"):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.2)

    os.killpg(process.pid, signal.SIGHUP)
    _, said = process.communicate(timeout=300)

    assert process.returncode == 1
    assert "Not done: stopped by SIGHUP" in said
    assert _left(home) == []


def _left(home: Path) -> list[Any]:
    """What exists in the embedded cloud that costs money."""
    inventory = Daemon(home).call("GET", "inventory")
    kinds = ("queuedResources", "nodes", "buckets", "networks", "secrets")
    return [found[kind] for found in inventory.values() for kind in kinds if found.get(kind)]
