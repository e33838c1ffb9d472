"""The state machine of queued resources and nodes: pure rules over time.

    CREATING -> WAITING_FOR_RESOURCES -> PROVISIONING -> ACTIVE -> SUSPENDING -> SUSPENDED
    CREATING -> (rejected: gone)      WAITING -> FAILED (validity over)
    PROVISIONING -> SUSPENDING -> FAILED (provisioning failed)
    deletable states, and ACTIVE with force -> DELETING -> gone

Nothing happens by itself: a caller that reads the clock asks for the next change that is due,
and applies changes one by one, each at the time at which it was due, until none is left.
"""

from __future__ import annotations

import dataclasses

from embedded_cloud.core.errors import CloudError, failed_precondition
from embedded_cloud.services.tpu.capacity import CapacityRule
from embedded_cloud.services.tpu.records import (
    Initiator,
    Node,
    NodeState,
    QueuedResource,
    QueuedState,
)

#: States in which a queued resource can be deleted without force, in the order of the
#: message observed from the API (ACCEPTED is the old name of WAITING_FOR_RESOURCES).
DELETABLE = ("ACCEPTED", "WAITING_FOR_RESOURCES", "SUSPENDED", "FAILED")

#: States in which nothing is or will be provisioned.
ENDED = frozenset({QueuedState.SUSPENDED, QueuedState.FAILED})


def next_change(
    queued: QueuedResource, rule: CapacityRule, *, rule_since: float
) -> QueuedResource | None:
    """The state after ``queued``, entered at the time in its ``since``; ``None`` if it stays.

    The caller compares ``since`` with its clock: a change in the future is not due.

    Args:
        queued: the present state.
        rule: the capacity rule of its zone.
        rule_since: when that rule was put in force; no grant is dated before that.
    """
    match queued.state:
        case QueuedState.CREATING:
            target = QueuedState.WAITING if queued.rejection is None else QueuedState.GONE
            return _enter(queued, target, queued.since + rule.admission_s)
        case QueuedState.WAITING:
            return _leave_queue(queued, rule, rule_since)
        case QueuedState.PROVISIONING:
            return _provisioned(queued, rule)
        case QueuedState.ACTIVE:
            end = queued.ends_at
            if end is None:
                return None
            # A fixed end may have passed before the nodes come up.
            at = max(end, queued.since)
            return _enter(queued, QueuedState.SUSPENDING, at, Initiator.SERVICE)
        case QueuedState.SUSPENDING:
            target = QueuedState.SUSPENDED if queued.error is None else QueuedState.FAILED
            return _enter(queued, target, queued.since + rule.suspending_s)
        case QueuedState.DELETING:
            return _enter(queued, QueuedState.GONE, queued.since + rule.deleting_s)
        case _:
            return None


def polled(queued: QueuedResource, rule: CapacityRule, now: float) -> QueuedResource:
    """``queued`` after one more GET: with capacity by polls, the n-th one is granted."""
    if queued.state is not QueuedState.WAITING or rule.grant_after_polls is None:
        return queued
    polls = queued.polls + 1
    granted = now if polls >= rule.grant_after_polls and not rule.never else None
    return dataclasses.replace(queued, polls=polls, granted_by_poll_at=granted)


def deleting(queued: QueuedResource, now: float, *, force: bool) -> QueuedResource:
    """``queued`` once a delete is accepted.

    Raises:
        CloudError: 400 FAILED_PRECONDITION when it cannot be deleted in its state.
    """
    if queued.state.value in DELETABLE or (force and queued.state is QueuedState.ACTIVE):
        return _enter(queued, QueuedState.DELETING, now, Initiator.USER)
    raise not_in_state("Deletion", queued, DELETABLE)


def require_resettable(queued: QueuedResource) -> None:
    """Check that ``queued`` can be reset.

    Raises:
        CloudError: 400 FAILED_PRECONDITION unless it is ACTIVE.
    """
    if queued.state is not QueuedState.ACTIVE:
        raise not_in_state("Reset", queued, (QueuedState.ACTIVE.value,))


def suspended_by_user(queued: QueuedResource, now: float) -> QueuedResource:
    """``queued`` once its user deleted one of its nodes."""
    return _enter(queued, QueuedState.SUSPENDING, now, Initiator.USER)


def not_in_state(action: str, queued: QueuedResource, allowed: tuple[str, ...]) -> CloudError:
    """The refusal of ``action`` in the present state, in the wording observed from the API."""
    return failed_precondition(
        f"{action} of queued resource {queued.name} is not supported when state is "
        f"{queued.state} (must be one of [{' '.join(allowed)}])"
    )


def next_node_change(node: Node, rule: CapacityRule) -> Node | None:
    """The state after ``node`` and when, as :func:`next_change`; ``None`` if it stays.

    Nodes of a queued resource are created and deleted with it, not here.
    """
    match node.state:
        case NodeState.CREATING if not node.queued_resource:
            target = NodeState.READY
        case NodeState.STARTING:
            target = NodeState.READY
        case NodeState.STOPPING:
            target = NodeState.STOPPED
        case _:
            return None
    return enter_node(node, target, node.since + rule.provisioning_s)


def node_gone_at(node: Node, rule: CapacityRule) -> float | None:
    """When a node without queued resource that is DELETING is gone; ``None`` otherwise."""
    if node.state is NodeState.DELETING and not node.queued_resource:
        return node.since + rule.deleting_s
    return None


def enter_node(node: Node, state: NodeState, at: float) -> Node:
    """``node`` in ``state`` since ``at``."""
    return dataclasses.replace(node, state=state, since=at)


def _leave_queue(
    queued: QueuedResource, rule: CapacityRule, rule_since: float
) -> QueuedResource | None:
    grant = _granted_at(queued, rule, rule_since)
    expiry = queued.valid_until
    if expiry is not None and (grant is None or expiry <= grant):
        expired = dataclasses.replace(
            queued,
            error=("DEADLINE_EXCEEDED", "The request was not fulfilled while it was valid."),
        )
        return _enter(expired, QueuedState.FAILED, max(expiry, queued.since), Initiator.SERVICE)
    if grant is None:
        return None
    return _enter(queued, QueuedState.PROVISIONING, grant, Initiator.SERVICE)


def _granted_at(queued: QueuedResource, rule: CapacityRule, rule_since: float) -> float | None:
    if rule.never:
        return None
    if rule.grant_after_polls is not None:
        return queued.granted_by_poll_at
    start = max(queued.since, queued.valid_after or 0.0)
    return max(start + rule.grant_after_s, rule_since)


def _provisioned(queued: QueuedResource, rule: CapacityRule) -> QueuedResource:
    at = queued.since + rule.provisioning_s
    if rule.failure is not None:
        failed = dataclasses.replace(queued, error=rule.failure)
        return _enter(failed, QueuedState.SUSPENDING, at, Initiator.SERVICE)
    active = dataclasses.replace(queued, active_at=at)
    return _enter(active, QueuedState.ACTIVE, at, Initiator.SERVICE)


def _enter(
    queued: QueuedResource,
    state: QueuedState,
    at: float,
    initiator: Initiator | None = None,
) -> QueuedResource:
    return dataclasses.replace(
        queued, state=state, since=at, initiator=initiator or queued.initiator
    )
