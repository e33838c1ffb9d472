"""`tpuflex down` for many stacks, with the real engine on the embedded cloud."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import requests

from tests.acceptance.downs import begin_down
from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded
from tpuflex.cli.down.many import run_down_many
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.candidates import Selection
from tpuflex.stack.connection import Connection

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


@pytest.fixture
def three(embedded: Embedded) -> Embedded:
    """Two stacks that are up, `dev` protected, and one that is not."""
    files = embedded.root / "stacks"
    dev = (files / "Pulumi.dev.yaml").read_text()
    for stack in ("never-up", "qa"):
        (files / f"Pulumi.{stack}.yaml").write_text(dev)
    protection = "  tpuflex:slice:\n    deletion_protection: true\n"
    (files / "Pulumi.dev.yaml").write_text(dev.replace("  tpuflex:slice:\n", protection))
    for stack in ("dev", "qa"):
        stack_run(embedded.root, embedded.engine, embedded.environ, stack).up()
    return embedded


def down(
    embedded: Embedded,
    selection: Selection,
    capsys: pytest.CaptureFixture[str],
    *,
    stack: str = "",
    dry_run: bool = False,
) -> tuple[int, Any]:
    """`tpuflex down --json --yes` with conditions: its exit code, and its document by stack."""
    path = f"{embedded.engine.path.parent}:{embedded.environ['PATH']}"
    environ = {**embedded.environ, "PATH": path}
    invocation = Invocation(environ=environ, directory=embedded.root, json=True, yes=True)
    invocation = replace(invocation, chosen_stack=stack)
    capsys.readouterr()
    code = run_down_many(
        invocation,
        selection,
        lambda opened: Connection(opened, environ),
        every=not stack,
        dry_run=dry_run,
    )
    document = json.loads(capsys.readouterr().out)
    return code, {each["stack"]: each for each in document["stacks"]}


def test_two_terminals_a_broken_program_and_strangers(
    three: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run, and a condition that does not hold, change nothing. Then two terminals tear
    everything down at once, with a program that no longer runs, a stack file that is wrong and one
    that is gone: what one does not do the other does; a stack that is protected is kept, named, and
    stops nobody; nothing of others is touched."""
    _of_somebody(three)
    (three.root / "__main__.py").write_text("raise SystemExit('broken')\n")
    there = _names(three)

    code, dry = down(three, Selection({"tpuflex-stack": "qa"}), capsys, dry_run=True)
    _, young = down(three, Selection(older_than=timedelta(hours=1)), capsys, stack="qa")
    untouched = _names(three)
    (three.root / "stacks" / "Pulumi.dev.yaml").write_text("config: {tpuflex:cloud: embedded")
    (three.root / "stacks" / "Pulumi.qa.yaml").unlink()
    terminals = [begin_down(three), begin_down(three)]
    answers = [terminal.communicate(timeout=240) for terminal in terminals]

    assert code == 0
    assert {name: each["outcome"] for name, each in dry.items()} == {
        "dev": "kept",
        "qa": "to be destroyed",
    }
    assert dry["qa"]["inventory"]
    assert young["qa"]["outcome"] == "kept"
    assert young["qa"]["why"].startswith("its slice is ")
    assert untouched == there
    outcomes: dict[str, set[str]] = {"dev": set(), "qa": set()}
    for terminal, (out, err) in zip(terminals, answers, strict=True):
        document = json.loads(out)
        assert "Traceback" not in err
        assert "Pulumi.dev.yaml is wrong" in err
        assert "Pulumi.qa.yaml is not there: going by the state" in err
        assert document["exit_code"] == terminal.returncode >= 1
        for each in document["stacks"]:
            outcomes[each["stack"]].add(each["outcome"])
    assert outcomes["dev"] == {"protected"}, answers
    assert "gone" in outcomes["qa"], answers
    assert _names(three) == {name for name in there if "tpuflex-qa-vllm" not in name}
    assert any("tpuflex-qa-vllm" in name for name in there)


def _of_somebody(embedded: Embedded) -> None:
    """Make networks as others would, one with a name much like ours."""
    for name in ("somebodys-net", "tpuflex-qa-of-somebody", "tpuflex-dev-vllm-nets"):
        requests.post(
            f"{embedded.cloud.url}/compute/v1/projects/tpuflex-dev/global/networks",
            json={"name": name, "autoCreateSubnetworks": False},
            headers={"Authorization": f"Bearer {embedded.environ['GOOGLE_OAUTH_ACCESS_TOKEN']}"},
            timeout=60,
        ).raise_for_status()


def _names(embedded: Embedded) -> set[str]:
    """Names of everything in the cloud that has one."""
    return {
        str(resource.get("name") or resource.get("email"))
        for kinds in embedded.cloud.cloud.inventory().values()
        for found in kinds.values()
        for resource in found
    }
