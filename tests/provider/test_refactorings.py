"""Random refactorings of a slice that runs: a preview shows each replacement; nothing is lost."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pulumi_plugin.log import EngineLog
from reliability.direct import DirectCloud, DirectSession
from reliability.projects import SWIFT, slice_arguments
from reliability.small_engine import CallFailedError, SmallEngine
from tests.provider.small_stacks import Place, Slice, Stacks, Told
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.naming import QUEUED_RESOURCE, Names, generation_of
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.servicer import Servicer

#: More by TPUFLEX_REFACTORINGS=2000.
EXAMPLES = int(os.environ.get("TPUFLEX_REFACTORINGS", "25"))
CHIPS = ("v6e-1", "v6e-4", "v6e-8")
NAMES, PARENTS, STACKS = (
    ("slice", "chat", "a-b"),
    ("", "shop:index:A$", "shop:index:B$"),
    ("dev", "b"),
)


class World:
    """A cloud, a slice under whatever URN, and a neighbour that nobody touches."""

    def __init__(self, path: Path) -> None:
        self.cloud = DirectCloud(path, SWIFT)

    def begin(self) -> None:
        self.cloud.reset(0)
        self.engine = SmallEngine(cast("Any", None))
        self.engine.program = slice_arguments()
        self.at = {"name": "slice", "parent": "", "stack": "dev", "project": "cloud-project"}
        neighbour = SmallEngine(self.provider(name="neighbour"))
        neighbour.program = slice_arguments()
        assert neighbour.up()
        (self.neighbour,) = self.ids()

    def provider(self, **other: str) -> Any:
        """A provider process of its own, as each command of the engine has."""
        at = {**self.at, **other}

        def connect(_: Configuration, timing: Timing) -> TpuClient:
            session = DirectSession(self.cloud)
            return TpuClient(Transport(session, self.cloud.cloud.base_url, timing))

        servicer = Servicer(EngineLog(), connect, lambda _: self.cloud.timing())
        urn = f"urn:pulumi:{at['stack']}::shop::{at['parent']}{QUEUED_RESOURCE}::{at['name']}"
        return Told(servicer, urn, {"project": at["project"]})

    def ids(self) -> set[str]:
        found = self.cloud.cloud.inventory().get("tpu", {}).get("queuedResources", [])
        return {str(each["name"]) for each in found}

    def held(self) -> list[str]:
        return [
            str(r["id"])
            for r in self.engine.deployment()["resources"]
            if r["type"] == QUEUED_RESOURCE
        ]

    def preview(self) -> str:
        self.engine.servicer = self.provider()
        self.cloud.begin()
        (step,) = self.engine.preview().steps
        return str(step.operation)

    def up(self) -> None:
        self.engine.servicer = self.provider()
        self.cloud.begin()
        assert self.engine.up(), self.engine.said[-1:]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("refactorings"))
    yield made
    made.cloud.close()


_moves = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(NAMES),
        "parent": st.sampled_from(PARENTS),
        "stack": st.sampled_from(STACKS),
        "project": st.sampled_from(("cloud-project", "other-project")),
        "chips": st.sampled_from(CHIPS),
        "team": st.sampled_from(("search", "ads")),
        "refresh": st.booleans(),
    },
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(_moves, min_size=1, max_size=6))
def test_a_refactoring_changes_nothing(world: World, moves: list[dict[str, Any]]) -> None:
    """Whatever its URN, its stack and its provider become, the slice stays as it is; only other
    chips replace it, which the preview has said; and there is always one, which the state holds."""
    world.begin()
    world.up()
    for move in moves:
        (before,) = world.held()
        program = dict(world.engine.program or {})
        chips = move.get("chips", program["acceleratorType"])
        replaces = chips != program["acceleratorType"]
        changes = move.get("team", program["labels"]["team"]) != program["labels"]["team"]
        world.at |= {key: value for key, value in move.items() if key in world.at}
        world.engine.program = {
            **program,
            "acceleratorType": chips,
            "labels": {"team": move.get("team", program["labels"]["team"])},
        }
        if move.get("refresh"):
            world.engine.servicer = world.provider()
            assert world.engine.refresh()

        expected = "replace" if replaces else "update" if changes else "same"
        assert world.preview() == expected
        assert world.held() == [before]
        world.up()

        (after,) = world.held()
        assert (after != before) == replaces
        assert world.ids() == {world.neighbour, after}
        assert world.preview() == "same"
    world.engine.program = None
    world.up()
    assert world.ids() == {world.neighbour}


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stacks]:
    made = Stacks.at(tmp_path_factory.mktemp("exchanges"))
    yield made
    made.cloud.close()


_places = st.builds(
    Place,
    stack=st.sampled_from(STACKS),
    name=st.sampled_from(NAMES),
    parent=st.sampled_from(PARENTS),
)
_changes = st.fixed_dictionaries(
    {"which": st.sampled_from((0, 1))},
    optional={
        "exchange": st.sampled_from(("in the state", "in the program")),
        "to": st.tuples(_places, st.booleans()),
        "project": st.sampled_from(("cloud-project", "other-project")),
        "chips": st.sampled_from(CHIPS),
        "team": st.sampled_from(("search", "ads")),
        "refresh": st.booleans(),
        "waits": st.booleans(),
        "backwards": st.booleans(),
    },
)


def change(stacks: Stacks, change: dict[str, Any]) -> None:
    """Refactor the programs, and the states where the user does."""
    stacks.project = change.get("project", stacks.project)
    stacks.waits = change.get("waits", False)
    stacks.backwards = change.get("backwards", False)
    first, second = sorted(stacks.slices)
    slices = stacks.slices
    match change.get("exchange"):
        case "in the state":  # state rename (and state move) thrice; the programs follow
            slices[first], slices[second] = slices[second], slices[first]
        case "in the program":
            # With aliases or without: the engine looks for a URN of its own first.
            programs = slices[first].program, slices[second].program
            slices[second].program, slices[first].program = programs
    place = sorted(slices)[change["which"]]
    to, alias = change.get("to", (place, True))
    if to not in slices:
        slices[to] = slices.pop(place)
        if not alias and to != place:
            stacks.gone[place], slices[to] = slices[to], Slice.of(slices[to].program or {})
            stacks.gone[place].program = None
        place = to
    program = slices[place].program
    assert program is not None
    program["acceleratorType"] = change.get("chips", program["acceleratorType"])
    program["labels"] = {"team": change.get("team", program["labels"]["team"])}


def expected(slice_: Slice, applied: dict[int, Any]) -> str:
    """What the change of a program asks for, whatever the slice is called now."""
    before, now = applied.get(id(slice_)), slice_.program
    if now is None:
        return "delete"
    if before is None:
        return "create"
    if before["acceleratorType"] != now["acceleratorType"]:
        return "replace"
    return "same" if before["labels"] == now["labels"] else "update"


def elsewhere(stacks: Stacks, place: Place) -> bool:
    """Whether a new slice there would have the id of one that a state of another stack holds, which
    no provider can know (`state move` in docs/pulumi.md)."""
    within = place.parent.removesuffix("$")
    prefix = Names("shop", place.stack, place.name, within=within).prefix
    others = {**stacks.slices, **stacks.gone}.items()
    held = [each.id for other, each in others if each.made and other.stack != place.stack]
    return any(generation_of(prefix, id_.rpartition("/")[2]) is not None for id_ in held)


def previewed(stacks: Stacks, wanted: dict[Place, str], ids: set[str]) -> bool:
    """Whether the preview shows what is ``wanted``; else it has to refuse, because something new
    would share one of ``ids``, or it is not asked because of another stack."""
    new = [place for place, what in wanted.items() if what in ("create", "replace")]
    if any(elsewhere(stacks, place) for place in new):
        return False
    try:
        foreseen = stacks.preview()
    except CallFailedError as error:
        said = str(error)
        shared = [id_ for id_ in ids if said.startswith(f"{id_} is the request of urn:")]
        assert (bool(new), bool(shared), "cannot share it" in said) == (True, True, True), said
        return False
    assert foreseen == wanted
    return True


@example(False, [{"which": 0, "exchange": "in the state"}, {"which": 1, "chips": "v6e-1"}])
@example(
    False,
    [
        {"which": 1, "to": (Place("dev", "a-b"), True)},
        {"which": 1, "to": (Place("dev", "slice"), False), "waits": True, "backwards": True},
    ],
)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.booleans(), st.lists(_changes, min_size=1, max_size=5))
def test_two_slices_are_refactored_side_by_side(
    stacks: Stacks, backwards: bool, changes: list[dict[str, Any]]
) -> None:
    """Two slices that exchange their names, move between components and stacks, and get another
    provider: each is replaced, made or deleted as the preview says, and for nothing but its
    program; no request has two owners, and none is lost. What would share a request is refused by
    the preview, and nothing happens."""
    stacks.begin()
    stacks.backwards = backwards
    for name in NAMES[:2]:
        stacks.slices[Place("dev", name)] = Slice.of(slice_arguments())
    stacks.up()
    for each in changes:
        before, project = dict(stacks.slices), stacks.project
        programs = {id(s): copy.deepcopy(s.program) for s in before.values()}
        ids = {id(s): s.id for s in before.values()}
        if each.get("refresh"):
            stacks.refresh()
        change(stacks, each)
        programmed = {**stacks.gone, **stacks.slices}
        wanted = {place: expected(slice_, programs) for place, slice_ in programmed.items()}

        goes = previewed(stacks, wanted, set(ids.values()))
        assert {s.id for s in before.values()} == set(ids.values()) == stacks.there()
        if goes:
            assert stacks.up() == wanted
        else:
            stacks.slices, stacks.gone, stacks.project = before, {}, project
            for slice_ in before.values():
                slice_.program = programs[id(slice_)]
            wanted = dict.fromkeys(before, "same")

        after = {place: slice_.id for place, slice_ in stacks.slices.items()}
        assert len(set(after.values())) == len(NAMES[:2])
        assert stacks.there() == set(after.values())
        for place, slice_ in stacks.slices.items():
            stays = wanted[place] in ("same", "update")
            assert (ids.get(id(slice_)) == after[place]) == stays
        assert set(stacks.preview().values()) == {"same"}
