"""Taking over what another state has made: which id the state gets, and when it gets none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tpuflex.engine.events import EnginePlan, Step
from tpuflex.engine.state import state_ids
from tpuflex.errors import EngineError
from tpuflex.google.timing import Timing
from tpuflex.inventory.cloud_resource import Marker
from tpuflex.naming import LABEL_STATE, STATE_ID
from tpuflex.recovery.look import LookResult, Presence
from tpuflex.recovery.owners import Taken
from tpuflex.recovery.recover import recover
from tpuflex.recovery.report import Recovery
from tpuflex.recovery.take_over import TakeOver

URN = f"urn:pulumi:dev::p::{STATE_ID}::vllm-state"
BUCKET = "gcp:storage/bucket:Bucket"
ONE, OTHER = "11111111111111111111", "22222222222222222222"
OWNER = "0123456789abcdef"
_TIMING = Timing(lambda: 0.0, lambda: 0.0, lambda _: False, lambda: 0.5)


def held(state_id: str, owner: str = OWNER) -> Taken:
    return Taken("bucket", f"b-{state_id}", Marker(owner, "p", "dev", state_id))


def with_id(id_: str) -> dict[str, Any]:
    return {"urn": URN, "type": STATE_ID, "custom": True, "id": id_, "outputs": {"value": id_}}


def made_with(id_: str) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::p::{BUCKET}::weights"
    inputs = {"name": "b", "labels": {LABEL_STATE: id_}}
    return {"urn": urn, "type": BUCKET, "custom": True, "id": "b", "inputs": inputs}


@dataclass
class World:
    """A stack, and what the cloud has under its names."""

    there: tuple[Taken, ...]
    known: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state: dict[str, Any] = {"resources": self.known}

    def deployment(self) -> dict[str, Any]:
        return self.state

    def replace(self, deployment: dict[str, Any]) -> None:
        self.state = deployment

    def preview(self) -> EnginePlan:
        operation = "same" if state_ids(self.state) else "create"
        return EnginePlan((Step(operation, STATE_ID, "vllm-state", URN),))

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """As the provider reads a state id."""
        found = [
            {**one, "outputs": {"value": one["id"]}} if one["urn"] in targets else one
            for one in self.state["resources"]
        ]
        self.state = {**self.state, "resources": found}

    def __call__(self, type_: str, inputs: Any) -> LookResult:  # noqa: ARG002
        return LookResult(Presence.OURS)

    def generations(self, inputs: Any) -> tuple[LookResult, ...]:  # noqa: ARG002
        return ()

    def taken_over(self) -> Recovery:
        first = TakeOver(lambda _steps: self.there, OWNER)
        return recover(self, self, lambda _: None, timing=_TIMING, first=first)


def test_the_state_gets_the_id_that_the_resources_carry() -> None:
    """What carries none, or belongs to somebody else, does not count."""
    world = World((held(ONE), held(ONE), held(""), held(OTHER, owner="f" * 16)))

    report = world.taken_over()

    assert state_ids(world.state) == {ONE}
    assert [item.detail for item in report.settled] == [ONE]


@pytest.mark.parametrize("known", [[], [with_id(ONE), made_with(ONE)]])
def test_where_nothing_is_there_nothing_happens(known: list[dict[str, Any]]) -> None:
    """No id is drawn for nothing, and one's own is no reason to change anything."""
    world = World((held(ONE),) if known else (), known)

    world.taken_over()

    assert world.state == {"resources": known}


def test_an_id_that_marks_nothing_gives_way() -> None:
    """That of an `up` that was refused after it had drawn one."""
    world = World((held(ONE),), [with_id(OTHER)])

    world.taken_over()

    assert world.state["resources"] == [with_id(ONE)]


@pytest.mark.parametrize(
    ("there", "known"),
    [
        ((held(ONE), held(OTHER)), []),
        ((held(ONE),), [with_id(OTHER), made_with(OTHER)]),
    ],
    ids=["two in the cloud", "one here and one there"],
)
def test_several_states_are_not_joined(
    there: tuple[Taken, ...], known: list[dict[str, Any]]
) -> None:
    """S5: each is listed with its id, and nothing is changed."""
    world = World(there, known)

    with pytest.raises(EngineError, match="not made by one state") as told:
        world.taken_over()

    assert all(str(each) in told.value.message for each in there)
    assert world.state == {"resources": known}
