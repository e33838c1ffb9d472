"""What a teardown leaves behind, and whether that is nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuflex.errors import IncompleteTeardownError
from tpuflex.request.outcomes import KEPT

if TYPE_CHECKING:
    from tpuflex.gcp.inventory import Inventory
    from tpuflex.operate.keeping import Kept

#: Deletions are visible in listings only after a moment.
_SETTLE_SECONDS = 30.0
#: With something that will stay, the rest is given this long.
_SETTLE_BESIDE_KEPT_SECONDS = 5.0
_POLL_SECONDS = 1.0


def prove_empty(
    take: Callable[[], Inventory],
    *,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    project: str,
    kept: tuple[Kept, ...] = (),
) -> Inventory:
    """Take the inventory until it is empty.

    Args:
        take: asks the cloud.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.
        project: Google Cloud project id, for the error's hint.
        kept: what was not deleted because somebody said so.

    Raises:
        IncompleteTeardownError: after half a minute something is still there, or part of the
            cloud could not be looked at.
    """
    deadline = now() + (_SETTLE_BESIDE_KEPT_SECONDS if kept else _SETTLE_SECONDS)
    inventory = take()
    while inventory.items and now() < deadline:
        sleep(_POLL_SECONDS)
        inventory = take()
    if inventory.empty:
        return inventory
    if kept:
        raise IncompleteTeardownError(
            _what(inventory, f"Kept on request: {KEPT.text}:"),
            hint="\n".join(f"kept by {each}" for each in kept),
        )
    raise IncompleteTeardownError(_what(inventory), hint=_how(inventory, project))


def _what(inventory: Inventory, title: str = "") -> str:
    lines = [
        *(f"  left: {item.kind} {item.name} ({item.location})" for item in inventory.items),
        *(f"  not looked at: {place}" for place in inventory.unseen),
    ]
    head = "Something is left:" if inventory.items else "It is not proved that nothing is left:"
    head = title or head
    return "\n".join((head, *lines))


def _how(inventory: Inventory, project: str) -> str:
    if not inventory.items:
        return "Run `tpuflex down` again; it lists everything once more."
    return (
        "After a run that was killed: tpuflex recover, then `tpuflex down` again. What no state "
        f"knows of in {project}: tpuflex sweep"
    )
