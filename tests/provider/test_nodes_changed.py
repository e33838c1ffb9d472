"""Several nodes in one request: each is deleted and patched, even if another one refuses."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.values import Properties
from tests.provider.fakes import INPUTS, NAME, Answer, Sent, scripted
from tests.provider.several import IDS, KNOWN, STATE, Zone
from tpuflex.errors import AccessError, ApiError
from tpuflex.naming import LABEL_OWNER
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.diff import resource_diff
from tpuflex.provider.operations import create, delete_resource, update
from tpuflex.provider.read import read
from tpuflex.queued_resource.states import Lifecycle


def deletions(script: Any) -> list[str]:
    return [sent.path.rpartition("/")[2] for sent in script.sent if sent.method == "DELETE"]


def test_delete_is_over_when_every_node_is_gone() -> None:
    """Nodes that outlive their request are deleted one by one; those of others are left alone."""
    zone = Zone()
    zone.request = None
    zone.nodes["theirs"] = {**zone.node(7), "labels": {LABEL_OWNER: "ffff"}, "queuedResource": "x"}
    call, script, _ = scripted(zone)

    delete_resource(call, NAME, KNOWN, STATE, timeout=0)

    assert deletions(script) == list(IDS)
    assert [*zone.nodes] == ["theirs"]


def test_strangers_node_among_ours_is_left_alone() -> None:
    """If somebody took the name of one node, the others are deleted, and that is reported."""
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
    """Nodes that an earlier request of ours left are deleted before it is requested again."""
    zone = Zone(node0="MISSING")
    zone.request = None
    call, script, said = scripted(zone)

    seen = create(call, KNOWN, timeout=0)

    mutations = [(s.method, s.path.rpartition("/")[2]) for s in script.sent if s.method != "GET"]
    assert mutations[:2] == [("DELETE", IDS[1]), ("DELETE", IDS[2])]
    assert mutations[2][0] == "POST"
    assert "2 of its 3 nodes are there" in said.text
    assert seen.lifecycle is Lifecycle.ACTIVE


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
    assert set(resource_diff(found.inputs, LABELLED, found.outputs, 1.8e9).diff.changes) == {
        "tags",
        "nodes",
    }
    zone.refuses.clear()
    update(call, NAME, KNOWN, LABELLED, STATE, timeout=0)
    assert patched(script) == [*IDS, IDS[1]]
    again = read(call, NAME, LABELLED, STATE)
    assert again is not None
    assert not resource_diff(again.inputs, LABELLED, again.outputs, 1.8e9).diff.changes


WORDED: Properties = {**KNOWN, "description": "one", "labels": {**INPUTS["labels"], "team": "a"}}
#: Labels of a node without the team.
SPECIFIED = Zone().nodes[IDS[0]]["labels"]


@pytest.mark.parametrize("patched_first", IDS)
@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        ({**WORDED, "tags": ["t"]}, {"tags": ["t"]}),
        ({**WORDED, "description": "two"}, {"description": "two"}),
        ({**WORDED, "labels": INPUTS["labels"]}, {"labels": SPECIFIED}),
    ],
    ids=["given", "changed", "taken away"],
)
def test_a_killed_run_changed_one_node(
    patched_first: str, wanted: Properties, changed: dict[str, Any]
) -> None:
    """The state does not know of the change, and the node that has it looks like what is wanted:
    the next update changes the others all the same, and the one after it nothing."""
    zone = Zone()
    call, script, _ = scripted(zone)
    update(call, NAME, KNOWN, WORDED, STATE, timeout=0)
    zone.nodes[patched_first] |= changed
    script.sent.clear()

    found = read(call, NAME, WORDED, STATE)
    assert found is not None
    planned = resource_diff(found.inputs, wanted, found.outputs, 1.8e9).diff
    assert (planned.changes["nodes"].replaces, planned.replaces) == (False, False)
    update(call, NAME, found.inputs, wanted, found.outputs, timeout=0)

    assert patched(script) == [id_ for id_ in IDS if id_ != patched_first]
    again = read(call, NAME, wanted, found.outputs)
    assert again is not None
    assert not resource_diff(again.inputs, wanted, again.outputs, 1.8e9).diff.changes


def test_failed_patch_of_an_adopted_request_keeps_it_in_the_state() -> None:
    """What runs and is billed must not be forgotten because a label could not be changed."""
    zone = Zone()
    zone.refuses = {IDS[0]: AccessError("tpu.nodes.update is missing")}
    call, _, _ = scripted(zone)

    with pytest.raises(UnreadyError, match=r"tpu\.nodes\.update") as ended:
        create(call, LABELLED, timeout=0)

    assert ended.value.snapshot.lifecycle is Lifecycle.ACTIVE
