"""What a recovery finds of a slice that the state does not know of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from pulumi_plugin.values import UNKNOWN_STRING as UNKNOWN
from tests.operate.marked_things import NAMES, STATE, STRANGER, ZONE, Api, clients, labelled
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.engine.state import pending, resources
from tpuflex.errors import AccessError, ApiError
from tpuflex.google.timing import Timing
from tpuflex.inventory.resource_ids import ids_of
from tpuflex.recovery.look import CloudLook, LookResult, Presence
from tpuflex.recovery.recover import recover

TYPE = "tpuflex:tpu:QueuedResource"
URN = f"urn:pulumi:dev::p::{TYPE}::slice"
A, B, C = "us-east5-a", "us-east5-b", "us-east5-c"


_TIMING = Timing(lambda: 0.0, lambda: 0.0, lambda _: False, lambda: 0.5)


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
        self.created: dict[str, str] = {}

    def deployment(self) -> dict[str, Any]:
        return self.state

    def replace(self, deployment: dict[str, Any]) -> None:
        self.state = deployment

    def preview(self) -> EnginePlan:
        return EnginePlan((self.program,))

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """As the provider reads: what the state names and the cloud has."""
        found = []
        for one in resources(self.state):
            known = {one["id"], *((one.get("outputs") or {}).get("requests") or ())}
            there = sorted(known & self.there)
            if one["urn"] in targets and there:
                one = {**one, "outputs": {"lifecycle": "waiting", "requests": there}}
            found.append(one)
        self.state = {**self.state, "resources": found}

    def __call__(self, type_: str, inputs: Any) -> LookResult:
        ids = [place.id for place in ids_of(type_, inputs)]
        ours = [id_ for id_ in ids if id_ in self.there]
        return LookResult(Presence.OURS, ours[0]) if ours else LookResult(Presence.ABSENT, ids[0])

    def generations(self, inputs: Any) -> tuple[LookResult, ...]:
        prefix = inputs["queuedResourceIdPrefix"]
        ours = sorted(
            (each for each in self.there if prefix in each), key=lambda id_: (id_[-1], id_)
        )
        return tuple(
            LookResult(Presence.OURS, each, created=self.created.get(each, "")) for each in ours
        )

    def recovered(self) -> list[tuple[str, str]]:
        found = recover(self, self, self.said.append, timing=_TIMING)
        assert found.clean
        assert pending(self.state) == []
        return [(item.settlement.value, item.detail) for item in found.settled]

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
    the new one is imported, the old one is to be deleted."""
    world = World({name(A), name(B, 2)}, step("replace", inputs(B, generation=2)))

    assert world.recovered() == [("adopted", name(B, 2))]
    old, new = resources(world.state)
    assert (old["id"], old["delete"]) == (name(A), True)
    assert (new["id"], new.get("delete")) == (name(B, 2), None)


def test_generations_that_no_state_knows() -> None:
    """Going on without a `recover` may have skipped some: the latest is the slice, and all
    others are to be deleted."""
    world = World({name(A), name(B, 2), name(A, 4), name(C, 3)})

    assert world.recovered() == [
        ("adopted", f"{name(B, 2)}, which was replaced: the next `up` deletes it"),
        ("adopted", f"{name(C, 3)}, which was replaced: the next `up` deletes it"),
        ("adopted", name(A, 4)),
    ]
    entries = {one["id"]: bool(one.get("delete")) for one in resources(world.state)}
    assert entries == {name(A): True, name(B, 2): True, name(C, 3): True, name(A, 4): False}
    assert world.recovered() == []


def test_a_generation_before_that_of_the_state() -> None:
    """It is marked for deletion, and the slice stays as it is."""
    world = World({name(A, 2), name(C)})
    (known,) = resources(world.state)
    known |= {"id": name(A, 2), "inputs": inputs(A, generation=2)}
    known["outputs"]["requests"] = [name(A, 2)]

    world.recovered()

    entries = {one["id"]: bool(one.get("delete")) for one in resources(world.state)}
    assert entries == {name(A, 2): False, name(C): True}


@pytest.mark.parametrize(
    ("made", "replaced"),
    [("2026-11-23T07:00:00Z", False), ("2026-11-23T09:00:00Z", True), ("", True)],
    ids=["older", "newer", "not known"],
)
def test_a_later_generation_that_a_state_had_let_go_of(made: str, replaced: bool) -> None:
    """What is older than the slice has not replaced it, whatever its number: the slice stays, and
    the other is marked for deletion."""
    world = World({name(A), name(B, 2)})
    (known,) = resources(world.state)
    known["outputs"]["createTime"] = "2026-11-23T08:00:00Z"
    world.created = {name(B, 2): made}

    world.recovered()

    entries = {one["id"]: bool(one.get("delete")) for one in resources(world.state)}
    assert entries == {name(A): replaced, name(B, 2): not replaced}


def test_what_cannot_be_listed_is_no_proof() -> None:
    """Everything else is settled all the same, and the recovery says that it is not done."""

    class Away(World):
        def generations(self, inputs: Any) -> tuple[LookResult, ...]:
            raise ApiError(f"nodes in {inputs['zones'][0]}: no permission")

    world = Away({name(A)})
    world.state["pending_operations"] = [
        {"resource": resources(world.state)[0], "type": "updating"}
    ]

    found = recover(world, world, world.said.append, timing=_TIMING)

    assert not found.clean
    assert str(found.unfinished) == f"nodes in {A}: no permission"
    assert pending(world.state) == []


def test_nothing_elsewhere() -> None:
    """Nothing is imported that does not exist."""
    world = World({name(A)}, step("update", inputs(A, B)))

    assert world.recovered() == []
    assert world.requests() == [name(A)]


def test_a_lost_state_in_a_zone_that_the_program_does_not_name() -> None:
    """It is imported where it is, with its zone before those of the program."""
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
    steps = (step(each, inputs(A if "delete" in each else B)) for each in operations)

    (planned,) = EnginePlan.of(steps).steps

    assert (planned.operation, planned.inputs) == ("replace", inputs(B))


class TestListed:
    """What :class:`CloudLook` counts as a generation of a slice."""

    ASKED: ClassVar[dict[str, Any]] = {
        "project": "p",
        "zones": ["z"],
        "queuedResourceIdPrefix": NAMES.prefix,
        "queuedResourceId": NAMES.queued_resource_id(1),
        "labels": NAMES.labels(STATE),
    }

    def found(self, asked: dict[str, Any], **answers: Any) -> list[str]:
        api = Api({f"GET /v2alpha1/projects/p/locations/{k}": v for k, v in answers.items()})
        return [finding.id for finding in CloudLook(clients(tpu=api)).generations(asked)]

    def listed(self, asked: dict[str, Any], *names: str, **nodes: str) -> list[str]:
        """``names`` are requests in zone z; ``nodes`` are nodes there and who holds them."""
        held = [
            {**labelled(name), "name": f"projects/p/locations/z/nodes/{name}", "queuedResource": by}
            for name, by in nodes.items()
        ]
        return self.found(
            asked,
            **{
                "z/queuedResources": {"queuedResources": [*map(labelled, names)]},
                "z/nodes": {"nodes": [{**each, "labels": NAMES.labels(STATE)} for each in held]},
            },
        )

    def test_by_generation(self) -> None:
        """The oldest first, whatever else of the same owner is there."""
        ids = [NAMES.queued_resource_id(number) for number in (10, 9)]

        found = self.listed(self.ASKED, *ids, "other-g1")

        assert found == [f"{ZONE}/queuedResources/{id_}" for id_ in reversed(ids)]

    def test_when_it_was_made(self) -> None:
        """By which what is older than the slice is told from what has replaced it."""
        request = labelled(NAMES.queued_resource_id(2)) | {"createTime": "2026-11-23T07:00:00Z"}
        answers = {"queuedResources": {"queuedResources": [request]}, "nodes": {}}
        place = "GET /v2alpha1/projects/p/locations/z"
        api = Api({f"{place}/{what}": answer for what, answer in answers.items()})

        (found,) = CloudLook(clients(tpu=api)).generations(self.ASKED)

        assert found.created == "2026-11-23T07:00:00Z"

    def test_of_another_stack(self) -> None:
        """The same names with another marker are another stack's."""
        asked = {**self.ASKED, "labels": STRANGER.labels()}

        assert self.listed(asked, NAMES.queued_resource_id(1)) == []

    def test_a_node_that_is_left(self) -> None:
        """It counts as its request, which it names; of several nodes also by its own name."""
        id_ = NAMES.queued_resource_id(3)
        several = {**self.ASKED, "multiNode": {"nodeCount": 2}}

        assert self.listed(self.ASKED, odd=f"{ZONE}/queuedResources/{id_}") == [
            f"{ZONE}/queuedResources/{id_}"
        ]
        assert self.listed(several, **{f"{id_}-1": ""}) == [f"{ZONE}/queuedResources/{id_}"]

    def test_an_id_that_was_given(self) -> None:
        """It has no other generations."""
        asked = {**self.ASKED, "queuedResourceIdPrefix": "", "queuedResourceId": "mine"}

        assert self.listed(asked, "mine", "mine-g2") == [f"{ZONE}/queuedResources/mine"]

    def test_a_name_that_is_not_known_yet(self) -> None:
        """Nothing is listed for it."""
        assert self.found({**self.ASKED, "zones": [UNKNOWN]}) == []

    def test_a_zone_that_does_not_answer(self) -> None:
        """Of the zones that were asked for, each has to."""
        with pytest.raises(ApiError, match="queued resources in z: no answer"):
            self.found(self.ASKED, **{"z/queuedResources": ApiError("no answer")})

    def test_a_zone_that_may_not_be_listed(self) -> None:
        """`recover` ended with an error of the API, and no word of what to do."""
        denied = AccessError("403: Permission 'tpu.nodes.list' denied")

        with pytest.raises(AccessError, match=r"queued resources in z: .*tpu\.nodes\.list") as told:
            self.found(self.ASKED, **{"z/queuedResources": denied})

        assert "gcloud projects add-iam-policy-binding p" in str(told.value.hint)
        assert "--role=roles/tpu.viewer" in str(told.value.hint)


def test_what_the_state_goes_on_with_is_not_to_be_deleted() -> None:
    """A slice that an `up` has found again, after its successor was deleted by hand, is in the
    state twice: the entry by which it was to be deleted goes; the slice, and what else is to be
    deleted, stay."""
    world = World({name(A), name(B)})
    (known,) = world.state["resources"]
    older = {**known, "id": name(B), "delete": True}
    world.state["resources"] = [{**known, "delete": True}, older, known]

    detail = f"{name(A)} is not to be deleted: the state goes on with it"
    assert world.recovered() == [("cleared", detail)]
    entries = [(one["id"], one.get("delete", False)) for one in resources(world.state)]
    assert entries == [(name(B), True), (name(A), False)]
    assert world.recovered() == []
