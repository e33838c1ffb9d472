"""The steps of the workflows that deploy, renew, compare and sweep, run with bash, in their order.

With the real engine on the embedded cloud; `gh` is a stand-in.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.guides.workflow_runner import TOKEN_CANARY, Runner, deployed, edited, runner
from tests.deploy.test_base_commit import commit
from tests.engine.embedded import ROOT, pulumi_engine

__all__ = ["deployed", "pulumi_engine", "runner"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

_INPUTS = {
    "inputs.directory": "project",
    "inputs.stack": "",
    "inputs.slices": "",
    "github.event.before": "main",
    "github.ref_protected": "true",
    "github.token": TOKEN_CANARY,
    "matrix.stack": "dev",
}


@pytest.fixture
def facts(runner: Runner) -> dict[str, str]:
    """What the expressions of the workflows stand for."""
    runner.environ.update(GITHUB_RUN_ID="11", GH_KEPT=str(runner.temp / "kept"))
    (runner.top / ".tpuflex-source").mkdir(exist_ok=True)
    backend = (runner.top / "project" / ".tpuflex" / "backend").as_uri()
    return {**_INPUTS, "inputs.backend": backend}


def approve(runner: Runner) -> None:
    """Keep the plan, as the step that uploads it does."""
    shutil.copytree(runner.temp / "plan", runner.temp / "kept" / "tpuflex-plan-dev")
    shutil.rmtree(runner.temp / "plan")


def test_the_approved_plan_is_what_runs(runner: Runner, facts: dict[str, str]) -> None:
    """The stacks of the push, their plans in the summary, and the approved one is what runs; where
    the stack file has changed since, nothing does."""
    assert runner.job("plan", facts, workflow="deploy") == {}
    approve(runner)
    assert runner.job("deploy", facts, workflow="deploy") == {}
    assert "READY: a completion was served" in runner.said[-1]
    shutil.rmtree(runner.temp / "kept")
    edited(runner, serving={"env": {"VLLM_CPU_KVCACHE_SPACE": "2"}})

    changed = runner.job("changed", facts, workflow="deploy")
    assert changed == {"stacks": '["dev"]'}
    assert runner.job("plan", facts, workflow="deploy") == {}
    plan = json.loads((runner.temp / "plan" / "plan.json").read_text())
    approve(runner)
    edited(runner, serving={"env": {"VLLM_CPU_KVCACHE_SPACE": "3"}})
    late = runner.job("deploy", facts, workflow="deploy")

    assert plan["digest"] in runner.summary
    assert late["failed"] == "Deploy the plan that was approved"
    assert "its digest is " in late["said"]


def test_what_is_not_deployed(runner: Runner, facts: dict[str, str]) -> None:
    """A branch that is not protected stops before anything; a stack file that is deleted is warned
    of, and is no stack to deploy; one asked for by hand is the only one."""
    (runner.top / "project" / "stacks" / "Pulumi.dev.yaml").unlink()
    commit(runner.top)
    unprotected = {**facts, "github.ref_protected": "false"}

    for workflow, job in (("deploy", "changed"), ("renew", "renewing"), ("sweep", "remove")):
        refused = runner.job(job, unprotected, workflow=workflow)
        assert refused["failed"] == "Refuse a branch that is not protected", workflow
    assert runner.job("changed", facts, workflow="deploy") == {"stacks": "[]"}
    assert "::warning::The stack file of dev is deleted" in runner.said[-1]
    by_hand = {**facts, "inputs.stack": 'a"]$(touch PWNED)'}
    assert json.loads(runner.job("changed", by_hand, workflow="deploy")["stacks"]) == [
        'a"]$(touch PWNED)'
    ]


def test_a_renewal(runner: Runner, facts: dict[str, str]) -> None:
    """A stack on the embedded cloud is not listed; one whose file has changed is not renewed, and
    one that is not up is no failure, and gets no state."""
    assert runner.job("renewing", facts, workflow="renew") == {"stacks": "[]"}
    stacks = runner.top / "project" / "stacks"
    shutil.copy(stacks / "Pulumi.dev.yaml", stacks / "Pulumi.never-up.yaml")
    edited(runner, slice={"renew_before": "1h"})

    refused = runner.job("renew", facts, workflow="renew")
    assert refused["failed"] == "Renew"
    assert "Deploy what has changed" in refused["said"]
    assert runner.job("renew", {**facts, "matrix.stack": "never-up"}, workflow="renew") == {}
    assert "::notice::never-up is not up" in runner.said[-1]
    assert not list(runner.top.rglob("never-up.json*"))


def test_drift(runner: Runner, facts: dict[str, str]) -> None:
    """A stack that is as planned is no failure; of one that is not, the summary says what."""
    assert runner.job("drift", facts, workflow="drift") == {}
    assert runner.summary == ""
    edited(runner, serving={"env": {"VLLM_CPU_KVCACHE_SPACE": "4"}})

    found = runner.job("drift", facts, workflow="drift")

    assert found["failed"] == "Compare each stack that is up"
    assert "Not all is as planned: `up` has 1 to replace." in found["said"]
    assert "In the cloud, all is as the state has it." in runner.summary


def test_a_sweep(runner: Runner, facts: dict[str, str]) -> None:
    """The report is in the summary, as it is; the exit code is that of `sweep`, which is told the
    slices by name, whatever these are."""
    shutil.copytree(ROOT / ".ci", runner.top / ".tpuflex-source" / ".ci", dirs_exist_ok=True)

    assert runner.job("report", facts, workflow="sweep") == {}
    assert "    Project tpuflex-dev" in runner.summary
    named = {**facts, "inputs.slices": "gone $(touch PWNED) *"}
    refused = runner.job("remove", named, workflow="sweep")

    assert refused["failed"] == "Sweep"
    assert "nothing of that name is left behind; nothing was deleted" in refused["said"]
    assert Path(runner.environ["GITHUB_STEP_SUMMARY"]).read_text().count("nothing was deleted") == 1
