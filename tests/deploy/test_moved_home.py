"""A stack's home does not change places with another of its regions in one step."""

from __future__ import annotations

import pytest

from tpuflex.deploy.stack_run import require_home_can_move
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.errors import ConflictError
from tpuflex.inventory.kinds import SUBNETWORK

A, B = "us-east5", "europe-west4"


def step(operation: str, name: str, before: str = "", after: str = "") -> Step:
    had, has = ({"name": "net", "region": each} if each else {} for each in (before, after))
    return Step(operation, SUBNETWORK.type, name, f"urn::{name}", has, before=had)


MOVED = step("replace", "subnet", A, B)


@pytest.mark.parametrize(
    "others",
    [(step("create", f"subnet-{A}", "", A),), (step("delete", f"subnet-{B}", B),)],
    ids=["what was the home stays", "what was not becomes it"],
)
def test_a_home_that_changes_places_is_refused(others: tuple[Step, ...]) -> None:
    """Before anything is deleted: the message names both regions, and the way."""
    with pytest.raises(ConflictError, match=f"from {A} to {B} in one step") as told:
        require_home_can_move(EnginePlan((MOVED, *others)))
    assert f"{A} alone, then {B} alone" in str(told.value.hint)


@pytest.mark.parametrize(
    "steps",
    [
        (MOVED,),
        (step("replace", "subnet", A, A), step("create", f"subnet-{B}", "", B)),
        (step("same", "subnet", A, A), step("delete", f"subnet-{B}", B)),
        (MOVED, step("delete", "subnet-asia-east1", "asia-east1")),
    ],
)
def test_what_meets_nothing_is_allowed(steps: tuple[Step, ...]) -> None:
    """A home that moves alone, or regions that come and go beside it, meet no other subnetwork."""
    require_home_can_move(EnginePlan(steps))
