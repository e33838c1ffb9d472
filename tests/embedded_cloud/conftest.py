"""Fixtures: an embedded cloud, its clock, and calls on it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from reliability.control import Control
from tests.embedded_cloud.api import TOKEN, Api
from tests.embedded_cloud.compute_api import GLOBAL, NETWORK, insert
from tests.embedded_cloud.families import Spawn
from tests.embedded_cloud.storage_api import make_bucket


@pytest.fixture
def clock() -> ManualClock:
    """The cloud's clock: it stands still until a test advances it."""
    return ManualClock()


@pytest.fixture
def cloud(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """An embedded cloud in this process, without hosts."""
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN, clock=clock) as running:
        yield running


@pytest.fixture
def api(cloud: EmbeddedCloud) -> Api:
    """Calls on ``cloud``."""
    return Api(cloud.url)


@pytest.fixture
def net(api: Api) -> Api:
    """An API with one custom mode network, ``net-1``."""
    insert(api, f"{GLOBAL}/networks", NETWORK)
    return api


@pytest.fixture
def store(api: Api) -> Api:
    """An API with one bucket, ``bk-1``."""
    make_bucket(api)
    return api


@pytest.fixture
def control(cloud: EmbeddedCloud) -> Control:
    """The control API of the test's cloud."""
    return Control(cloud.url, cloud.token)


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts a Python program that says when it is up; ends it and its family."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str) -> psutil.Process:
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        return psutil.Process(child.pid)

    yield run
    for child in started:
        family = [psutil.Process(child.pid)] if child.poll() is None else []
        for member in family:
            for process in [*member.children(recursive=True), member]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
