"""What a recovery waits for, reads again, and imports although no operation was left of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tpuflex.engine.events import EnginePlan, Step
from tpuflex.engine.state import pending, resources
from tpuflex.google.timing import Timing
from tpuflex.queued_resource.body import spec_hash
from tpuflex.queued_resource.check import parse
from tpuflex.recovery.import_state import DELETION_WAIT_S
from tpuflex.recovery.look import LookResult, Presence
from tpuflex.recovery.recover import recover

TYPE = "tpuflex:tpu:QueuedResource"
PLACE = "projects/cloud-project/locations/us-east5-a/queuedResources"
URN = f"urn:pulumi:dev::p::{TYPE}::slice"
INPUTS: dict[str, Any] = {
    "project": "cloud-project",
    "zones": ["us-east5-a"],
    "queuedResourceId": "slice-g1",
    "queuedResourceIdPrefix": "slice",
    "acceleratorType": "v6e-4",
    "runtimeVersion": "v2-alpha-tpuv6e",
    "serviceAccount": "host@p.iam.gserviceaccount.com",
    "maxRunDuration": "3600s",
    "labels": {"tpuflex-owner": "me"},
    "metadata": {},
}


@dataclass
class World:
    """A stack of one queued resource, and a cloud in which some are deleted by a clock.

    Attributes:
        gone_at: id -> when it is gone; before, it is being deleted.
        alive: id -> the inputs that it was asked for with.
    """

    gone_at: dict[str, float] = field(default_factory=dict)
    alive: dict[str, dict[str, Any]] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    now: float = 0.0
    plan: EnginePlan = field(default_factory=lambda: EnginePlan(()))

    def deployment(self) -> dict[str, Any]:
        return self.state

    def replace(self, deployment: dict[str, Any]) -> None:
        self.state = deployment

    def preview(self) -> EnginePlan:
        return self.plan

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        found = []
        for one in resources(self.state):
            id_ = one["id"].rpartition("/")[2]
            if one["urn"] not in targets:
                found.append(one)
            elif id_ in self.alive:
                asked = self.alive[id_]
                outputs = {"lifecycle": "active", "specHash": spec_hash(parse(asked))}
                found.append({**one, "inputs": one["inputs"] or asked, "outputs": outputs})
            elif self.now < self.gone_at.get(id_, 0.0):
                found.append({**one, "outputs": {"lifecycle": "deleting"}})
        self.state = {**self.state, "resources": found}

    def __call__(self, type_: str, inputs: Any) -> LookResult:
        assert type_ == TYPE
        id_ = inputs["queuedResourceId"]
        going = self.now < self.gone_at.get(id_, 0.0)
        if id_ in self.alive or going:
            return LookResult(Presence.OURS, f"{PLACE}/{id_}", being_deleted=going)
        return LookResult(Presence.ABSENT, f"{PLACE}/{id_}")

    def generations(self, inputs: Any) -> tuple[LookResult, ...]:
        prefix = inputs["queuedResourceIdPrefix"]
        ids = sorted(id_ for id_ in self.alive if id_.startswith(prefix))
        return tuple(LookResult(Presence.OURS, f"{PLACE}/{id_}") for id_ in ids)

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        return False

    def recovered(self) -> dict[str, str]:
        timing = Timing(lambda: self.now, lambda: self.now, self.pause, lambda: 0.5)
        found = recover(self, self, self.said.append, timing=timing)
        return {item.settlement.value: item.detail for item in found.settled}


def stored(generation: int = 1, **more: Any) -> dict[str, Any]:
    id_ = f"slice-g{generation}"
    inputs = {**INPUTS, "queuedResourceId": id_}
    return {
        "urn": URN,
        "type": TYPE,
        "custom": True,
        "id": f"{PLACE}/{id_}",
        "inputs": inputs,
        "outputs": {"lifecycle": "active"},
        **more,
    }


def test_what_is_being_deleted_is_waited_for() -> None:
    """Also when no operation of it is pending: only its plugin was killed."""
    world = World(gone_at={"slice-g1": 130.0}, state={"resources": [stored()]})

    assert world.recovered() == {"cleared": "it is gone"}

    assert resources(world.state) == []
    assert 130.0 <= world.now < 160.0
    assert [line for line in world.said if "being deleted" in line] == [
        "slice: being deleted; waiting until it is gone (0 s so far)",
        "slice: being deleted; waiting until it is gone (60 s so far)",
        "slice: being deleted; waiting until it is gone (120 s so far)",
    ]


def test_the_wait_ends() -> None:
    """What is not gone at the deadline stays pending in the state, and is reported."""
    operation = {"resource": stored(), "type": "deleting"}
    world = World(
        gone_at={"slice-g1": 1e9},
        state={"resources": [stored()], "pending_operations": [operation]},
    )

    (left,) = world.recovered().items()

    assert left == ("left", "it is still being deleted; run `tpuflex recover` again later")
    assert pending(world.state) == [operation]
    assert DELETION_WAIT_S <= world.now < DELETION_WAIT_S + 60.0


def test_what_was_still_going_when_it_was_taken_in_leaves_the_state() -> None:
    """An earlier recovery had found it being deleted, and left it pending."""
    operation = {"resource": stored(), "type": "creating"}
    known = stored(outputs={"lifecycle": "deleting"})
    world = World(state={"resources": [known], "pending_operations": [operation]})

    assert world.recovered() == {"cleared": "it is gone"}
    assert resources(world.state) == pending(world.state) == []


def test_what_is_gone_leaves_the_state() -> None:
    """It was deleted, and the run that was to note that was killed."""
    world = World(state={"resources": [stored()]})

    assert world.recovered() == {"cleared": "it is gone"}
    assert resources(world.state) == []


def test_a_run_that_ended_stays() -> None:
    """Taken out of the state, it would be bought again unasked."""
    ended = stored(outputs={"lifecycle": "ended"})
    world = World(state={"resources": [ended]})

    assert world.recovered() == {}
    assert resources(world.state) == [ended]


def test_the_next_generation_that_no_state_knows_is_taken_in() -> None:
    """With the inputs that it was asked for with, whatever the program says now; the old one is
    to be deleted."""
    asked = {**INPUTS, "queuedResourceId": "slice-g2", "metadata": {"startup-script": "new"}}
    world = World(alive={"slice-g1": INPUTS, "slice-g2": asked}, state={"resources": [stored()]})

    assert world.recovered() == {"adopted": f"{PLACE}/slice-g2"}

    old, new = resources(world.state)
    assert (old["id"], old["delete"]) == (f"{PLACE}/slice-g1", True)
    assert (new["id"], new["inputs"]) == (f"{PLACE}/slice-g2", asked)
    assert pending(world.state) == []


def test_a_reminder_does_not_hide_its_replacement() -> None:
    """The old one was deleted first; its replacement was made by a plugin that was killed alone.
    It is imported as what it is: an entry that only said "was deleted to be replaced" would be
    dropped by the next run, and the slice with it."""
    asked = {**INPUTS, "queuedResourceId": "slice-g2"}
    world = World(alive={"slice-g2": asked}, state={"resources": [stored(pendingReplacement=True)]})

    assert world.recovered() == {"adopted": f"{PLACE}/slice-g2"}

    (new,) = resources(world.state)
    assert (new["id"], new["outputs"]["lifecycle"]) == (f"{PLACE}/slice-g2", "active")
    assert "pendingReplacement" not in new


def test_a_reminder_alone_is_nothing_to_settle() -> None:
    """What was deleted to be replaced, and has no replacement yet, is not missing."""
    reminder = stored(pendingReplacement=True)
    world = World(state={"resources": [reminder]})

    assert world.recovered() == {}
    assert resources(world.state) == [reminder]


def test_a_lost_state_with_a_slice_of_a_later_generation() -> None:
    """Without a state an `up` would begin with g1 again, and pay twice: the latest that exists is
    imported, and what it replaced is to be deleted."""
    asked = {f"slice-g{n}": {**INPUTS, "queuedResourceId": f"slice-g{n}"} for n in (4, 5)}
    world = World(alive=asked)
    world.plan = EnginePlan((Step("create", TYPE, "slice", URN, INPUTS),))

    world.recovered()

    old, new = resources(world.state)
    assert (old["id"], old["delete"], old["inputs"]) == (
        f"{PLACE}/slice-g4",
        True,
        asked["slice-g4"],
    )
    assert (new["id"], new.get("delete"), new["inputs"]) == (
        f"{PLACE}/slice-g5",
        None,
        asked["slice-g5"],
    )
    assert pending(world.state) == []
