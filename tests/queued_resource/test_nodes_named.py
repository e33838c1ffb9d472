"""Several nodes in one request: what may be asked for, and how each node is called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugin.values import Value
from tests.provider.fakes import args
from tests.queued_resource.inputs import filled
from tpuflex.naming import generation_id
from tpuflex.queued_resource.body import node_ids, request_body
from tpuflex.queued_resource.check import failures
from tpuflex.queued_resource.diff import diff
from tpuflex.queued_resource.model import QueuedResource
from tpuflex.queued_resource.name import ids_of
from tpuflex.queued_resource.states import Lifecycle

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
