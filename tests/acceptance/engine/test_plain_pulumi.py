"""`pulumi` typed in the project directory does the same as the command line, on the same state."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.plain_pulumi import PlainPulumi, plain_pulumi
from tests.engine.embedded import Embedded
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.naming import STATE_ID
from tpuflex.program import deploy, main

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


@pytest.fixture
def pulumi(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlainPulumi]:
    """The plain command; the program runs here, so the shell's variables are set here too."""
    for name in list(os.environ):
        if name.startswith(("CLOUDSDK_", "GOOGLE_", "PULUMI_", "TPUFLEX_")):
            monkeypatch.delenv(name)
    for name, value in embedded.environ.items():
        monkeypatch.setenv(name, value)
    engine = embedded.engine.path
    with plain_pulumi(engine, embedded.root, embedded.environ, main) as command:
        command("stack", "init", "dev")
        yield command


def command_line(embedded: Embedded) -> EngineRun:
    """The engine as `tpuflex up` runs it, without weights to push."""

    def program() -> None:
        deploy(embedded.settings, project="tpuflex", stack="dev", environ=embedded.environ)

    target = Target(embedded.root, "dev", embedded.engine, embedded.environ)
    return EngineRun(target, program, failures=ProgramFailures())


def resources(pulumi: PlainPulumi) -> dict[str, Any]:
    """Inputs by URN of everything in the stack's state, whose own id is random."""
    state = json.loads(pulumi("stack", "export").stdout)
    of_type = {found["type"]: found for found in state["deployment"]["resources"]}
    text = json.dumps(state).replace(of_type[STATE_ID]["id"], "ID OF THE STATE")
    state = json.loads(text)
    return {
        found["urn"]: (found["type"], found.get("id"), found.get("inputs"))
        for found in state["deployment"]["resources"]
        # The ids of providers are random.
        if not found["type"].startswith("pulumi:")
    }


def test_life_of_a_stack(embedded: Embedded, pulumi: PlainPulumi) -> None:
    """preview, up, preview without changes, refresh, destroy, and nothing is left."""
    assert "vllm" in pulumi("preview").stdout
    assert embedded.remaining() == []

    pulumi("up", "--yes", "--skip-preview")
    outputs = json.loads(pulumi("stack", "output", "--json").stdout)
    pulumi("preview", "--expect-no-changes")
    pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    pulumi("destroy", "--yes", "--skip-preview")

    assert outputs["lifecycle"] == "active"
    assert outputs["endpoint"].startswith("http://127.")
    assert embedded.remaining() == []


def test_the_command_line_goes_on_from_it(embedded: Embedded, pulumi: PlainPulumi) -> None:
    """What `pulumi up` has made, `tpuflex up` finds complete, and `tpuflex down` removes."""
    pulumi("up", "--yes", "--skip-preview")
    run = command_line(embedded)

    assert run.preview().changes == ()
    run.destroy()

    assert embedded.remaining() == []


def test_it_goes_on_from_the_command_line(embedded: Embedded, pulumi: PlainPulumi) -> None:
    """What `tpuflex up` has made is, resource by resource, what `pulumi up` makes."""
    run = command_line(embedded)
    run.up()
    ours = resources(pulumi)
    pulumi("preview", "--expect-no-changes")
    run.destroy()

    pulumi("up", "--yes", "--skip-preview")
    theirs = resources(pulumi)
    pulumi("destroy", "--yes", "--skip-preview")

    assert ours == theirs


def test_in_a_shell_without_the_embedded_cloud(embedded: Embedded, pulumi: PlainPulumi) -> None:
    """Without `tpuflex emulator env` a plain `pulumi up` of an embedded stack is refused,
    naming the command to type."""
    for name in embedded.environ:
        if name.startswith("CLOUDSDK_"):
            del os.environ[name]

    refused = pulumi("preview", check=False)

    assert refused.returncode != 0
    assert "tpuflex emulator env" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr
