"""Several nodes in one request: where they stand, waited for and read, every one."""

from __future__ import annotations

import pytest

from pulumi_plugin.values import Properties
from tests.provider.fakes import NAME, Answer, Sent, queued, scripted
from tests.provider.several import IDS, KNOWN, PLACE, STATE, THREE, Zone
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.diff import resource_diff
from tpuflex.provider.operations import create
from tpuflex.provider.read import read
from tpuflex.queued_resource.model import Node, QueuedResource
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.outputs import outputs
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle


@pytest.mark.parametrize(
    ("states", "where", "words"),
    [
        ({}, Lifecycle.ACTIVE, "the hosts run"),
        ({"node1": "CREATING"}, Lifecycle.PROVISIONING, "1 of 3 nodes is not READY: slice-g1-1"),
        ({"node2": "MISSING"}, Lifecycle.LOST, "slice-g1-2 is missing"),
        (
            {"node0": "PREEMPTED", "node2": "STARTING"},
            Lifecycle.LOST,
            "2 of 3 nodes are not READY: slice-g1-0 is PREEMPTED, slice-g1-2 is STARTING",
        ),
    ],
)
def test_request_is_as_far_as_the_last_of_its_nodes(
    states: dict[str, str], where: Lifecycle, words: str
) -> None:
    """ACTIVE means that every node is READY; those that are not are named and counted."""
    call, _, _ = scripted(Zone(**states))

    seen = call.look(RequestName.parse(NAME))

    assert seen.lifecycle is where
    assert words in seen.describe()


def test_outputs_tell_every_node() -> None:
    """The state holds each node in Google's order, and one word for all of them."""
    call, _, _ = scripted(Zone(node1="CREATING", node2="MISSING"))

    shown = outputs(KNOWN, call.look(RequestName.parse(NAME)))

    assert shown["nodes"] == [
        {"id": IDS[0], "state": "READY", "health": "HEALTHY", "ipAddresses": ["10.0.0.0"]},
        {"id": IDS[1], "state": "CREATING", "health": "HEALTHY", "ipAddresses": ["10.0.0.1"]},
        {"id": IDS[2], "ipAddresses": []},
    ]
    assert shown["nodeId"] == IDS[0]
    assert shown["nodeState"] == "CREATING"
    assert shown["ipAddresses"] == ["10.0.0.0", "10.0.0.1"]


def test_nodes_have_ids_before_they_are_made() -> None:
    """While the request waits, only the names of its nodes are known."""
    call, script, _ = scripted(Zone("WAITING_FOR_RESOURCES", node0="MISSING"))

    shown = outputs(KNOWN, call.look(RequestName.parse(NAME)))

    assert shown["nodes"] == [{"id": id_, "ipAddresses": []} for id_ in IDS]
    assert shown["nodeState"] is None
    assert len(script.sent) == 1


def test_one_list_is_enough_for_all() -> None:
    """Several nodes cost one question more than none; a node that the list leaves out is asked
    for by itself before it counts as missing."""
    zone = Zone()
    call, script, _ = scripted(zone)
    assert call.look(RequestName.parse(NAME)).lifecycle is Lifecycle.ACTIVE
    assert len(script.sent) == 2

    zone.unlisted = {IDS[1]}

    assert call.look(RequestName.parse(NAME)).lifecycle is Lifecycle.ACTIVE
    assert [sent.path.rpartition("/")[2] for sent in script.sent[2:]] == [
        "slice-g1",
        "nodes",
        IDS[1],
    ]


def test_the_run_ends_with_the_first_node() -> None:
    """The run began when the last node was made, and ends when the first one does."""
    times = ("2026-11-21T08:05:00Z", "2026-11-21T08:00:00Z")
    found = tuple(
        Node.model_validate({"name": f"n/{id_}", "state": "READY", "createTime": time})
        for id_, time in zip(IDS, times, strict=False)
    )
    there = QueuedResource.model_validate(queued("ACTIVE", THREE))

    shown = outputs(KNOWN, Snapshot(RequestName.parse(NAME), there, Nodes(IDS[:2], found)))

    assert shown["activeTime"] == times[0]
    assert shown["expireTime"] == "2026-11-21T12:00:00Z"


def test_create_waits_for_every_node() -> None:
    """Create is over when the last node is READY, not when the first one is."""
    zone = Zone(node2="CREATING")

    def answer(sent: Sent) -> Answer:
        if sum(s.path == f"{PLACE}/nodes" for s in script.sent) == 4:
            zone.nodes[IDS[2]]["state"] = "READY"
        return zone(sent)

    call, script, said = scripted(answer)

    seen = create(call, KNOWN, timeout=0)

    assert seen.lifecycle is Lifecycle.ACTIVE
    assert "1 of 3 nodes is not READY: slice-g1-2 is CREATING" in said.text


def test_create_says_which_node_was_lost() -> None:
    """A node that is preempted while the others come up ends the wait, by name and number."""
    zone = Zone(node1="CREATING")

    def answer(sent: Sent) -> Answer:
        if sum(s.path == f"{PLACE}/nodes" for s in script.sent) == 3:
            zone.nodes[IDS[1]]["state"] = "PREEMPTED"
        return zone(sent)

    call, script, _ = scripted(answer)

    with pytest.raises(UnreadyError, match="1 of 3 nodes is not READY: slice-g1-1 is PREEMPTED"):
        create(call, KNOWN, timeout=0)


def test_lost_node_is_replaced_with_its_request() -> None:
    """One node deleted outside of Pulumi: named, and the next `up` replaces the slice."""
    call, _, said = scripted(Zone(node1="MISSING"))

    found = read(call, NAME, KNOWN, STATE)

    assert found is not None
    assert found.outputs["lifecycle"] == "lost"
    assert "1 of 3 nodes is not READY: slice-g1-1 is missing" in said.text
    assert resource_diff(found.inputs, KNOWN, found.outputs, 1.8e9).diff.replaces


@pytest.mark.parametrize("known", [{}, {**STATE, "nodes": [{"id": id_} for id_ in IDS]}])
def test_orphaned_nodes_are_all_found(known: Properties) -> None:
    """With the request gone, its nodes are found by the names that follow from the inputs, or
    that the state remembers, and others that name it as their request."""
    zone = Zone(node0="MISSING")
    zone.request, zone.unlisted = None, {IDS[1]}
    zone.nodes["odd"] = {**zone.node(9), "name": f"{PLACE}/nodes/odd"}
    zone.nodes["other"] = {
        **zone.node(8),
        "name": f"{PLACE}/nodes/other",
        "queuedResource": f"{PLACE}/queuedResources/slice-g2",
    }
    call, _, said = scripted(zone)

    found = read(call, NAME, KNOWN, known)

    assert found is not None
    assert [node.id for node in found.seen.nodes.found] == [IDS[1], IDS[2], "odd"]
    assert "3 of its 3 nodes are there, and billed" in said.text
    assert found.outputs["lifecycle"] == "lost"


def test_import_reads_all_of_it_back() -> None:
    """An import by full name reads the inputs back, and shows every node."""
    call, _, _ = scripted(Zone())

    found = read(call, NAME, {}, {})

    assert found is not None
    assert found.inputs["multiNode"] == {"nodeCount": 3}
    assert [node["id"] for node in found.outputs["nodes"]] == list(IDS)  # type: ignore[index, union-attr, call-overload]
    assert not resource_diff(found.inputs, KNOWN, found.outputs, 1.8e9).diff.replaces
