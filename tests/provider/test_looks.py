"""Looks at the cloud: what one asks for, how long each question may take, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from pydantic import JsonValue

from tests.provider.fakes import (
    NAME,
    NODE,
    Cloud,
    FakeTime,
    Handler,
    JsonObject,
    Script,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tests.provider.several import IDS, PLACE, Zone
from tpuflex.errors import InterruptedByUser
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import DEFAULT_BUDGET
from tpuflex.provider.call import Call
from tpuflex.request.name import RequestName
from tpuflex.request.states import Lifecycle

REQUEST = RequestName.parse(NAME)


@dataclass
class Budgeted(Script):
    """As a script, and keeps what the retries of each question may take."""

    budgets: list[float] = field(default_factory=list)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: dict[str, JsonValue] | None = None,
        budget: float = -1.0,
    ) -> JsonObject:
        self.budgets.append(budget)
        return super().call(method, path, query=query, body=body)


def looking(handler: Handler, time: FakeTime | None = None) -> tuple[Call, Budgeted]:
    """A call whose API is ``handler``, with the budget of each question."""
    call, script, _ = scripted(handler, time)
    budgeted = Budgeted(script.time, handler)
    client = TpuClient(budgeted)
    return replace(call, client=client), budgeted


def paths(script: Script) -> list[str]:
    return [sent.path for sent in script.sent]


@pytest.mark.parametrize(
    ("state", "there"),
    [("CREATING", False), ("WAITING_FOR_RESOURCES", False), ("PROVISIONING", False),
     ("ACTIVE", True), ("FAILED", True), ("SUSPENDED", True), ("DELETING", True)],
)  # fmt: skip
def test_a_node_is_asked_for_once_there_can_be_one(state: str, there: bool) -> None:
    """In the queue and while hosts are made the request says everything; later it does not."""
    call, script = looking(Cloud(request=sequence(queued(state)), node=sequence(node())))

    seen = call.look(REQUEST)

    assert paths(script) == ([NAME, NODE] if there else [NAME])
    assert [found.id for found in seen.nodes.found] == (["slice-g1"] if there else [])
    assert seen.nodes.ids == ("slice-g1",)
    assert seen.name == replace(REQUEST, nodes=("slice-g1",))


def test_a_look_says_when_it_was() -> None:
    """Its time is that of the clock on the wall, as the request was answered."""
    call, _ = looking(Cloud(request=sequence(queued("ACTIVE"))))

    assert call.look(REQUEST).at == 1.8e9 + 1000


@pytest.mark.parametrize("unlisted", [set[str](), {IDS[1]}])
def test_every_question_of_a_look_has_its_budget(unlisted: set[str]) -> None:
    """Request, list and single nodes; twice as many if the look is repeated."""
    zone = Zone(node0="MISSING")
    zone.unlisted = unlisted
    call, script = looking(zone)

    call.look(REQUEST, budget=7.5)
    assert script.budgets == [7.5] * (3 + len(unlisted))
    call.look_twice(REQUEST, budget=6.5)
    assert script.budgets[3 + len(unlisted) :] == [6.5] * 2 * (3 + len(unlisted))


def test_a_look_at_one_node_has_its_budget() -> None:
    """Also where nothing is listed, and nothing is said about it."""
    call, script = looking(Cloud())

    call.look(REQUEST, budget=7.5)
    call.look(REQUEST)
    call.look_twice(REQUEST)

    assert script.budgets == [7.5] * 2 + [DEFAULT_BUDGET] * 6


def test_what_is_missing_is_looked_for_again_half_a_second_later() -> None:
    """One 404 is not a fact: what the second look finds is there."""
    time = FakeTime()
    cloud = Cloud(
        request=sequence(missing(), queued("ACTIVE")), node=sequence(missing(NODE), node())
    )
    call, script = looking(cloud, time)

    assert call.look_twice(REQUEST).lifecycle is Lifecycle.ACTIVE

    assert time.pauses == [0.5]
    assert paths(script) == [NAME, NODE] * 2


def test_what_is_there_is_looked_at_once() -> None:
    """No pause, and no question more."""
    time = FakeTime()
    call, script = looking(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES"))), time)

    assert call.look_twice(REQUEST).lifecycle is Lifecycle.WAITING

    assert time.pauses == []
    assert paths(script) == [NAME]


def test_a_cancelled_second_look_is_not_taken() -> None:
    """Stopped between the two, nothing counts as gone."""
    call, script = looking(Cloud(), FakeTime(stop_at=1000.2))

    with pytest.raises(InterruptedByUser, match=r"^stopped on request$"):
        call.look_twice(REQUEST)

    assert paths(script) == [NAME, NODE]


def test_two_nodes_are_listed() -> None:
    """One list for two as well as for three, in the zone of the request."""
    zone = Zone()
    zone.request = None
    call, script = looking(zone)

    seen = call.look(replace(REQUEST, nodes=IDS[:2]))

    assert paths(script) == [NAME, f"{PLACE}/nodes"]
    assert [found.id for found in seen.nodes.found] == list(IDS)  # the third names the request


@pytest.mark.parametrize(
    ("made_by", "ours"),
    [
        (NAME, True),
        (NAME.replace("cloud-project", "123456"), True),
        (NAME.replace("us-east5-a", "us-east5-b"), False),
        (f"{NAME}2", False),
        ("", False),
    ],
)
def test_other_nodes_of_a_request_that_is_gone_name_it(made_by: str, ours: bool) -> None:
    """By zone and id: Google writes the project as its id or as its number."""
    zone = Zone(node2="MISSING")
    zone.request = None
    stray = Zone.node(7)
    zone.nodes["slice-g1-7"] = {**stray, "queuedResource": made_by}
    call, _ = looking(zone)

    seen = call.look(replace(REQUEST, nodes=IDS))

    expected = [IDS[0], IDS[1], *(["slice-g1-7"] if ours else [])]
    assert [found.id for found in seen.nodes.found] == expected


def test_other_nodes_are_no_matter_while_there_is_a_request() -> None:
    """The request says itself which nodes are its own."""
    zone = Zone()
    zone.nodes["slice-g1-7"] = Zone.node(7)
    call, _ = looking(zone)

    assert [found.id for found in call.look(REQUEST).nodes.found] == list(IDS)


def test_ids_of_mutations_are_never_the_same() -> None:
    """Each mutating call has an id of its own, as Google wants it: a UUID."""
    call, _ = looking(Cloud())
    made = Call(call.client, call.timing, call.report)

    first, second = made.new_id(), made.new_id()

    assert first != second
    assert [len(part) for part in first.split("-")] == [8, 4, 4, 4, 12]
