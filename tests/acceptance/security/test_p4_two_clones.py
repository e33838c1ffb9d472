"""P4: two clones of one project, each with a state of its own, on one cloud project."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.killed import refused, stack_run
from tests.engine.conftest import embedded, pulumi_engine
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.recover.run import run_recover
from tpuflex.cli.up.run import run_up
from tpuflex.engine.run import EngineRun
from tpuflex.engine.state import state_ids
from tpuflex.errors import AlreadyExistsError, EngineError
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

__all__ = ["embedded", "pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


def clone(of: Embedded, backend: Path) -> Embedded:
    """The same project with a backend, and so a state, of its own."""
    backend.mkdir()
    return replace(of, environ={**of.environ, "PULUMI_BACKEND_URL": f"file://{backend}"})


def engine(home: Embedded) -> EngineRun:
    return stack_run(home.root, home.engine, home.environ)


def command(home: Embedded) -> tuple[Invocation, Connection]:
    """What a command on the dev stack works with."""
    project = open_project(home.root, home.environ)
    stack = Stack(project, "dev", project.stack_file("dev"), home.settings)
    invocation = Invocation(environ=home.environ, json=True, yes=True)
    return invocation, Connection(stack, home.environ)


def mutations(home: Embedded) -> int:
    """How often anything was asked to be changed in the cloud so far."""
    calls = home.cloud.cloud.history.entries()
    changing = [call for call in calls if call.get("method") in {"POST", "PATCH", "PUT", "DELETE"}]
    return sum(not str(call.get("path")).endswith(":getIamPolicy") for call in changing)


def the_id(home: Embedded) -> str:
    (id_,) = state_ids(engine(home).deployment())
    return id_


def test_the_second_clone_is_told_whose_it_is(embedded: Embedded, tmp_path: Path) -> None:
    """S5: nothing is made or touched, by `up` and by plain Pulumi; the text names owner, state and
    the two ways on."""
    engine(embedded).up()
    colleague = clone(embedded, tmp_path / "colleague")
    before, there = mutations(embedded), embedded.cloud.cloud.inventory()

    with pytest.raises(AlreadyExistsError) as told:
        run_up(*command(colleague))
    untouched = mutations(embedded) - before
    by_pulumi = refused(colleague, "up")
    engine(colleague).destroy()

    assert untouched == 0
    assert "stack dev of project tpuflex" in told.value.message
    assert f"state ID {the_id(embedded)}" in told.value.message
    assert "docs working-together" in str(told.value.hint)
    assert "recover --take-over" in str(told.value.hint)
    # Which of the resources Pulumi tells of differs from run to run, and Google's texts do, too.
    assert "already exists" in by_pulumi or "you already own it" in by_pulumi
    assert embedded.cloud.cloud.inventory() == there
    assert engine(embedded).preview().changes == ()


def recovered(home: Embedded, capsys: pytest.CaptureFixture[str], take_over: bool = False) -> Any:
    """`tpuflex recover --json`."""
    capsys.readouterr()
    run_recover(*command(home), take_over=take_over)
    return json.loads(capsys.readouterr().out)


def test_a_lost_state_is_taken_over_by_the_explicit_word(
    embedded: Embedded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S5: `recover` alone adopts nothing; with --take-over the new state gets the id that the
    resources carry: nothing is replaced, and the next `up` only writes the labels again, which the
    gcp plugin does not import (D11)."""
    engine(embedded).up()
    id_ = the_id(embedded)
    new = clone(embedded, tmp_path / "new")
    before = mutations(embedded)

    with pytest.raises(EngineError, match=f"state ID {id_}"):
        recovered(new, capsys)
    alone = engine(new).resources()
    document = recovered(new, capsys, take_over=True)
    changes = engine(new).preview().changes
    looked = mutations(embedded) - before
    engine(new).destroy()

    assert not [one for one in alone if one["type"].startswith("gcp:")]
    assert looked == 0
    assert document["clean"] is True
    assert {"StateId", "QueuedResource", "Network", "Bucket"} <= {
        item["type"].rpartition(":")[2] for item in document["resources"]
    }
    touched = [step for step in changes if step.touches_cloud and "Service" not in step.type]
    assert {(step.operation, *step.changed) for step in touched} == {("update", "labels")}
    assert embedded.remaining() == []
