"""Fixtures: an embedded cloud, its clock, and calls on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_cloud.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api
from tests.embedded_cloud.compute_api import GLOBAL, NETWORK, insert


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
