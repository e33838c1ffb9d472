"""The state machine of a queued resource, row by row, without server or store."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.core.errors import CloudError
from embedded_cloud.services.tpu import lifecycle
from embedded_cloud.services.tpu.capacity import CapacityRule
from embedded_cloud.services.tpu.records import Initiator, QueuedResource, QueuedState

S = QueuedState
_RULE = CapacityRule(
    admission_s=1, grant_after_s=10, provisioning_s=5, suspending_s=3, deleting_s=2
)


def _queued(state: QueuedState, **fields: Any) -> QueuedResource:
    values: dict[str, Any] = {"created_at": 0.0, "since": 100.0, **fields}
    return QueuedResource(project="p", zone="z", id="q", spec={}, state=state, **values)


@pytest.mark.parametrize(
    ("queued", "rule", "state", "since", "initiator"),
    [
        (_queued(S.CREATING), _RULE, S.WAITING, 101, Initiator.USER),
        (_queued(S.CREATING, rejection=("INVALID_ARGUMENT", "m")), _RULE, S.GONE, 101, None),
        (_queued(S.WAITING), _RULE, S.PROVISIONING, 110, Initiator.SERVICE),
        (_queued(S.WAITING, valid_after=120.0), _RULE, S.PROVISIONING, 130, Initiator.SERVICE),
        (_queued(S.WAITING, valid_until=105.0), _RULE, S.FAILED, 105, Initiator.SERVICE),
        (_queued(S.WAITING, valid_until=110.0), _RULE, S.FAILED, 110, Initiator.SERVICE),
        (_queued(S.WAITING, valid_until=110.5), _RULE, S.PROVISIONING, 110, Initiator.SERVICE),
        (
            _queued(S.WAITING, valid_until=105.0),
            CapacityRule(never=True),
            S.FAILED,
            105,
            Initiator.SERVICE,
        ),
        (
            _queued(S.WAITING, granted_by_poll_at=104.0),
            CapacityRule(grant_after_polls=3),
            S.PROVISIONING,
            104,
            Initiator.SERVICE,
        ),
        (_queued(S.PROVISIONING), _RULE, S.ACTIVE, 105, Initiator.SERVICE),
        (
            _queued(S.PROVISIONING),
            CapacityRule(provisioning_s=5, failure=("INTERNAL", "m")),
            S.SUSPENDING,
            105,
            Initiator.SERVICE,
        ),
        (_queued(S.ACTIVE, active_at=100.0, run_for=60.0), _RULE, S.SUSPENDING, 160, "SERVICE"),
        (_queued(S.ACTIVE, active_at=100.0, run_until=130.0), _RULE, S.SUSPENDING, 130, "SERVICE"),
        (_queued(S.ACTIVE, active_at=100.0, run_until=50.0), _RULE, S.SUSPENDING, 100, "SERVICE"),
        (_queued(S.SUSPENDING, initiator=Initiator.USER), _RULE, S.SUSPENDED, 103, "USER"),
        (_queued(S.SUSPENDING, error=("INTERNAL", "m")), _RULE, S.FAILED, 103, None),
        (_queued(S.DELETING), _RULE, S.GONE, 102, None),
    ],
)
def test_each_state_is_left_at_its_time(
    queued: QueuedResource,
    rule: CapacityRule,
    state: QueuedState,
    since: float,
    initiator: str | None,
) -> None:
    """One row per edge of the state machine."""
    following = lifecycle.next_change(queued, rule, rule_since=0.0)
    assert following is not None
    assert (following.state, following.since) == (state, since)
    if initiator is not None:
        assert following.initiator == initiator


@pytest.mark.parametrize(
    ("queued", "rule"),
    [
        (_queued(S.WAITING), CapacityRule(never=True)),
        (_queued(S.WAITING), CapacityRule(grant_after_polls=2)),
        (_queued(S.ACTIVE, active_at=100.0), _RULE),
        (_queued(S.SUSPENDED), _RULE),
        (_queued(S.FAILED), _RULE),
    ],
)
def test_these_stay_as_they_are(queued: QueuedResource, rule: CapacityRule) -> None:
    """No capacity, no limit of the run, or an end: nothing is ever due."""
    assert lifecycle.next_change(queued, rule, rule_since=0.0) is None


_DELETABLE = {S.WAITING, S.SUSPENDED, S.FAILED}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", [state for state in S if state is not S.GONE])
def test_what_can_be_deleted_and_when(state: QueuedState, force: bool) -> None:
    """Without force only what has no nodes; with force also ACTIVE; PROVISIONING never."""
    queued = _queued(state)
    if state in _DELETABLE or (state is S.ACTIVE and force):
        deleting = lifecycle.deleting(queued, 200.0, force=force)
        assert (deleting.state, deleting.since) == (S.DELETING, 200.0)
        assert deleting.initiator is Initiator.USER
        return
    with pytest.raises(CloudError) as caught:
        lifecycle.deleting(queued, 200.0, force=force)
    assert (caught.value.http_status, caught.value.code) == (400, 9)
    assert caught.value.message.endswith(
        f"not supported when state is {state} "
        "(must be one of [ACCEPTED WAITING_FOR_RESOURCES SUSPENDED FAILED])"
    )


@pytest.mark.parametrize("state", [state for state in S if state not in (S.ACTIVE, S.GONE)])
def test_only_an_active_request_can_be_reset(state: QueuedState) -> None:
    """SUSPENDED is not allocated again: reset is refused there too."""
    with pytest.raises(CloudError, match=r"Reset .* not supported when state is"):
        lifecycle.require_resettable(_queued(state))
    lifecycle.require_resettable(_queued(S.ACTIVE, active_at=1.0))
