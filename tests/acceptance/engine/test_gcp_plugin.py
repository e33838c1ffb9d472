"""The engine with a plugin of the user's own in place of the stand-in."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from embedded_cloud.core.environment import client_environment
from tests.engine.embedded import Embedded
from tests.engine.test_gcp_plugin import executable
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.gcp_plugin import VARIABLE, find_gcp_plugin, with_gcp_plugin
from tpuflex.engine.run import EngineRun
from tpuflex.program import deploy

#: Stands for the published plugin: it finds the cloud as that one does, by its own variables alone,
#: and notes which it was given. What it answers are the stand-in's answers.
RECORDER = """#!{python}
import json, os, sys
from urllib.parse import urlsplit
from embedded_cloud.gcp_plugin.provider import serve
from pulumi_plugin.serve import end_on_signal, run

with open({log!r}, "w") as log:
    json.dump(dict(os.environ), log)
found = {{k: v for k, v in os.environ.items() if k.endswith("_CUSTOM_ENDPOINT")}}
clouds = {{urlsplit(url).netloc for url in found.values()}}
if len(clouds) != 1:
    sys.exit(f"one cloud, not {{clouds}}")
token = os.environ["GOOGLE_OAUTH_ACCESS_TOKEN"]
plugin = serve(f"http://{{clouds.pop()}}", token=token)
parent = os.getppid()
run(plugin, end_on_signal(), orphaned=lambda: os.getppid() != parent)
"""


@pytest.mark.engine
@pytest.mark.timeout(180)
def test_d12_the_engine_runs_the_published_plugin_against_the_embedded_cloud(
    embedded: Embedded, tmp_path: Path
) -> None:
    """With the variables of `tpuflex emulator env` and nothing else, the engine starts the
    plugin that is named; it finds the embedded cloud, makes the whole stack and removes it."""
    log = tmp_path / "environment.json"
    text = RECORDER.format(python=sys.executable, log=str(log))
    plugin = find_gcp_plugin({VARIABLE: str(executable(tmp_path / "plugin", text))})
    assert plugin is not None
    home = embedded.root / ".tpuflex"
    shell = client_environment(
        base_url=embedded.cloud.url,
        state_dir=home / "emulator",
        project="tpuflex-dev",
        gcp_plugin_port=None,
    )
    kept = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    environ = with_gcp_plugin({**kept, **shell}, plugin, home)

    def program() -> None:
        deploy(embedded.settings, project="tpuflex", stack="dev", environ=environ)

    target = Target(embedded.root, "dev", embedded.engine, environ)
    run = EngineRun(target, program, failures=ProgramFailures())
    run.up()
    outputs = run.outputs()
    again = run.preview()
    run.destroy()

    assert outputs["lifecycle"] == "active"
    assert again.changes == ()
    assert embedded.remaining() == []
    given = json.loads(log.read_text())
    assert "PULUMI_DEBUG_PROVIDERS" not in given
    assert given["PULUMI_GCP_SKIP_REGION_VALIDATION"] == "true"
    assert given["GOOGLE_OAUTH_ACCESS_TOKEN"].startswith("ya29.")
    assert given["GOOGLE_PROJECT"] == "tpuflex-dev"
    assert given["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"] == f"{embedded.cloud.url}/compute/v1/"
