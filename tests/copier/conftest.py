"""Fixtures of the copying program's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_cloud.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.copier.rig import BUCKET, PROJECT, Rig, metadata_server
from tests.embedded_cloud.api import TOKEN, Api
from tests.hub_models import put_model


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """An embedded cloud whose Hub has a model, with an empty bucket."""
    with (
        EmbeddedCloud(tmp_path / "emulator", clock=ManualClock(), token=TOKEN) as cloud,
        metadata_server() as metadata,
    ):
        put_model(cloud.state_dir)
        api = Api(cloud.url, project=PROJECT)
        body = {"name": BUCKET, "location": "US-EAST5"}
        assert api.call("POST", "storage/v1/b", body=body, project=PROJECT).status_code == 200
        yield Rig(cloud, api, metadata)
