"""What a recovery finds in zones that the state does not name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tpuflex.engine.events import Step
from tpuflex.engine.plan import Plan, merge
from tpuflex.engine.recovery import recover
from tpuflex.engine.recovery_look import Answer, Finding
from tpuflex.engine.recovery_table import places
from tpuflex.engine.state import pending, resources
from tpuflex.gcp.timing import Timing

TYPE = "tpuflex:tpu:QueuedResource"
URN = f"urn:pulumi:dev::p::{TYPE}::slice"
A, B, C = "us-east5-a", "us-east5-b", "us-east5-c"


def inputs(*zones: str, generation: int = 1) -> dict[str, Any]:
    return {
        "project": "p",
        "zones": list(zones),
        "queuedResourceId": f"slice-g{generation}",
        "queuedResourceIdPrefix": "slice",
    }


def name(zone: str, generation: int = 1) -> str:
    return f"projects/p/locations/{zone}/queuedResources/slice-g{generation}"


def step(operation: str, given: dict[str, Any]) -> Step:
    return Step(operation, TYPE, "slice", URN, given)


@dataclass
class World:
    """A stack of one queued resource whose state names zone A, and a cloud.

    Attributes:
        there: names of what the cloud has, and of what is ours.
        program: what a preview says of it.
    """

    there: set[str]
    program: Step = field(default_factory=lambda: step("same", inputs(A)))
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = {"urn": URN, "type": TYPE, "custom": True, "id": name(A), "inputs": inputs(A)}
        known["outputs"] = {"lifecycle": "waiting", "requests": [name(A)]}
        self.state: dict[str, Any] = {"resources": [known]}

    def deployment(self) -> dict[str, Any]:
        return self.state

    def replace(self, deployment: dict[str, Any]) -> None:
        self.state = deployment

    def preview(self) -> Plan:
        return Plan((self.program,))

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """As the provider reads: what the state remembers and the cloud has."""
        found = []
        for one in resources(self.state):
            known = {one["id"], *((one.get("outputs") or {}).get("requests") or ())}
            there = sorted(known & self.there)
            if one["urn"] in targets and there:
                one = {**one, "outputs": {"lifecycle": "waiting", "requests": there}}
            found.append(one)
        self.state = {**self.state, "resources": found}

    def __call__(self, type_: str, inputs: Any) -> Finding:
        ids = [place.id for place in places(type_, inputs)]
        ours = [id_ for id_ in ids if id_ in self.there]
        return Finding(Answer.OURS, ours[0]) if ours else Finding(Answer.ABSENT, ids[0])

    def generations(self, inputs: Any) -> tuple[Finding, ...]:
        prefix = inputs["queuedResourceIdPrefix"]
        ours = sorted(each for each in self.there if prefix in each)
        return tuple(Finding(Answer.OURS, each) for each in ours)

    def recovered(self) -> list[tuple[str, str]]:
        timing = Timing(lambda: 0.0, lambda: 0.0, lambda _: False, lambda: 0.5)
        found = recover(self, self, self.said.append, timing=timing)
        assert found.clean
        assert pending(self.state) == []
        return [(item.outcome.value, item.detail) for item in found.settled]

    def requests(self) -> list[str]:
        (known,) = resources(self.state)
        return sorted(known["outputs"]["requests"])


@pytest.mark.parametrize("zones", [(B, A), (A,), (C,)], ids=["new", "reverted", "changed again"])
def test_a_request_in_a_zone_that_the_state_does_not_name(zones: tuple[str, ...]) -> None:
    """Only the plugin was killed while a waiting slice was asked for in a second zone: the state
    learns of the request there, so that the next `up` or `down` deals with it, whatever the
    program says by now."""
    world = World({name(A), name(B)}, step("update", inputs(*zones)))

    assert world.recovered() == [("adopted", name(B))]
    assert world.requests() == [name(A), name(B)]
    assert world.recovered() == []


def test_a_replacement_in_a_zone_that_the_state_does_not_name() -> None:
    """The program moved the slice, and the plugin was killed after it had asked in the new zone:
    the new one is taken in, the old one is to be deleted."""
    world = World({name(A), name(B, 2)}, step("replace", inputs(B, generation=2)))

    assert world.recovered() == [("adopted", name(B, 2))]
    old, new = resources(world.state)
    assert (old["id"], old["delete"]) == (name(A), True)
    assert (new["id"], new.get("delete")) == (name(B, 2), None)


def test_nothing_elsewhere() -> None:
    """What is not there is not made up."""
    world = World({name(A)}, step("update", inputs(A, B)))

    assert world.recovered() == []
    assert world.requests() == [name(A)]


def test_a_lost_state_in_a_zone_that_the_program_does_not_name() -> None:
    """It is taken in where it is, with its zone before those of the program."""
    world = World({name(B), name(C), name(C, 2)}, step("create", inputs(A)))
    world.state = {"resources": []}

    world.recovered()

    old, new = resources(world.state)
    assert (old["id"], old["delete"], old["inputs"]["zones"]) == (name(B), True, [B, C, A])
    assert (new["id"], new["inputs"]) == (name(C, 2), inputs(C, A, generation=2))


@pytest.mark.parametrize(
    "operations",
    [
        ("create-replacement", "replace", "delete-replaced"),
        ("delete-replaced", "replace", "create-replacement"),
    ],
)
def test_a_replacement_is_planned_with_the_new_inputs(operations: tuple[str, ...]) -> None:
    """In whichever order the engine tells it; the step that deletes speaks of the old ones."""
    steps: dict[str, Step] = {}
    for operation in operations:
        merge(steps, step(operation, inputs(A if "delete" in operation else B)))

    assert (steps[URN].operation, steps[URN].inputs) == ("replace", inputs(B))
