"""Several nodes in one request: named, waited for, read, patched and deleted, every one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider_fakes import INPUTS, NAME, Answer, Sent, args, missing, node, queued, scripted
from provider_values import filled
from tpuflex.errors import AccessError, ApiError, TpuflexError
from tpuflex.gcp.queued_resources import RequestName
from tpuflex.gcp.tpu_models import Node, QueuedResource
from tpuflex.lifecycle import Lifecycle
from tpuflex.naming import LABEL_OWNER, generation_id
from tpuflex.provider.arguments import failures, input_properties
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.codec import Properties, Value
from tpuflex.provider.diff import diff
from tpuflex.provider.nodes import Nodes, ids_of
from tpuflex.provider.observation import Observation, outputs
from tpuflex.provider.operations import create, delete_resource, update
from tpuflex.provider.planning import plan
from tpuflex.provider.refresh import read
from tpuflex.provider.request import node_ids, request_body

THREE = args(multiNode={"nodeCount": 3})
KNOWN: Properties = input_properties(THREE)
IDS = ("slice-g1-0", "slice-g1-1", "slice-g1-2")
STATE: Properties = {**KNOWN, "name": NAME, "lifecycle": "active"}
_PLACE = NAME.partition("/queuedResources/")[0]


class Zone:
    """A zone with one request for three nodes; what is asked for deletion is gone at once.

    ``refuses`` are nodes that answer any change with an error; ``unlisted`` ones are there, but
    not in the list.
    """

    def __init__(self, state: str = "ACTIVE", **states: str) -> None:
        self.request: Answer | None = queued(state, THREE)
        self.nodes: dict[str, dict[str, Any]] = {
            id_: self.node(number, states.get(f"node{number}", "READY"))
            for number, id_ in enumerate(IDS)
            if states.get(f"node{number}") != "MISSING"
        }
        self.refuses: dict[str, TpuflexError] = {}
        self.unlisted: set[str] = set()

    @staticmethod
    def node(number: int, state: str = "READY", **more: Any) -> dict[str, Any]:
        return node(
            state,
            THREE,
            name=f"{_PLACE}/nodes/slice-g1-{number}",
            queuedResource=NAME,
            networkEndpoints=[{"ipAddress": f"10.0.0.{number}"}],
            **more,
        )

    def __call__(self, sent: Sent) -> Answer:
        id_ = sent.path.rpartition("/")[2]
        if sent.method == "POST":
            self.request = queued("ACTIVE", THREE)
            self.nodes = {each: self.node(number) for number, each in enumerate(IDS)}
            return {"name": "operations/1", "done": True}
        if "operations" in sent.path:
            return {"name": sent.path, "done": True}
        if sent.path == f"{_PLACE}/nodes":
            return {"nodes": [n for i, n in self.nodes.items() if i not in self.unlisted]}
        if sent.path == NAME:
            return self._request(sent)
        if id_ not in self.nodes:
            return missing(sent.path)
        if sent.method != "GET" and id_ in self.refuses:
            return self.refuses[id_]
        if sent.method == "DELETE":
            del self.nodes[id_]
        elif sent.method == "PATCH":
            self.nodes[id_] |= sent.body or {}
        else:
            return self.nodes[id_]
        return {"name": "operations/2", "done": True}

    def _request(self, sent: Sent) -> Answer:
        if self.request is None:
            return missing()
        if sent.method == "DELETE":
            self.request, self.nodes = None, {}
            return {"name": "operations/2", "done": True}
        return self.request


# -- names ---------------------------------------------------------------------------------------

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-"
_PREFIX = st.text(_LETTERS, min_size=1, max_size=70).map(lambda text: f"a{text}z")


@given(
    prefix=_PREFIX, count=st.integers(2, 256), one=st.integers(1, 400), other=st.integers(1, 400)
)
def test_generations_never_share_a_node(prefix: str, count: int, one: int, other: int) -> None:
    """Nodes named after the request are of one generation, so that what replaces it can be made
    first; the node of a request for one is among no request's several."""
    several: dict[str, Value] = {"nodeCount": count}
    ids = [ids_of(generation_id(prefix, number), several) for number in (one, other)]

    assert len(set(ids[0])) == count
    assert (one == other) or set(ids[0]).isdisjoint(ids[1])
    assert generation_id(prefix, other) not in ids[0]


@given(prefix=st.none() | _PREFIX, count=st.integers(2, 256))
def test_accepted_ids_are_names(prefix: str | None, count: int) -> None:
    """Whatever check lets pass makes node ids of at most 63 characters, the same in the request,
    in the answer to it, and in what a state remembers."""
    several: dict[str, Value] = {"nodeCount": count}
    if prefix is not None:
        several["nodeIdPrefix"] = prefix
    found = failures(filled(multiNode=several))
    if found:
        assert all(path == "multiNode.nodeIdPrefix" for path, _ in found)
        assert len(f"{prefix}-{count - 1}") > 63
        return
    asked = args(multiNode=several)
    ids = node_ids(asked)

    assert len(ids[-1]) <= 63
    assert QueuedResource.model_validate(request_body(asked)).node_ids("slice-g1") == ids
    assert ids_of("slice-g1", {**several, "nodeCount": float(count)}) == ids


def test_long_request_ids_leave_no_room_for_many_nodes() -> None:
    """Where the request's own id makes the node ids, that is said."""
    found = failures(filled(queuedResourceId="a" * 60, multiNode={"nodeCount": 101}))

    assert [path for path, _ in found] == ["multiNode.nodeIdPrefix"]
    assert "queuedResourceId and multiNode.nodeCount" in found[0][1]
    assert not failures(filled(queuedResourceId="a" * 60, multiNode={"nodeCount": 100}))


@pytest.mark.parametrize(
    ("several", "path"),
    [
        ({"nodeCount": 1}, "multiNode.nodeCount"),
        ({"nodeCount": 257}, "multiNode.nodeCount"),
        ({"nodeIdPrefix": "np"}, "multiNode.nodeCount"),
        ({"nodeCount": 2, "nodeIdPrefix": "Np"}, "multiNode.nodeIdPrefix"),
        ({"nodeCount": 2, "nodeIdPrefix": "np-"}, "multiNode.nodeIdPrefix"),
        ({"nodeCount": 2, "workloadType": "SERVING"}, "multiNode.workloadType"),
    ],
)
def test_what_cannot_be_is_refused(several: dict[str, Any], path: str) -> None:
    """Count, prefix and workload type are held to what they can be."""
    assert [where for where, _ in failures(filled(multiNode=several))] == [path]


@pytest.mark.parametrize("workload", ["THROUGHPUT_OPTIMIZED", "AVAILABILITY_OPTIMIZED", None])
@pytest.mark.parametrize("model", ["FLEX_START", "STANDARD", "SPOT"])
def test_several_nodes_with_any_model(workload: str | None, model: str) -> None:
    """Google's schema forbids no provisioning model with several nodes, so none is refused."""
    several = {"nodeCount": 2, **({} if workload is None else {"workloadType": workload})}
    length = INPUTS["maxRunDuration"] if model == "FLEX_START" else None

    inputs = filled(multiNode=several, provisioningModel=model, maxRunDuration=length)

    assert failures(inputs) == []


@pytest.mark.parametrize(
    ("old", "new", "shared"),
    [
        ({"nodeCount": 2}, {"nodeCount": 3}, False),
        ({"nodeCount": 2, "nodeIdPrefix": "p"}, {"nodeCount": 3, "nodeIdPrefix": "p"}, True),
        ({"nodeCount": 2, "nodeIdPrefix": "p"}, {"nodeCount": 2, "nodeIdPrefix": "q"}, False),
        ({"nodeCount": 2}, {"nodeCount": 2, "nodeIdPrefix": "x-g1"}, True),
        ({"nodeCount": 2, "nodeIdPrefix": "x-g2"}, {"nodeCount": 2}, True),
        (None, {"nodeCount": 2}, False),
    ],
)
def test_nodes_of_one_name_are_deleted_first(
    old: dict[str, Any] | None, new: dict[str, Any], shared: bool
) -> None:
    """A replacement is made first, unless any of its nodes would be called like an old one."""
    made = {"queuedResourceId": "x-g1", "queuedResourceIdPrefix": "x"}

    found = diff(filled(**made, multiNode=old), filled(**made, multiNode=new), Lifecycle.ACTIVE)

    assert found.replaces
    assert found.delete_before_replace is shared


# -- where they stand ----------------------------------------------------------------------------


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
    """ACTIVE means that every node is READY; which one is not, of how many, is said."""
    call, _, _ = scripted(Zone(**states))

    seen = call.look(RequestName.parse(NAME))

    assert seen.lifecycle is where
    assert words in seen.sentence()


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
    """While the request waits, its nodes are known by name, and by nothing else."""
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

    shown = outputs(KNOWN, Observation(RequestName.parse(NAME), there, Nodes(IDS[:2], found)))

    assert shown["activeTime"] == times[0]
    assert shown["expireTime"] == "2026-11-21T12:00:00Z"


# -- waiting -------------------------------------------------------------------------------------


def test_create_waits_for_every_node() -> None:
    """Create is over when the last node is READY, not when the first one is."""
    zone = Zone(node2="CREATING")

    def answer(sent: Sent) -> Answer:
        if sum(s.path == f"{_PLACE}/nodes" for s in script.sent) == 4:
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
        if sum(s.path == f"{_PLACE}/nodes" for s in script.sent) == 3:
            zone.nodes[IDS[1]]["state"] = "PREEMPTED"
        return zone(sent)

    call, script, _ = scripted(answer)

    with pytest.raises(UnreadyError, match="1 of 3 nodes is not READY: slice-g1-1 is PREEMPTED"):
        create(call, KNOWN, timeout=0)


# -- reading -------------------------------------------------------------------------------------


def test_lost_node_is_replaced_with_its_request() -> None:
    """One node deleted behind our back: told by name, and the next `up` replaces."""
    call, _, said = scripted(Zone(node1="MISSING"))

    found = read(call, NAME, KNOWN, STATE)

    assert found is not None
    assert found.outputs["lifecycle"] == "lost"
    assert "1 of 3 nodes is not READY: slice-g1-1 is missing" in said.text
    assert plan(found.inputs, KNOWN, found.outputs, 1.8e9).diff.replaces


@pytest.mark.parametrize("known", [{}, {**STATE, "nodes": [{"id": id_} for id_ in IDS]}])
def test_orphaned_nodes_are_all_found(known: Properties) -> None:
    """With the request gone, its nodes are found by the names that follow from the inputs, or
    that the state remembers, and others that name it as their request."""
    zone = Zone(node0="MISSING")
    zone.request, zone.unlisted = None, {IDS[1]}
    zone.nodes["odd"] = {**zone.node(9), "name": f"{_PLACE}/nodes/odd"}
    zone.nodes["other"] = {
        **zone.node(8),
        "name": f"{_PLACE}/nodes/other",
        "queuedResource": f"{_PLACE}/queuedResources/slice-g2",
    }
    call, _, said = scripted(zone)

    found = read(call, NAME, KNOWN, known)

    assert found is not None
    assert [node.id for node in found.seen.nodes.found] == [IDS[1], IDS[2], "odd"]
    assert "3 of its 3 nodes are there, and billed" in said.text
    assert found.outputs["lifecycle"] == "lost"


def test_import_reads_all_of_it_back() -> None:
    """An import by full name asks for the same request again, and shows every node."""
    call, _, _ = scripted(Zone())

    found = read(call, NAME, {}, {})

    assert found is not None
    assert found.inputs["multiNode"] == {"nodeCount": 3}
    assert [node["id"] for node in found.outputs["nodes"]] == list(IDS)  # type: ignore[index, union-attr, call-overload]
    assert not plan(found.inputs, KNOWN, found.outputs, 1.8e9).diff.replaces


# -- deleting ------------------------------------------------------------------------------------


def deletions(script: Any) -> list[str]:
    return [sent.path.rpartition("/")[2] for sent in script.sent if sent.method == "DELETE"]


def test_delete_is_over_when_every_node_is_gone() -> None:
    """Nodes that outlive their request are deleted one by one; strangers' are left alone."""
    zone = Zone()
    zone.request = None
    zone.nodes["theirs"] = {**zone.node(7), "labels": {LABEL_OWNER: "ffff"}, "queuedResource": "x"}
    call, script, _ = scripted(zone)

    delete_resource(call, NAME, KNOWN, STATE, timeout=0)

    assert deletions(script) == list(IDS)
    assert [*zone.nodes] == ["theirs"]


def test_strangers_node_among_ours_is_left_alone() -> None:
    """Where somebody took the name of one node, the others go, and that is said."""
    zone = Zone()
    zone.request = None
    zone.nodes[IDS[1]]["labels"] = {LABEL_OWNER: "ffff", "tpuflex-stack": "prod"}
    call, script, said = scripted(zone)

    delete_resource(call, NAME, KNOWN, STATE, timeout=0)

    assert deletions(script) == [IDS[0], IDS[2]]
    assert [*zone.nodes] == [IDS[1]]
    assert "belongs to stack prod" in said.text


def test_delete_goes_on_where_the_service_left_nodes() -> None:
    """Also when the deletion of the request itself leaves some nodes behind."""
    zone = Zone()

    def answer(sent: Sent) -> Answer:
        kept = {IDS[2]: zone.nodes[IDS[2]]} if IDS[2] in zone.nodes else {}
        answered = zone(sent)
        if sent.method == "DELETE" and sent.path == NAME:
            zone.nodes = kept
        return answered

    call, script, _ = scripted(answer)

    delete_resource(call, NAME, KNOWN, STATE, timeout=0)

    assert deletions(script) == ["slice-g1", IDS[2]]
    assert zone.nodes == {}


def test_one_refused_deletion_does_not_keep_the_others() -> None:
    """Of three orphaned nodes one cannot be deleted: the other two go, and the error says so."""
    zone = Zone()
    zone.request, zone.refuses = None, {IDS[0]: AccessError("tpu.nodes.delete is missing")}
    call, script, _ = scripted(zone)

    with pytest.raises(AccessError, match=r"tpu\.nodes\.delete"):
        delete_resource(call, NAME, KNOWN, STATE, timeout=0)

    assert [*zone.nodes] == [IDS[0]]
    assert set(deletions(script)) == set(IDS)


def test_create_clears_every_orphan_first() -> None:
    """Nodes that an earlier request of ours left go before it is asked for anew."""
    zone = Zone(node0="MISSING")
    zone.request = None
    call, script, said = scripted(zone)

    seen = create(call, KNOWN, timeout=0)

    mutations = [(s.method, s.path.rpartition("/")[2]) for s in script.sent if s.method != "GET"]
    assert mutations[:2] == [("DELETE", IDS[1]), ("DELETE", IDS[2])]
    assert mutations[2][0] == "POST"
    assert "2 of its 3 nodes are there" in said.text
    assert seen.lifecycle is Lifecycle.ACTIVE


# -- patching ------------------------------------------------------------------------------------

LABELLED: Properties = {**KNOWN, "labels": {**INPUTS["labels"], "team": "a"}, "tags": ["t"]}


def patched(script: Any) -> list[str]:
    return [sent.path.rpartition("/")[2] for sent in script.sent if sent.method == "PATCH"]


def test_every_node_is_patched() -> None:
    """A changed label reaches each node; what is right already is not sent again."""
    zone = Zone()
    zone.nodes[IDS[1]] |= {"tags": ["t"], "labels": {**zone.nodes[IDS[1]]["labels"], "team": "a"}}
    call, script, said = scripted(zone)

    update(call, NAME, KNOWN, LABELLED, STATE, timeout=0)

    assert patched(script) == [IDS[0], IDS[2]]
    assert all(each["labels"]["team"] == "a" for each in zone.nodes.values())
    assert "changing labels, tags of 2 of 3 nodes" in said.text


def test_half_a_patch_is_told_and_finished() -> None:
    """A node that refuses does not keep the others; it is named, shown as drift by a refresh, and
    changed by the next update."""
    zone = Zone()
    zone.refuses = {IDS[1]: ApiError("busy", status=409)}
    call, script, _ = scripted(zone)

    with pytest.raises(ApiError, match=r"1 of 3 nodes could not be changed \(slice-g1-1\): busy"):
        update(call, NAME, KNOWN, LABELLED, STATE, timeout=0)

    assert patched(script) == list(IDS)
    found = read(call, NAME, LABELLED, STATE)
    assert found is not None
    assert set(plan(found.inputs, LABELLED, found.outputs, 1.8e9).diff.changes) == {
        "labels.team",
        "tags",
    }
    zone.refuses.clear()
    update(call, NAME, KNOWN, LABELLED, STATE, timeout=0)
    assert patched(script) == [*IDS, IDS[1]]
    again = read(call, NAME, LABELLED, STATE)
    assert again is not None
    assert not plan(again.inputs, LABELLED, again.outputs, 1.8e9).diff.changes


def test_failed_patch_of_an_adopted_request_keeps_it_in_the_state() -> None:
    """What runs and is billed must not be forgotten because a label could not be changed."""
    zone = Zone()
    zone.refuses = {IDS[0]: AccessError("tpu.nodes.update is missing")}
    call, _, _ = scripted(zone)

    with pytest.raises(UnreadyError, match=r"tpu\.nodes\.update") as ended:
        create(call, LABELLED, timeout=0)

    assert ended.value.observation.lifecycle is Lifecycle.ACTIVE
