"""What tests of the rig share: processes to strike."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from embedded_cloud.server import EmbeddedCloud
from reliability.control import Control
from tests.embedded_cloud.api import Api
from tests.reliability.families import Spawn


@pytest.fixture
def api(cloud: EmbeddedCloud) -> Api:
    """Calls on the test's cloud."""
    return Api(cloud.url)


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
