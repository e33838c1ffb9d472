"""Adopt or create: never doubled, never someone else's."""

from __future__ import annotations

import pytest

from tests.provider.fakes import (
    NAME,
    Cloud,
    FakeTime,
    args,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    InterruptedByUser,
    TpuflexError,
)
from tpuflex.naming import LABEL_SPEC
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.place import place
from tpuflex.queued_resource.body import request_body

DAY = 86400.0


def test_nothing_there_is_created_with_a_request_id() -> None:
    """A free name is posted once, with the spec hash among the labels and an idempotency id."""
    call, script, _ = scripted(Cloud())

    operation = place(call, args(), deadline=DAY)

    assert operation is not None
    (sent,) = [request for request in script.sent if request.method == "POST"]
    assert sent.query == {"queuedResourceId": "slice-g1", "requestId": "id-0"}
    assert sent.body == request_body(args())
    assert LABEL_SPEC in str(sent.body)


@pytest.mark.parametrize("state", ["WAITING_FOR_RESOURCES", "PROVISIONING", "ACTIVE", "NEW_STATE"])
def test_own_request_is_adopted(state: str) -> None:
    """The request of an interrupted run is found again; nothing is posted."""
    call, script, _ = scripted(Cloud(request=sequence(queued(state)), node=sequence(node())))

    assert place(call, args(), deadline=DAY) is None

    assert script.count("POST") == 0


def test_conflict_is_resolved_by_looking() -> None:
    """A 409 from a POST whose answer was lost leads to the request itself."""
    cloud = Cloud(
        request=sequence(missing(), queued("CREATING")),
        post=sequence(AlreadyExistsError("exists", status=409)),
    )
    call, script, _ = scripted(cloud)

    assert place(call, args(), deadline=DAY) is None

    assert script.count("POST") == 1


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"tpuflex-owner": "ffff", "tpuflex-stack": "prod"}, "belongs to stack prod"),
        ({}, "someone who does not use tpuflex"),
    ],
)
def test_foreign_request_is_refused(labels: dict[str, str], words: str) -> None:
    """What is not ours is named and left alone."""
    theirs = queued("ACTIVE")
    theirs["tpu"] = {"nodeSpec": [{"nodeId": "slice-g1", "node": {"labels": {**labels}}}]}
    call, script, _ = scripted(Cloud(request=sequence(theirs), node=sequence(node())))

    with pytest.raises(AlreadyExistsError, match=words):
        place(call, args(), deadline=DAY)

    assert script.count("POST") == script.count("DELETE") == 0


def test_own_request_with_other_settings_is_refused() -> None:
    """Ours, but requested differently: adopting it would pass off one slice as another."""
    call, _, _ = scripted(
        Cloud(request=sequence(queued("WAITING_FOR_RESOURCES", args(acceleratorType="v6e-8"))))
    )

    with pytest.raises(AlreadyExistsError, match="other settings") as refused:
        place(call, args(), deadline=DAY)

    assert "pulumi import" in str(refused.value.hint)


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_own_leftover_is_cleared_first(state: str) -> None:
    """An ended or failed request of ours blocks the name and the quota: it goes first."""
    cloud = Cloud(request=sequence(queued(state), queued(state), missing()))
    call, script, said = scripted(cloud)

    assert place(call, args(), deadline=DAY) is not None

    assert [r.method for r in script.sent if r.method != "GET"] == ["DELETE", "POST"]
    assert "clearing a leftover" in said.text


def test_deleting_request_is_outwaited() -> None:
    """A request that is being deleted is not adopted: once it is gone, a new one is placed."""
    cloud = Cloud(request=sequence(*[queued("DELETING")] * 4, missing()))
    call, script, _ = scripted(cloud)

    assert place(call, args(), deadline=DAY) is not None

    assert [r.method for r in script.sent if r.method != "GET"] == ["POST"]


@pytest.mark.parametrize(
    ("post", "look"),
    [
        (ApiError("down", status=503), ApiError("down", status=503)),
        (ApiError("no answer"), AccessError("denied")),
        (InterruptedByUser("stop"), InterruptedByUser("stop")),
    ],
)
def test_unknown_outcome_is_kept(post: TpuflexError, look: TpuflexError) -> None:
    """If it cannot be found out whether the POST took effect, the state must remember it."""
    call, _, _ = scripted(Cloud(request=sequence(missing(), look), post=sequence(post)))

    with pytest.raises(UnreadyError, match="not known whether") as ended:
        place(call, args(), deadline=DAY)

    assert str(ended.value.snapshot.name) == NAME


def test_cancel_before_the_post_places_nothing() -> None:
    """Cancelled in time, nothing is requested, and nothing is kept."""
    call, script, _ = scripted(Cloud(), FakeTime(stop_at=1000.0))

    with pytest.raises(InterruptedByUser) as ended:
        place(call, args(), deadline=DAY)

    assert not isinstance(ended.value, UnreadyError)
    assert script.count("POST") == 0
