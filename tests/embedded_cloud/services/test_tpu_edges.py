"""The state machine: the embedded cloud against the table of the provider's edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.services.tpu.records import Place, QueuedResource, QueuedState
from reliability.direct import DirectSession
from reliability.servicer_rig import CLOUD_PROJECT, ZONE, ServicerRig
from reliability.small_engine import NAME, PROJECT, STACK
from tpuflex.errors import TpuflexError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.transport import Transport
from tpuflex.naming import Names
from tpuflex.queued_resource.edges import EDGES, UNKNOWN_STATE, Point
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import Condition
from tpuflex.queued_resource.states import describe

Json = dict[str, Any]

NAMES = Names(PROJECT, STACK, NAME)
PLACE = Place(CLOUD_PROJECT, ZONE)
REQUEST = RequestName(CLOUD_PROJECT, ZONE, f"{NAMES.prefix}-g1")
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
#: Nothing happens by itself.
STILL: dict[str, Any] = {**dict.fromkeys(RULE, 1e9), "never": True}
WEATHER: dict[str, dict[str, Any]] = {
    "capacity": RULE,
    "none": {**RULE, "never": True},
    "failing": {**RULE, "failure": {"code": "INTERNAL", "message": "taken back"}},
}


class EdgeRig(ServicerRig):
    """One request, and what time, capacity and every call of the API make of it."""

    @property
    def transport(self) -> Transport:
        """Calls as somebody else."""
        cloud = self.direct.cloud
        return Transport(DirectSession(self.direct), cloud.base_url, self.direct.timing())

    def queued(self) -> QueuedResource | None:
        """The queued resource, as the cloud stores it."""
        self.direct.cloud.tick()
        found = self.direct.cloud.tpu.queue.in_place(PLACE)
        return found[0] if found else None

    def shown(self) -> tuple[str, str]:
        """The states of queued resource and node as a client sees them; empty if absent."""
        client = TpuClient(self.transport)
        requests = client.list_queued_resources(CLOUD_PROJECT, ZONE).queued_resources
        nodes = client.list_nodes(CLOUD_PROJECT, ZONE).nodes
        return requests[0].state.state if requests else "", nodes[0].state if nodes else ""

    def pass_time(self, seconds: float, **rule: Any) -> None:
        """Set capacity rules, and let time pass under them."""
        self.direct.capacity(**rule)
        self.direct.clock.advance(seconds)
        self.direct.cloud.tick()

    def by_api(self, what: Callable[[TpuClient, RequestName], object]) -> None:
        """Call the API."""
        what(TpuClient(self.transport), REQUEST)

    def verb(self, name: str) -> None:
        """Have somebody stop or start the node, or reset the queued resource."""
        self.transport.call("POST", f"/v2alpha1/{name}", body={})

    def make_node(self) -> None:
        """A node without the queue, where no queued resource has its name."""
        if self.queued() is None:
            path = f"/v2alpha1/{REQUEST.parent}/nodes"
            body = {**_NODE, "labels": NAMES.labels()}
            self.transport.call("POST", path, query={"nodeId": REQUEST.id}, body=body)

    def ask(self) -> None:
        """Have somebody request a slice under the name, for an hour at most."""
        spec = {"parent": REQUEST.parent, "nodeId": REQUEST.id, "node": _NODE}
        body: Json = {
            "tpu": {"nodeSpec": [spec]},
            "provisioningModel": "FLEX_START",
            "runDuration": {"maxRunDuration": "14400s"},
            "queueingPolicy": {"validUntilDuration": "3600s"},
        }
        TpuClient(self.transport).create_queued_resource(REQUEST, body, request_id="")


_NODE: Json = {"acceleratorType": "v6e-4", "runtimeVersion": "v2-alpha-tpuv6e"}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeRig]:
    with EdgeRig(tmp_path_factory.mktemp("edges") / "emulator") as made:
        yield made


def test_every_edge_has_a_name() -> None:
    """And every condition is where some edge leads to."""
    assert [name for name, n in Counter(edge.name for edge in EDGES).items() if n > 1] == []
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
        rig.ask()

    return ask


_ACTIONS = (
    *(_passing(weather, TICK_S) for weather in WEATHER),
    _asking(),
    _asking(unsupported_zones=[ZONE]),
    EdgeRig.make_node,
    lambda rig: rig.by_api(lambda c, n: c.delete_queued_resource(n, request_id="", force=False)),
    lambda rig: rig.by_api(lambda c, n: c.delete_queued_resource(n, request_id="", force=True)),
    lambda rig: rig.by_api(lambda c, n: c.delete_node(n.node(n.id))),
    lambda rig: rig.verb(f"{REQUEST.node(REQUEST.id)}:stop"),
    lambda rig: rig.verb(f"{REQUEST.node(REQUEST.id)}:start"),
    lambda rig: rig.verb(f"{REQUEST}:reset"),
    # What is over at a given time, and nothing after it.
    lambda rig: rig.pass_time(RUN_S, **STILL),
)


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
