"""The package as the real engine sees it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tpuflex.engine.find import ensure
from tpuflex.provider.arguments import INPUTS
from tpuflex.provider.schema import QUEUED_RESOURCE

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.engine


def test_the_engine_accepts_the_schema(tmp_path: Path) -> None:
    """`pulumi package get-schema` starts the plugin, binds its schema without a complaint, and
    prints every input of it."""
    engine = ensure(ROOT / ".tpuflex", os.environ, lambda _: None)
    environ = {
        **os.environ,
        "PULUMI_HOME": str(tmp_path),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    plugin = ROOT / "infra" / "plugin" / "pulumi-resource-tpuflex"

    done = subprocess.run(
        [engine.path, "package", "get-schema", plugin],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    schema = json.loads(done.stdout)
    assert set(schema["resources"][QUEUED_RESOURCE]["inputProperties"]) == INPUTS
    assert len(schema["types"]) == 8
