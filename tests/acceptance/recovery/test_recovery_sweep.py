"""`tpuflex sweep` on the embedded cloud, with the states of the real backend."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
import requests

from embedded_cloud.faults.rule import Answer, Rule, Where
from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.sweep.run import run_sweep, run_sweep_all
from tpuflex.errors import IncompleteTeardownError
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

#: The stack's first slice.
FIRST = Names("tpuflex", "dev", ENDPOINT_NAME).queued_resource_id()

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


def sweep(
    embedded: Embedded,
    capsys: pytest.CaptureFixture[str],
    *slices: str,
    yes: bool = False,
) -> dict[str, object]:
    """`tpuflex sweep --json`."""
    project = open_project(embedded.root, embedded.environ)
    stack = Stack(project, "dev", project.stack_file("dev"), embedded.settings)
    path = f"{embedded.engine.path.parent}:{embedded.environ['PATH']}"
    invocation = Invocation(environ={**embedded.environ, "PATH": path}, json=True, yes=yes)
    capsys.readouterr()
    run_sweep(invocation, Connection(stack, embedded.environ), frozenset(slices))
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def sweep_all(embedded: Embedded, capsys: pytest.CaptureFixture[str]) -> Any:
    """`tpuflex sweep --all --exit-code --json`."""
    path = f"{embedded.engine.path.parent}:{embedded.environ['PATH']}"
    environ = {**embedded.environ, "PATH": path}
    invocation = Invocation(environ=environ, directory=embedded.root, json=True)
    capsys.readouterr()
    code = run_sweep_all(invocation, frozenset(), exit_code=True)
    document = json.loads(capsys.readouterr().out)
    assert code == document["exit_code"]
    return document


def found(document: dict[str, object]) -> list[str]:
    leftovers = document["leftovers"]
    assert isinstance(leftovers, list)
    return sorted(item["kind"] for item in leftovers)


def test_orphans(embedded: Embedded, capsys: pytest.CaptureFixture[str]) -> None:
    """While the state stands nothing is left over; once it is lost everything of the stack is,
    is only listed without --yes, is an error with --exit-code, and is gone with --yes once the
    slice that runs is named. What is not ours stays. A zone that does not answer makes the list
    incomplete."""
    stack_run(embedded.root, embedded.engine, embedded.environ).up()
    token = embedded.environ["GOOGLE_OAUTH_ACCESS_TOKEN"]
    requests.post(
        f"{embedded.cloud.url}/compute/v1/projects/tpuflex-dev/global/networks",
        json={"name": "tpuflex-dev-vllm-nets", "autoCreateSubnetworks": False},
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    ).raise_for_status()

    standing = sweep(embedded, capsys)
    shutil.rmtree(embedded.root / ".tpuflex" / "backend")
    (embedded.root / ".tpuflex" / "backend").mkdir()
    listed = sweep(embedded, capsys)
    with pytest.raises(IncompleteTeardownError, match=f"--slice {FIRST}"):
        sweep(embedded, capsys, yes=True)
    everywhere = sweep_all(embedded, capsys)
    kept = set(embedded.remaining())
    refusal = Answer(status=403, message="The caller does not have permission")
    rule = Rule(id="refuse", where=Where(path="/us-east5-b/nodes"), times=0, effect=refusal)
    embedded.cloud.cloud.faults.book.add(rule)
    with pytest.raises(IncompleteTeardownError) as incomplete:
        sweep(embedded, capsys)
    embedded.cloud.cloud.faults.book.remove()
    swept = sweep(embedded, capsys, FIRST, yes=True)
    again = sweep(embedded, capsys, yes=True)

    assert found(standing) == []
    assert everywhere["exit_code"] == 10
    assert [found(each) for each in everywhere["projects"]] == [found(listed)]
    assert "No state knows this in tpuflex-dev" in everywhere["errors"][0]["message"]
    assert found(listed) == found(swept)
    assert {"queued resource", "bucket", "secret", "network", "project role"} <= set(found(listed))
    assert "node" not in found(listed)
    assert "queuedResources" in kept
    assert "nodes in us-east5-b" in incomplete.value.message
    assert found(again) == []
    assert embedded.remaining() == ["networks"]
    (network,) = embedded.cloud.cloud.inventory()["compute"]["networks"]
    assert str(network["name"]).endswith("/tpuflex-dev-vllm-nets")
