"""What a teardown leaves behind, and whether that is nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuflex.errors import IncompleteTeardownError

if TYPE_CHECKING:
    from tpuflex.gcp.inventory import Inventory

#: Deletions are visible in listings only after a moment.
_SETTLE_SECONDS = 30.0
_POLL_SECONDS = 1.0


def prove_empty(
    take: Callable[[], Inventory],
    *,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    project: str,
) -> Inventory:
    """Take the inventory until it is empty.

    Args:
        take: asks the cloud.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.
        project: Google Cloud project id, for the error's hint.

    Raises:
        IncompleteTeardownError: after half a minute something is still there, or part of the
            cloud could not be looked at.
    """
    deadline = now() + _SETTLE_SECONDS
    inventory = take()
    while inventory.items and now() < deadline:
        sleep(_POLL_SECONDS)
        inventory = take()
    if inventory.empty:
        return inventory
    raise IncompleteTeardownError(_what(inventory), hint=_how(inventory, project))


def _what(inventory: Inventory) -> str:
    lines = [
        *(f"  left: {item.kind} {item.name} ({item.location})" for item in inventory.items),
        *(f"  not looked at: {place}" for place in inventory.unseen),
    ]
    head = "Something is left:" if inventory.items else "It is not proved that nothing is left:"
    return "\n".join((head, *lines))


def _how(inventory: Inventory, project: str) -> str:
    if not inventory.items:
        return "Run `tpuflex down` again; it lists everything once more."
    return (
        "Run `tpuflex down` again. What Pulumi does not know of has to be deleted by hand, for "
        f"instance: gcloud … delete NAME --project {project}"
    )
