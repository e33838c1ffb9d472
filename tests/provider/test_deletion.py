"""Deletion: until queued resource and node are gone, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.provider.fakes import (
    INPUTS,
    NAME,
    NODE,
    Cloud,
    args,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tpuflex.errors import AccessError, ApiError, ConflictError
from tpuflex.provider.delete import delete
from tpuflex.provider.read import labels_of, read
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import TABLE, Condition

DAY = 86400.0
TARGET = RequestName.parse(NAME)
LABELS = INPUTS["labels"]


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


def test_foreign_request_is_left_alone() -> None:
    """What carries another owner marker is not deleted, and its owner is named."""
    theirs = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
    call, script, _ = scripted(Cloud(request=sequence(queued("WAITING_FOR_RESOURCES", theirs))))

    created = "2026-11-21T08:00:00.123456789Z"  # the very one that was created, labels changed
    with pytest.raises(ConflictError, match="stack prod"):
        delete(call, TARGET, LABELS, deadline=DAY, created=created)

    assert script.count("DELETE") == 0


def test_a_node_that_somebody_else_made_under_our_name_is_left_alone() -> None:
    """Without a queued resource, a node with another owner is not what is to be deleted."""
    theirs = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
    call, script, said = scripted(Cloud(node=sequence(node(of=theirs))))

    delete(call, TARGET, LABELS, deadline=DAY)

    assert script.count("DELETE") == 0
    assert str(TABLE[Condition.FOREIGN].down.text) in str(said.text)


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
