"""A host per test, and a shared booted one for tests that only read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.startup.cached import PROGRAMS, cache_objects, new_host, run
from tests.startup.cloud import FILES
from tests.startup.host import StartupHost, StartupRun

CURL = shutil.which("curl")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[StartupHost]:
    """A host whose cloud holds complete weights and the API key."""
    host = StartupHost(tmp_path)
    host.cloud.put_weights(FILES)
    yield host
    host.close()


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StartupHost, StartupRun]]:
    """A host that has run the script once, with its output; for reading only.

    Its curl records its arguments, as a process list would show them.
    """
    host = StartupHost(tmp_path_factory.mktemp("booted"))
    host.command("curl", f'#!/bin/sh\necho "$@" >>{host.directory}/curl.calls\nexec {CURL} "$@"\n')
    host.cloud.put_weights(FILES, part_bytes=16384)
    yield host, host.run()
    host.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartupHost]:
    """A host that has compiled, and saved what it compiled; for reading only."""
    host = new_host(tmp_path_factory.mktemp("saved"))
    run(host)
    assert host.compiled() == sorted(PROGRAMS)
    yield host
    host.close()


@pytest.fixture
def fresh(saved: StartupHost, tmp_path: Path) -> Iterator[StartupHost]:
    """The next host of the same endpoint, before its first boot."""
    host = new_host(tmp_path / "fresh", cache_objects(saved))
    yield host
    host.close()
