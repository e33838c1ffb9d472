"""The state machine: the embedded cloud against the table, and figure 5, reduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from embedded_cloud.json_types import JsonObject
from embedded_cloud.tpu.records import QueuedState
from reliability.edge_rig import NAMES, EdgeRig
from reliability.figures import edge_steps, edges
from reliability.figures.edge_ways import WAYS
from reliability.figures.figure import sample
from reliability.figures.pool import judged
from reliability.servicer_rig import ZONE
from tpuflex.errors import TpuflexError
from tpuflex.request.edges import COMMANDS, EDGES, UNKNOWN_STATE, Point
from tpuflex.request.outcomes import Condition
from tpuflex.request.states import describe

SEED = 1
#: A change that takes time takes this long, on the cloud's clock.
TICK_S = 10.0
#: Longer than a run, and than a request is valid.
RUN_S = 14_500.0
RULE: dict[str, Any] = {
    "admission_s": TICK_S,
    "grant_after_s": TICK_S,
    "provisioning_s": TICK_S,
    "suspending_s": TICK_S,
    "deleting_s": TICK_S,
}
WEATHER: dict[str, dict[str, Any]] = {
    "capacity": RULE,
    "none": {**RULE, "never": True},
    "failing": {**RULE, "failure": {"code": "INTERNAL", "message": "taken back"}},
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeRig]:
    with EdgeRig(tmp_path_factory.mktemp("edges") / "emulator") as made:
        yield made


def test_every_edge_has_a_name_and_a_way() -> None:
    """No edge of the table is left out of the figure, and no way leads along none."""
    assert [name for name, n in Counter(edge.name for edge in EDGES).items() if n > 1] == []
    assert set(WAYS) == {edge.name for edge in EDGES}
    assert {edge.condition for edge in EDGES} == set(Condition)


def test_every_state_of_the_service_is_on_some_edge() -> None:
    """All states of the API's enumeration, and one that it may grow."""
    states = {point.request for edge in EDGES for point in (edge.before, edge.after)}
    documented = {state.value for state in QueuedState} - {QueuedState.GONE.value}

    assert states == {"", "ACCEPTED", UNKNOWN_STATE, *documented}
    assert describe(UNKNOWN_STATE) == "a state that this version does not know"


def test_the_embedded_cloud_takes_the_edges_of_the_table_and_no_others(rig: EdgeRig) -> None:
    """Whatever time, capacity and every call of the API lead to, from every point that can be
    reached: exactly the edges that the table has as the embedded cloud's."""
    expected = {_move(edge.before, edge.after) for edge in EDGES if edge.emulated}

    assert _explored(rig) == expected


def test_commands_after_edges_say_what_the_table_says(rig: EdgeRig) -> None:
    """Figure 5, a seeded sample: every command, and every row of the table."""
    chosen = sample(edges.cases(rig, SEED), SEED)[:30]
    results = [judged(edges.FIGURE, rig, case) for case in chosen]

    assert [(result.name, result.problems) for result in results if result.problems] == []
    assert {case.facts["command"] for case in chosen} == set(COMMANDS)


# -- what the embedded cloud can do ------------------------------------------------------------

Snapshot = tuple[float, list[tuple[str, str, JsonObject]]]
Move = tuple[str, ...]


def _move(before: Point, after: Point) -> Move:
    """What changes: the request's state; or, while that stays, the node's."""
    if before.request != after.request:
        return (before.request or "none", after.request or "none")
    return (before.request or "none", before.node or "none", after.node or "none")


def _explored(rig: EdgeRig) -> set[Move]:
    """Every move that can be made, from every point that moves lead to."""
    rig.reset(0)
    start = Point(*rig.shown())
    seen, todo, moves = {_hidden(rig, start)}, [(start, _snapshot(rig))], set[Move]()
    while todo:
        point, there = todo.pop()
        for action in _ACTIONS:
            _restore(rig, there)
            try:
                action(rig)
            except TpuflexError:
                continue  # not possible here
            after = Point(*rig.shown())
            if after == point:
                continue
            moves.add(_move(point, after))
            if (where := _hidden(rig, after)) not in seen:
                seen.add(where)
                todo.append((after, _snapshot(rig)))
    return moves


def _hidden(rig: EdgeRig, point: Point) -> tuple[object, ...]:
    """``point``, and what is not to be seen there of what will become of it."""
    queued = rig.queued()
    return (point, queued and queued.rejection, queued and queued.error)


def _passing(weather: str, seconds: float) -> Any:
    return lambda rig: rig.pass_time(seconds, **WEATHER[weather])


def _asking(**rule: Any) -> Any:
    def ask(rig: EdgeRig) -> None:
        rig.pass_time(0, **{**RULE, **rule})
        rig.ask(valid_for="3600s")

    return ask


_ACTIONS = (
    *(_passing(weather, TICK_S) for weather in WEATHER),
    _asking(),
    _asking(unsupported_zones=[ZONE]),
    lambda rig: _make_node(rig),
    lambda rig: rig.by_api(lambda c, n: c.delete_queued_resource(n, request_id="", force=False)),
    lambda rig: rig.by_api(lambda c, n: c.delete_queued_resource(n, request_id="", force=True)),
    lambda rig: rig.by_api(lambda c, n: c.delete_node(n.node(n.id))),
    lambda rig: rig.on_node("stop"),
    lambda rig: rig.on_node("start"),
    lambda rig: rig.on_request("reset"),
    # What is over at a given time, and nothing after it.
    lambda rig: rig.pass_time(RUN_S, **edge_steps.STILL),
)


def _make_node(rig: EdgeRig) -> None:
    """A node without the queue, where no queued resource has its name."""
    if rig.queued() is None:
        rig.make_node(NAMES.labels())


def _snapshot(rig: EdgeRig) -> Snapshot:
    store = rig.direct.cloud.store
    documents = [(c, key, value) for c in store.collections() for key, value in store.list(c)]
    return rig.direct.clock.now(), documents


def _restore(rig: EdgeRig, there: Snapshot) -> None:
    now, documents = there
    rig.reset(0)
    rig.direct.clock.advance(now - rig.direct.clock.now())
    rig.direct.cloud.store.clear()
    for collection, key, value in documents:
        rig.direct.cloud.store.put(collection, key, value)
