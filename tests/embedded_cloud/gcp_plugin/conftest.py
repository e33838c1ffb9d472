"""An embedded cloud, and a configured provider in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_cloud.server import EmbeddedCloud
from pulumi_plugin.serve import RunningPlugin
from tests.embedded_cloud.gcp_plugin.calls import Calls, connected, embedded


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[EmbeddedCloud, RunningPlugin]]:
    """An embedded cloud and the plugin."""
    with embedded(tmp_path / "state") as both:
        yield both


@pytest.fixture
def calls(world: tuple[EmbeddedCloud, RunningPlugin]) -> Iterator[Calls]:
    """A configured provider."""
    with connected(world[1].port) as provider:
        yield provider
