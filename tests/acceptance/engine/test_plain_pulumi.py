"""`pulumi` typed in the project directory does the same as the command line, on the same state."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.killed import stack_run
from tests.acceptance.plain_pulumi import PlainPulumi, plain_pulumi
from tests.engine.embedded import Embedded
from tpuflex.naming import STATE_ID
from tpuflex.program import main

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


def test_each_goes_on_from_the_other(embedded: Embedded, pulumi: PlainPulumi) -> None:
    """What `tpuflex up` has made is, resource by resource, what `pulumi up` makes: the other finds
    nothing to change, and what one has made the other removes. The salt for the embedded passphrase
    is committed: nothing is written back into the stack file."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    before = file.read_bytes()
    run = stack_run(embedded.root, embedded.engine, embedded.environ)
    run.up()
    ours = resources(pulumi)
    pulumi("preview", "--expect-no-changes")
    pulumi("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    pulumi("destroy", "--yes", "--skip-preview")
    assert embedded.remaining() == []

    pulumi("up", "--yes", "--skip-preview")
    theirs = resources(pulumi)
    again = run.preview().changes
    run.destroy()

    assert ours == theirs
    assert again == ()
    assert file.read_bytes() == before
    assert embedded.remaining() == []
