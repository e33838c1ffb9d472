"""What a queued resource's state means: our few lifecycles for Google's many states.

Sources: the `State` enumerations of `tpu.v2alpha1` (revision 20261001) and
https://cloud.google.com/tpu/docs/queued-resources. Pure: no clock, no I/O.
"""

from __future__ import annotations

from enum import StrEnum


class Lifecycle(StrEnum):
    """The lifecycle of a request for a slice.

    ============  =====================================================================
    waiting       in the queue; costs nothing, counts toward quota
    provisioning  capacity was granted, hosts are being made; cannot be deleted meanwhile
    active        the hosts run; billed
    ended         the run is over, the hosts are gone; the leftover still uses quota
    failed        it will never become active; the leftover still uses quota
    lost          something was deleted behind our back: queued resource or node is missing
    deleting      being deleted
    ============  =====================================================================
    """

    WAITING = "waiting"
    PROVISIONING = "provisioning"
    ACTIVE = "active"
    ENDED = "ended"
    FAILED = "failed"
    LOST = "lost"
    DELETING = "deleting"


#: Asked for, and not there yet.
ON_ITS_WAY = frozenset({Lifecycle.WAITING, Lifecycle.PROVISIONING})
#: The state of a queued resource that does not exist (its node may).
NOT_FOUND = "NOT_FOUND"
_QUEUED = {
    "CREATING": Lifecycle.WAITING,
    "ACCEPTED": Lifecycle.WAITING,
    "WAITING_FOR_RESOURCES": Lifecycle.WAITING,
    "PROVISIONING": Lifecycle.PROVISIONING,
    "ACTIVE": Lifecycle.ACTIVE,
    "SUSPENDING": Lifecycle.ENDED,
    "SUSPENDED": Lifecycle.ENDED,
    "FAILED": Lifecycle.FAILED,
    "DELETING": Lifecycle.DELETING,
}
#: Node states that an ACTIVE queued resource passes through before its hosts run.
_NODE_STARTING = frozenset({"CREATING", "STARTING"})
#: Node states from which a node does not come back by itself.
_NODE_OVER = frozenset(
    {"STOPPING", "STOPPED", "PREEMPTED", "TERMINATED", "DELETING", "HIDING", "HIDDEN"}
)
_SETTLED = frozenset({"SUSPENDED", "FAILED", "DELETING"})

_SENTENCES = {
    "CREATING": "the request is being checked",
    "ACCEPTED": "in the queue, which costs nothing; Google grants it when there is capacity",
    "WAITING_FOR_RESOURCES": (
        "in the queue, which costs nothing; Google grants it when there is capacity"
    ),
    "PROVISIONING": "capacity was granted, the hosts are being made",
    "ACTIVE": "the hosts run",
    "SUSPENDING": "the hosts are being taken down",
    "SUSPENDED": "the run is over and the hosts are gone; the leftover still uses quota",
    "FAILED": "the request failed; the leftover still uses quota",
    "DELETING": "being deleted",
}


def lifecycle(
    queued_resource_state: str | None,
    node_state: str | None,
    *,
    cut_short: bool = False,
    too_early: bool = False,
) -> Lifecycle:
    """The lifecycle of the request.

    Args:
        queued_resource_state: ``state.state`` of the queued resource, or None if there is none.
        node_state: ``state`` of its node, or None if there is none. Only matters when the
            queued resource is ACTIVE or missing.
        cut_short: whether the node was deleted before the run was over, which
            distinguishes a loss from an end: Google says SUSPENDED for both.
        too_early: whether no run of it can be over yet. Then SUSPENDING is on its way to FAILED
            (provisioning failed) or SUSPENDED (preempted), which shows within minutes.

    A state this version does not know counts as waiting: the API is alpha and may grow states,
    and waiting longer is never wrong in a way that loses a slice.
    """
    if queued_resource_state is None:
        return Lifecycle.LOST
    found = _QUEUED.get(queued_resource_state, Lifecycle.WAITING)
    if found is Lifecycle.ENDED and cut_short:
        return Lifecycle.LOST
    if queued_resource_state == "SUSPENDING" and too_early:
        return Lifecycle.PROVISIONING
    if found is not Lifecycle.ACTIVE:
        return found
    if node_state is None or node_state in _NODE_OVER:
        return Lifecycle.LOST
    return Lifecycle.PROVISIONING if node_state in _NODE_STARTING else Lifecycle.ACTIVE


def is_settled(queued_resource_state: str) -> bool:
    """Whether waiting for ACTIVE is pointless from here.

    SUSPENDING is not settled: a failed provisioning goes through it to FAILED, and the cause
    is only known there.
    """
    return queued_resource_state in _SETTLED


def is_known(queued_resource_state: str) -> bool:
    """Whether this version knows Google's state."""
    return queued_resource_state in _QUEUED


def describe(queued_resource_state: str) -> str:
    """Google's state in plain words."""
    return _SENTENCES.get(queued_resource_state, "a state that this version does not know")
