"""Deletion: until queued resource and node are gone, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.provider.fakes import (
    INPUTS,
    NAME,
    NODE,
    Cloud,
    FakeTime,
    args,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tpuflex.errors import AccessError, ApiError, ConflictError, InterruptedByUser
from tpuflex.provider.delete import delete
from tpuflex.provider.operations import delete_resource
from tpuflex.provider.read import labels_of, read
from tpuflex.request.name import RequestName
from tpuflex.request.outcomes import TABLE, Condition

DAY = 86400.0
TARGET = RequestName.parse(NAME)
LABELS = INPUTS["labels"]


def test_what_is_gone_is_done() -> None:
    """Deleting what does not exist succeeds without a DELETE."""
    call, script, _ = scripted(Cloud())

    delete(call, TARGET, LABELS, deadline=DAY)

    assert script.count("DELETE") == 0
    assert script.count("GET") == 4  # both, twice


def test_forced_once_and_waited_for() -> None:
    """An ACTIVE slice is deleted with force, once, and waited for until both are gone."""
    cloud = Cloud(
        request=sequence(queued("ACTIVE"), queued("DELETING"), queued("DELETING"), missing()),
        node=sequence(node(), node("DELETING"), node("DELETING"), missing()),
        operation=sequence({"name": "operations/2", "done": False}),
    )
    call, script, _ = scripted(cloud)

    delete(call, TARGET, LABELS, deadline=DAY)

    (sent,) = [request for request in script.sent if request.method == "DELETE"]
    assert sent.path == NAME
    assert sent.query == {"force": "true", "requestId": "id-0"}


def test_provisioning_is_asked_again_until_it_can_be_deleted() -> None:
    """PROVISIONING refuses deletion, perhaps for hours; it is retried each time."""
    refused = ConflictError("not supported in PROVISIONING", status=400)
    cloud = Cloud(
        request=sequence(*[queued("PROVISIONING")] * 50, queued("ACTIVE"), missing()),
        node=sequence(node(), missing()),
        delete=sequence(*[refused] * 50, {"name": "operations/2", "done": False}),
    )
    call, script, said = scripted(cloud)

    delete(call, TARGET, LABELS, deadline=DAY)

    assert script.count("DELETE") == 51
    assert len({r.query["requestId"] for r in script.sent if r.method == "DELETE"}) == 51
    assert "cannot be deleted yet: PROVISIONING" in said.text


def test_failed_delete_operation_is_repeated() -> None:
    """A delete operation that ends with an error leaves the slice; it is deleted again."""
    cloud = Cloud(
        request=sequence(queued("ACTIVE"), queued("ACTIVE"), queued("DELETING"), missing()),
        node=sequence(node(), node(), node("DELETING"), missing()),
        operation=sequence(
            {"name": "operations/2", "done": True, "error": {"code": 9, "message": "busy"}}
        ),
    )
    call, script, _ = scripted(cloud)

    delete(call, TARGET, LABELS, deadline=DAY)

    assert script.count("DELETE") == 2


def test_orphaned_node_is_deleted_too() -> None:
    """A node without its queued resource still costs money: it goes as well."""
    cloud = Cloud(node=sequence(node(), node(), node("DELETING"), node("DELETING"), missing()))
    call, script, _ = scripted(cloud)

    delete(call, TARGET, LABELS, deadline=DAY)

    (sent,) = [request for request in script.sent if request.method == "DELETE"]
    assert sent.path == NODE


def test_foreign_request_is_left_alone() -> None:
    """What carries another owner marker is not deleted, and its owner is named."""
    theirs = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
    call, script, _ = scripted(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES", theirs))))

    created = "2026-11-21T08:00:00.123456789Z"  # the very one that was created, labels changed
    with pytest.raises(ConflictError, match="stack prod"):
        delete(call, TARGET, LABELS, deadline=DAY, created=created)

    assert script.count("DELETE") == 0


def test_a_name_that_somebody_else_took_is_ours_no_more() -> None:
    """Another request under our name means that ours is gone: nothing is touched, and the
    deletion is done."""
    theirs = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
    call, script, said = scripted(Cloud(request=sequence(queued("ACTIVE", theirs))))

    delete(call, TARGET, LABELS, deadline=DAY, created="2026-11-20T08:00:00Z")

    assert script.count("DELETE") == 0
    assert "belongs to stack prod" in said.text


def test_a_node_that_somebody_else_made_under_our_name_is_left_alone() -> None:
    """Without a queued resource, a node with another owner is not what is to be deleted."""
    theirs = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
    call, script, said = scripted(Cloud(node=sequence(node(of=theirs))))

    delete(call, TARGET, LABELS, deadline=DAY)

    assert script.count("DELETE") == 0
    assert TABLE[Condition.FOREIGN].down.text in said.text


def test_stuck_deletion_ends_at_its_deadline() -> None:
    """A deletion that never ends fails at its deadline, so that the state keeps it."""
    time = FakeTime()
    call, _, _ = scripted(Cloud(request=sequence(queued("DELETING"))), time)

    with pytest.raises(ConflictError, match="not gone after 3h"):
        delete(call, TARGET, LABELS, deadline=time.now + 3 * 3600)

    assert time.now == 1000 + 3 * 3600


def test_what_is_deleted_is_not_said_to_wait_for_a_grant() -> None:
    """While it is being deleted, what its state meant for the queue is beside the point."""
    request = sequence(queued("WAITING_FOR_RESOURCES"), queued("DELETING"), missing())
    call, _, said = scripted(Cloud(request=request))

    delete(call, TARGET, LABELS, deadline=DAY)

    assert said.text.splitlines()[0].endswith("deleting: it was WAITING_FOR_RESOURCES")
    assert "Google grants it" not in said.text


def test_cancel_ends_the_wait() -> None:
    """A cancellation raises at once; the state keeps the resource."""
    time = FakeTime(stop_at=1005.0)
    call, _, _ = scripted(Cloud(request=sequence(queued("DELETING"))), time)

    with pytest.raises(InterruptedByUser, match="stopped while deleting"):
        delete(call, TARGET, LABELS, deadline=DAY)

    assert time.now == 1005


def test_transient_answers_are_outwaited_but_refusals_are_not() -> None:
    """503 is asked again; a missing permission is reported after the third time."""
    cloud = Cloud(request=sequence(ApiError("down", status=503), missing()))
    call, _, _ = scripted(cloud)
    delete(call, TARGET, LABELS, deadline=DAY)

    call, script, _ = scripted(Cloud(request=sequence(AccessError("403"))))
    with pytest.raises(AccessError):
        delete(call, TARGET, LABELS, deadline=DAY)
    assert len(script.sent) == 3


def test_whatever_a_node_is_labelled_its_request_says_whose_it_is() -> None:
    """A node whose labels were taken away, or are another's by now, is deleted with the request
    that holds it, and waited for when the request is gone first."""
    theirs = {"tpuflex-owner": "ffff", "tpuflex-stack": "prod"}
    for labels in ({}, theirs):
        held: dict[str, Any] = {
            "labels": labels,
            "queuedResource": NAME.replace("cloud-project", "801708188750"),
        }
        cloud = Cloud(
            request=sequence(queued("ACTIVE"), missing()),
            node=sequence(*[node(**held)] * 3, node("DELETING", **held), missing()),
        )
        call, script, _ = scripted(cloud)

        delete(call, TARGET, LABELS, deadline=DAY)

        sent = [request.path for request in script.sent if request.method == "DELETE"]
        assert sent[0] == NAME
        assert set(sent[1:]) <= {NODE}
        assert script.sent[-1].method == "GET"


def test_a_node_that_our_request_does_not_hold_is_not_ours() -> None:
    """Another's node under the name of ours stays, whatever our request was."""
    held: dict[str, Any] = {"labels": {}, "queuedResource": f"{NAME}-other"}
    cloud = Cloud(request=sequence(queued("ACTIVE"), missing()), node=sequence(node(**held)))
    call, script, _ = scripted(cloud)

    delete(call, TARGET, LABELS, deadline=DAY)

    assert [r.path for r in script.sent if r.method == "DELETE"] == [NAME]


def test_a_refresh_does_not_forget_whose_it_is() -> None:
    """What the node's labels say about the owner does not go into the state: the request says it,
    and a `down`, which refreshes first, deletes the slice."""
    for labels in ({}, {"tpuflex-owner": "ffff"}):
        there = Cloud(request=sequence(queued("ACTIVE")), node=sequence(node(labels=labels)))
        call, _, _ = scripted(there)

        found = read(call, NAME, INPUTS, {})

        assert found is not None
        assert labels_of(found.inputs)["tpuflex-owner"] == LABELS["tpuflex-owner"]


def test_a_state_that_has_forgotten_it_knows_it_by_its_time() -> None:
    """States of earlier versions lost the marks in a refresh; they still know the very request."""
    cloud = Cloud(request=sequence(queued("ACTIVE"), missing()), node=sequence(node(), missing()))
    call, script, _ = scripted(cloud)
    lost: dict[str, Any] = {**INPUTS, "labels": {}}
    recorded: dict[str, Any] = {"createTime": queued("ACTIVE")["createTime"]}

    delete_resource(call, NAME, lost, recorded, timeout=DAY)

    assert script.count("DELETE") == 1
