"""The steps of the preview's workflow, run as GitHub runs them: with bash, in their order, on a
change of each kind. Only `gh` is a stand-in, and the checkouts, set-up and login are the test's.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.guides.workflow_runner import (
    ENV_CANARY,
    Runner,
    bodies,
    deployed,
    edited,
    runner,
    settled,
)
from tests.deploy.test_base_commit import commit
from tests.engine.embedded import ROOT, pulumi_engine
from tests.goldens.golden_texts import assert_golden
from tests.unit.stack_sections import pinned

__all__ = ["deployed", "pulumi_engine", "runner"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_resized(runner: Runner) -> None:
    """Other chips for an endpoint that serves: loud, with what it costs; and the second push to the
    same pull request changes the first one's comment, whoever else quotes its marker."""
    edited(runner, slice={"accelerator_type": "v5litepod-1"})
    stranger = {"id": 1, "user": {"login": "mallory"}, "body": "<!-- tpuflex preview 0 -->\nhi"}
    Path(runner.environ["GH_STORE"]).write_text(json.dumps([stranger]))

    assert runner.preview() == {"dev": {"code": "0"}}
    first = runner.comments[-1]
    quoted = {**stranger, "body": first["body"].partition("\n")[0] + "\nhi"}
    Path(runner.environ["GH_STORE"]).write_text(json.dumps([quoted, first]))
    edited(runner, slice={"max_run_duration": "8d"})
    assert runner.preview()["dev"]["code"] == "5"

    assert [comment["id"] for comment in runner.comments] == [1, first["id"]]
    assert runner.comments[0] == quoted
    assert runner.comments[1]["body"] != first["body"]
    assert settled(runner.summary).startswith(settled(first["body"]))
    assert_golden("preview/job-resized.md", settled(first["body"]))


def test_rotated(runner: Runner) -> None:
    """A rotated secret: the key of the stack file, and what becomes of the slice. `up` computes the
    digest that the comment shows, and runs no other plan."""
    edited(runner, secrets={"api_key_version": 2})

    runner.preview()

    (body,) = bodies(runner)
    assert_golden("preview/job-rotated.md", body)
    (digest,) = re.findall(r"--expect ([0-9a-f]{64})", runner.comments[0]["body"])
    refused = subprocess.run(
        ["tpuflex", "-C", str(runner.top / "project"), "up", "--yes", "--expect", "0" * 64],
        env=runner.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 12
    assert f"its digest is {digest}" in refused.stderr


def test_from_a_fork(runner: Runner) -> None:
    """A change from a fork is previewed as a rehearsal, says so, and writes no comment."""
    shipped = (ROOT / "stacks" / "Pulumi.gemma-4-e4b-v6e-1.yaml").read_text()
    new = pinned(shipped.replace("my-project-id", "acme-serving")).replace("source:", "# source:")
    (runner.top / "project" / "stacks" / "Pulumi.new.yaml").write_text(new)
    commit(runner.top)

    assert runner.preview(outside=True) == {"new": {"code": "0"}}

    assert runner.comments == []
    assert "::notice::No credentials" in "".join(runner.said)
    assert_golden("preview/job-new.md", settled(runner.summary))


def test_what_is_refused(runner: Runner) -> None:
    """A stack that breaks a rule, in text that would act: the comment says which, and the job
    fails after it."""
    hostile = "10.0.0.0/8 @org ![i](https://evil.example) `$(touch PWNED)` \x1b[2J"
    edited(
        runner,
        slice={"max_run_duration": "8d"},
        network={"allowed_cidrs": [hostile]},
        serving={"env": {"HF_TOKEN": ENV_CANARY}},
    )

    outcome = runner.preview()["dev"]

    assert outcome["failed"] == "Say how it ended"
    assert outcome["code"] == "5"
    assert_golden("preview/job-refused.md", bodies(runner)[0])


def test_a_file_whose_name_acts(runner: Runner) -> None:
    """A stack file whose name is a command stops the first job."""
    (runner.top / "project" / "stacks" / "Pulumi.$(touch PWNED).yaml").write_text("config: {}\n")
    commit(runner.top)

    outcome = runner.preview()[""]

    assert outcome["failed"] == "Find the stacks that the change touches"
    assert "names no stack" in outcome["said"]
