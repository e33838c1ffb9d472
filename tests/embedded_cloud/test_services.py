"""An embedded cloud that an older version has started is told from one of this version."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.daemon import SERVICES, outdated
from embedded_cloud.server import EmbeddedCloud
from tpuflex.errors import EmulatorError
from tpuflex.stack.emulator import Daemon

NOW = version("tpuflex")


def test_the_list_is_what_it_serves(tmp_path: Path) -> None:
    """The list of services is that of the services that a running cloud has."""
    with EmbeddedCloud(tmp_path / "emulator") as cloud:
        services = {f"{service.name}.{service.version}" for service in cloud.cloud.services}

    assert services == SERVICES


@pytest.mark.parametrize(
    ("health", "why"),
    [
        ({"version": NOW, "services": sorted(SERVICES)}, ""),
        ({"version": NOW, "services": [*sorted(SERVICES), "more.v1"]}, ""),
        ({"version": "0.0.1", "services": sorted(SERVICES)}, "is of tpuflex 0.0.1"),
        ({"version": NOW, "services": sorted(SERVICES - {"dns.v1"})}, "does not serve dns.v1"),
        ({"version": NOW}, "does not serve"),
        ({}, "is of tpuflex None"),
    ],
)
def test_why_it_is_of_another_version(health: JsonObject, why: str) -> None:
    """Another version, or a missing service, makes a cloud outdated; further services do not."""
    found = outdated(health)

    assert why in found
    assert bool(found) == bool(why)


def test_a_command_says_so_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the outdated process and the command that ends it."""
    daemon = Daemon(tmp_path)
    address = daemon.start(0)
    try:
        daemon.require_current()
        monkeypatch.setattr("embedded_cloud.daemon.SERVICES", SERVICES | {"new.v1"})
        with pytest.raises(EmulatorError, match="does not serve new") as told:
            daemon.require_current()
        assert str(address.pid) in told.value.message
        assert "tpuflex emulator stop" in str(told.value.hint)
    finally:
        daemon.stop()
