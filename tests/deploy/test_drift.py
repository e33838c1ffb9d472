"""What was deleted or changed outside, as `preview` and `up` show it, and as a schedule sees it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.cli.samples import step
from tests.cli.typing import Captured
from tpuflex.cli.preview.comment import preview_markdown
from tpuflex.cli.stack_plan import show_plan
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.stack_preview import Preview, require_as_planned
from tpuflex.engine.events import Drift, EnginePlan, Step
from tpuflex.errors import NotAsPlannedError
from tpuflex.planning.cost import run_cost
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
DELETED = Drift("gcp:compute/firewall:Firewall", "vllm-ssh")
CHANGED = Drift("gcp:storage/bucket:Bucket", "weights", ("labels", "retentionPolicy"))
COMPONENT = Step("update", "tpuflex:index:Network", "n", "urn:n", custom=False)


def found(
    stack: Stack, *steps: Step, drift: tuple[Drift, ...] = (), refreshed: bool = True
) -> Preview:
    plan = StackPlan(
        stack, EnginePlan(steps, drift=drift, refreshed=refreshed), run_cost(stack.settings)
    )
    return Preview(stack.name, "acme", plan, plan.plan.digest, NOON, None)


def test_it_stands_before_the_plan(stack: Stack, capsys: Captured) -> None:
    """Drift is shown to people, to scripts, and in the comment, which names the command that runs
    the plan."""
    preview = found(stack, step("create"), drift=(DELETED, CHANGED))
    show_plan(Output(json=False, verbose=False), preview.plan)
    comment = preview_markdown(preview)

    assert capsys.readouterr().out.startswith(
        "Not in the cloud as the state has it\n"
        "  deleted  Firewall vllm-ssh\n"
        "  changed  Bucket weights: labels, retentionPolicy\n"
        "\n"
        "Stack dev on "
    )
    document = preview.to_json()
    assert document["refreshed"]
    assert document["drift"] == [DELETED.to_json(), CHANGED.to_json()]
    assert CHANGED.to_json()["change"] == "changed"
    assert "| **deleted** | `gcp:compute/firewall:Firewall` | `vllm-ssh` |  |" in comment
    assert "| changed | `gcp:storage/bucket:Bucket` | `weights` | `labels`, `retent" in comment
    assert f"`tpuflex up --refresh --expect {preview.digest}`" in comment


def test_that_there_is_none_is_said_where_it_was_looked_for(stack: Stack, capsys: Captured) -> None:
    """With --refresh, that nothing has drifted is said; without it nothing is, as nobody looked."""
    said = "In the cloud, all is as the state has it.\n"
    for refreshed in (True, False):
        preview = found(stack, refreshed=refreshed)
        show_plan(Output(json=False, verbose=False), preview.plan)
        assert (said in capsys.readouterr().out) is refreshed
        assert (said in preview_markdown(preview)) is refreshed


@pytest.mark.parametrize(
    ("steps", "drift", "message"),
    [
        ((step("same"),), (), None),
        ((step("update"),), (), "Not all is as planned: `up` has 1 to change."),
        ((COMPONENT,), (), "Not all is as planned: `up` has the state to change."),
        (
            (step("same"),),
            (DELETED,),
            "Not all is as planned: 1 resource is not as the state has it.",
        ),
        (
            (step("create"),),
            (DELETED, CHANGED),
            "Not all is as planned: 2 resources are not as the state has them, and `up` has 1 to"
            " create.",
        ),
    ],
)
def test_what_is_not_as_planned(
    stack: Stack, steps: tuple[Step, ...], drift: tuple[Drift, ...], message: str | None
) -> None:
    """The error names what `up` would change and what somebody else has changed; without either
    there is none."""
    said = None
    try:
        require_as_planned(found(stack, *steps, drift=drift))
    except NotAsPlannedError as error:
        said = error.message

    assert said == message
