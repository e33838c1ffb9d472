"""A request that Google gives up: when that is, and what is said of it before and after."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.queued_resource.causes import Cause
from tpuflex.queued_resource.model import QueuedResource
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import Snapshot, given_up_at

NAME = RequestName("acme-serving", "us-east5-a", "slice-g1")
ASKED = datetime(2026, 11, 22, 8, tzinfo=UTC)
SIX = datetime(2026, 11, 22, 14, tzinfo=UTC)


def request(
    policy: dict[str, Any], state: str = "WAITING_FOR_RESOURCES", **error: Any
) -> QueuedResource:
    """A request that was made at ``ASKED``."""
    return QueuedResource.model_validate(
        {
            "createTime": "2026-11-22T08:00:00Z",
            "queueingPolicy": policy,
            "state": {"state": state, "failedData": {"error": error}},
        }
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, None),
        ({"validUntilDuration": "21600s"}, SIX),
        ({"validUntilDuration": "9999999999999s"}, None),
        ({"validUntilDuration": "soon"}, None),
        ({"validUntilTime": "2026-11-22T14:00:00Z"}, SIX),
        ({"validUntilTime": "tomorrow"}, None),
        ({"validInterval": {"endTime": "2026-11-22T14:00:00Z"}}, SIX),
        ({"validAfterDuration": "60s"}, None),
    ],
)
def test_when_a_request_is_given_up(policy: dict[str, Any], expected: datetime | None) -> None:
    """A duration counts from the request; without an end it waits for good."""
    assert given_up_at(request(policy)) == expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_answer_breaks_the_reading(duration: str, created: str) -> None:
    """Whatever the API answers, there is a time or none."""
    answer = QueuedResource.model_validate(
        {"createTime": created, "queueingPolicy": {"validUntilDuration": duration}}
    )

    assert given_up_at(answer) is None or given_up_at(answer)


def test_what_waits_says_until_when() -> None:
    """Every line about it in the queue says when it gives up, and none about one that runs."""
    policy = {"validUntilDuration": "21600s"}

    waiting = Snapshot(NAME, request(policy), at=ASKED.timestamp())

    assert waiting.describe() == (
        "WAITING_FOR_RESOURCES: in the queue, which costs nothing; Google grants it when there is"
        " capacity, or gives up at 2026-11-22 14:00 UTC"
    )
    assert "gives up" not in Snapshot(NAME, request(policy, "PROVISIONING")).describe()


@pytest.mark.parametrize(
    ("error", "at", "cause"),
    [
        ({"code": 4, "message": "It was not fulfilled while it was valid."}, 15, "expired"),
        # Google documents that it fails, and not with which words.
        ({"code": 0, "message": ""}, 15, "expired"),
        ({"code": 9, "message": "The request timed out."}, 15, "expired"),
        ({"code": 9, "message": "The request timed out."}, 13, "internal error"),
        ({"code": 8, "message": "There is no more capacity"}, 15, "stock-out"),
        ({"code": 13, "message": "An internal error has occurred"}, 15, "internal error"),
    ],
)
def test_a_failure_after_its_time_means_that_its_time_is_over(
    error: dict[str, Any], at: int, cause: str
) -> None:
    """Whatever the words, unless they name another cause."""
    over = datetime(2026, 11, 22, at, tzinfo=UTC).timestamp()
    failed = request({"validUntilDuration": "21600s"}, "FAILED", **error)

    found = Snapshot(NAME, failed, at=over).cause

    assert found is (Cause.INTERNAL if cause == "internal error" else Cause(cause))
