"""How the real engine tells of a hand-over that was begun, and what is read from that: what a
schedule goes on with by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.provider.deployment import CUT_SHORT, TYPE, Rig, live
from tests.provider.reporting_hosts import (
    FIRST,
    SECOND,
    Hosts,
    fail_to_delete_the_first,
    renew,
)
from tpuflex.deploy.approval import Approval
from tpuflex.deploy.stack_up import asks_for_chips
from tpuflex.engine.events import EnginePlan, Started, Step, progress_of

pytestmark = [*CUT_SHORT, pytest.mark.usefixtures("served")]


def planned(rig: Rig) -> EnginePlan:
    """What an `up` would do; a schedule may do it."""
    steps: list[Step] = []

    def hear(event: Any) -> None:
        said = progress_of(event)
        if isinstance(said, Started):
            steps.append(said.step)

    rig.stack.preview(on_event=hear)
    plan = EnginePlan.of(steps)
    Approval(renewal_only=True).require(plan)
    assert not asks_for_chips(plan)
    return plan


def of_slice(plan: EnginePlan) -> tuple[str, tuple[str, ...], bool]:
    """What ``plan`` does with the slice, because of what, and whether another one goes with it."""
    (step,) = (each for each in plan.steps if each.type == TYPE)
    return step.operation, step.changed, step.ends_replaced


def test_one_that_serves_lets_what_it_replaces_be_deleted(rig: Rig, hosts: Hosts) -> None:
    """The `up` before it was stopped in that; nothing else has changed."""
    rig.up()
    hosts.report(2, {"phase": "READY"})
    renew(rig, "again")
    fail_to_delete_the_first(rig)
    assert live(rig) == [FIRST, SECOND]

    assert of_slice(planned(rig)) == ("same", (), True)
    rig.up()

    assert live(rig) == [SECOND]
    assert of_slice(planned(rig)) == ("same", (), False)
