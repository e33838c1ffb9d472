"""kill -9 against the real engine on the embedded cloud: recover repairs it with no manual step."""

from __future__ import annotations

import json
from typing import cast

import pytest

from embedded_cloud.faults.rule import Stage
from tests.acceptance.killed import kill_at, killed, refused, stack_run
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.recover.run import run_recover
from tpuflex.engine.run import EngineRun
from tpuflex.engine.state import pending
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

MUTATING = {"POST", "PATCH", "PUT", "DELETE"}


def dev(embedded: Embedded) -> EngineRun:
    return stack_run(embedded.root, embedded.engine, embedded.environ)


def recovered(
    embedded: Embedded, capsys: pytest.CaptureFixture[str], *, take_over: bool = False
) -> dict[str, str]:
    """`tpuflex recover --json`: what became of each resource, by type."""
    project = open_project(embedded.root, embedded.environ)
    file = project.stack_file("dev")
    stack = Stack(project, "dev", file, embedded.settings)
    # The engine of this checkout, found as any other on PATH would be.
    home = f"{embedded.engine.path.parent}:{embedded.environ['PATH']}"
    invocation = Invocation(environ={**embedded.environ, "PATH": home}, json=True)
    capsys.readouterr()
    run_recover(invocation, Connection(stack, embedded.environ), take_over=take_over)
    document = json.loads(capsys.readouterr().out)
    assert document["clean"] is True
    assert pending(dev(embedded).deployment()) == []
    return {
        item["type"].rpartition(":")[2]: item["outcome"]
        for item in document["resources"]
        if item["pending"] or item["outcome"] == "adopted"
    }


def mutations(embedded: Embedded, suffix: str, *, accepted: bool = False) -> list[str]:
    """What was asked to be changed so far, of the paths that end in ``suffix``; with ``accepted``
    without what was refused."""
    return [
        f"{call['method']} {call['path']}"
        for call in embedded.cloud.cloud.history.entries()
        if call.get("method") in MUTATING
        and str(call.get("path", "")).endswith(suffix)
        and not (accepted and cast("int", call["status"]) >= 400)
    ]


def test_queued_resource_in_up_and_in_destroy(
    strictly_embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed right after the POST that was accepted, once Google knew the service account, and
    again right after the DELETE: one request in all, `up` goes on with it, and at the end nothing
    is left."""
    embedded = strictly_embedded
    killed(embedded, "up", kill_at("GET", "^/v2alpha1/.*/operations/"))
    locked = refused(embedded, "up")
    first = recovered(embedded, capsys)
    dev(embedded).up()
    outputs = dev(embedded).outputs()
    asked = mutations(embedded, "/queuedResources", accepted=True)
    killed(embedded, "destroy", kill_at("DELETE", "/queuedResources/"))
    second = recovered(embedded, capsys)
    dev(embedded).destroy()

    assert "If that process is dead: tpuflex recover" in locked
    assert first["QueuedResource"] == "adopted"
    assert outputs["lifecycle"] == "active"
    assert len(asked) == 1
    assert second["QueuedResource"] == "cleared"
    assert embedded.remaining() == []


def test_bucket_that_was_not_made_and_one_that_was(
    embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed before the create took effect, the operation is cleared; killed after, the bucket
    is imported with what only the program knows of it.

    but for its labels, which the gcp plugin cannot tell from others' in an import: the next
    `up` sets them again, in place."""
    killed(embedded, "up", kill_at("POST", "/storage/v1/b$", stage=Stage.BEFORE_COMMIT))
    before = recovered(embedded, capsys)
    killed(embedded, "up", kill_at("POST", "/storage/v1/b$"))
    after = recovered(embedded, capsys)
    (bucket,) = (r for r in dev(embedded).resources() if r["type"].endswith(":Bucket"))
    planned = {step.type: step.operation for step in dev(embedded).preview().changes}
    dev(embedded).destroy()

    assert before["Bucket"] == "cleared"
    assert after["Bucket"] == "adopted"
    assert bucket["inputs"]["forceDestroy"] is bucket["outputs"]["forceDestroy"] is True
    assert bucket["outputs"]["labels"] == {}
    assert planned["gcp:storage/bucket:Bucket"] == "update"
    assert embedded.remaining() == []
