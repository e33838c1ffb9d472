"""Looks at the cloud: what one asks for, how long each question may take, and what it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.provider.fakes import (
    NAME,
    NODE,
    Cloud,
    FakeTime,
    Script,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tests.provider.several import IDS, PLACE, Zone
from tpuflex.errors import InterruptedByUser
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.states import Lifecycle

REQUEST = RequestName.parse(NAME)


def paths(script: Script) -> list[str]:
    return [sent.path for sent in script.sent]


@pytest.mark.parametrize(
    ("state", "there"),
    [("CREATING", False), ("WAITING_FOR_RESOURCES", False), ("PROVISIONING", False),
     ("ACTIVE", True), ("FAILED", True), ("SUSPENDED", True), ("DELETING", True)],
)  # fmt: skip
def test_a_node_is_asked_for_once_there_can_be_one(state: str, there: bool) -> None:
    """In the queue and while hosts are made the request says everything; later it does not."""
    call, script, _ = scripted(Cloud(request=sequence(queued(state)), node=sequence(node())))

    seen = call.look(REQUEST)

    assert paths(script) == ([NAME, NODE] if there else [NAME])
    assert [found.id for found in seen.nodes.found] == (["slice-g1"] if there else [])
    assert seen.nodes.ids == ("slice-g1",)
    assert seen.name == replace(REQUEST, nodes=("slice-g1",))


def test_what_is_missing_is_looked_for_again_half_a_second_later() -> None:
    """One 404 is not a fact: what the second look finds is there."""
    time = FakeTime()
    cloud = Cloud(
        request=sequence(missing(), queued("ACTIVE")), node=sequence(missing(NODE), node())
    )
    call, script, _ = scripted(cloud, time)

    assert call.look_twice(REQUEST).lifecycle is Lifecycle.ACTIVE

    assert time.pauses == [0.5]
    assert paths(script) == [NAME, NODE] * 2


def test_a_cancelled_second_look_is_not_taken() -> None:
    """Stopped between the two, nothing counts as gone."""
    call, script, _ = scripted(Cloud(), FakeTime(stop_at=1000.2))

    with pytest.raises(InterruptedByUser, match=r"^stopped on request$"):
        call.look_twice(REQUEST)

    assert paths(script) == [NAME, NODE]


def test_two_nodes_are_listed() -> None:
    """One list for two as well as for three, in the zone of the request."""
    zone = Zone()
    zone.request = None
    call, script, _ = scripted(zone)

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
    call, _, _ = scripted(zone)

    seen = call.look(replace(REQUEST, nodes=IDS))

    expected = [IDS[0], IDS[1], *(["slice-g1-7"] if ours else [])]
    assert [found.id for found in seen.nodes.found] == expected


def test_other_nodes_are_no_matter_while_there_is_a_request() -> None:
    """The request says itself which nodes are its own."""
    zone = Zone()
    zone.nodes["slice-g1-7"] = Zone.node(7)
    call, _, _ = scripted(zone)

    assert [found.id for found in call.look(REQUEST).nodes.found] == list(IDS)
