"""The nodes that a queued resource has left behind: which are asked to go, and when again."""

from __future__ import annotations

import pytest

from tests.provider.fakes import NAME, Answer, Script, Sent, missing, scripted
from tests.provider.several import IDS, PLACE
from tpuflex.errors import AccessError, ApiError, ConflictError, TpuflexError
from tpuflex.provider.delete import Orphans, orphaned
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.name import Nodes, RequestName


def nodes(*states: str) -> list[Node]:
    """Nodes in ``states``, under the ids of a request for three."""
    return [
        Node(name=f"{PLACE}/nodes/{id_}", state=state)
        for id_, state in zip(IDS, states, strict=False)
    ]


class Deleting:
    """Answers each deletion with an operation named after its node, which does not end.

    ``refuses`` are nodes whose deletion is an error, ``operations`` what is said of an operation
    instead of that it goes on.
    """

    def __init__(self) -> None:
        self.refuses: dict[str, TpuflexError] = {}
        self.operations: dict[str, Answer] = {}

    def __call__(self, sent: Sent) -> Answer:
        id_ = sent.path.rpartition("/")[2]
        if sent.method == "DELETE":
            return self.refuses.get(id_) or {"name": f"operations/{id_}", "done": False}
        return self.operations.get(id_, {"name": sent.path, "done": False})


def orphans(cloud: Deleting) -> tuple[Orphans, Script]:
    call, script, _ = scripted(cloud)
    return Orphans(call, RequestName.parse(NAME)), script


def asked(script: Script) -> list[str]:
    """Full names of the nodes whose deletion was requested, in order."""
    return [sent.path for sent in script.sent if sent.method == "DELETE"]


def test_each_is_asked_for_once_by_its_full_name() -> None:
    """A deletion is not requested again while its operation is remembered."""
    left, script = orphans(Deleting())

    left.delete(nodes("READY", "PREEMPTED"))
    left.delete(nodes("READY", "PREEMPTED", "READY"))

    assert asked(script) == [f"{PLACE}/nodes/{id_}" for id_ in IDS]
    assert left.operations == {id_: f"operations/{id_}" for id_ in IDS}


def test_those_left_are_neither_deleting_nor_asked_for() -> None:
    """Nodes that are not being deleted are left, in their order."""
    left, script = orphans(Deleting())
    there = nodes("READY", "DELETING", "READY")
    assert left.left(there) == [there[0], there[2]]
    assert script.sent == []  # no operation, no question

    left.delete(there[:1])

    assert left.left(there) == [there[2]]


def test_an_operation_that_is_done_is_asked_about_once_and_the_node_again() -> None:
    """A node that still exists when its operation has ended is left, and deleted again."""
    cloud = Deleting()
    left, script = orphans(cloud)
    there = nodes("READY")
    left.delete(there)
    cloud.operations = {IDS[0]: {"name": f"operations/{IDS[0]}", "done": True}}

    assert left.left(there) == there
    assert left.operations == {IDS[0]: ""}
    assert left.left(there) == there
    left.delete(there)

    assert [sent.path for sent in script.sent if sent.method == "GET"] == [f"operations/{IDS[0]}"]
    assert len(asked(script)) == 2


@pytest.mark.parametrize(
    ("answer", "remains", "requests"),
    [
        pytest.param(missing("operations"), True, 2, id="forgotten by Google"),
        pytest.param(ApiError("unavailable", status=503), False, 1, id="no answer"),
    ],
)
def test_an_operation_of_unknown_state(answer: TpuflexError, remains: bool, requests: int) -> None:
    """Google forgets operations: the node is left, and deleted again rather than waited for without
    end. While the API does not answer, the deletion is not requested again."""
    cloud = Deleting()
    left, script = orphans(cloud)
    there = nodes("READY")
    left.delete(there)
    cloud.operations = {IDS[0]: answer}

    assert left.left(there) == (there if remains else [])
    left.delete(there)

    assert len(asked(script)) == requests


@pytest.mark.parametrize(
    "refusal", [AccessError("tpu.nodes.delete is missing"), ConflictError("busy"), ApiError("oops")]
)
def test_the_first_refusal_is_raised_after_all_were_asked_for(refusal: TpuflexError) -> None:
    """A refused deletion does not stop the others, and is tried again the next time."""
    cloud = Deleting()
    cloud.refuses = {IDS[0]: refusal, IDS[1]: ApiError("a later one")}
    left, script = orphans(cloud)

    with pytest.raises(type(refusal)) as raised:
        left.delete(nodes("READY", "READY", "READY"))

    assert raised.value is refusal
    assert len(asked(script)) == 3
    assert left.operations == {IDS[2]: f"operations/{IDS[2]}"}
    cloud.refuses = {}
    left.delete(nodes("READY", "READY", "READY"))
    assert asked(script)[3:] == [f"{PLACE}/nodes/{id_}" for id_ in IDS[:2]]


def test_a_node_that_is_gone_by_then_is_no_failure() -> None:
    """Somebody was quicker: nothing to remember, and the others are deleted."""
    cloud = Deleting()
    cloud.refuses = {IDS[0]: missing(IDS[0])}
    left, script = orphans(cloud)

    left.delete(nodes("READY", "READY"))

    assert len(asked(script)) == 2
    assert left.operations == {IDS[1]: f"operations/{IDS[1]}"}


@pytest.mark.parametrize(
    ("ids", "states", "text"),
    [
        (IDS[:1], ("DELETING",), "its node is DELETING"),
        (IDS[:1], (), "its node is "),
        (IDS, ("READY",), "1 of its 3 nodes is there"),
        (IDS, ("READY", "DELETING"), "2 of its 3 nodes are there"),
    ],
)
def test_one_node_is_described_by_its_state_and_several_by_number(
    ids: tuple[str, ...], states: tuple[str, ...], text: str
) -> None:
    """What is left of a request that is gone, in words."""
    assert orphaned(Nodes(ids, tuple(nodes(*states)))) == text
