"""Reading resources into a state through their plugins, for a recovery."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tpuflex.engine.recovery_report import counted
from tpuflex.engine.state import Stored, adopted, living

if TYPE_CHECKING:
    from tpuflex.engine.plan import Plan

Say = Callable[[str], None]


class RecoverableStack(Protocol):
    """The part of :class:`tpuflex.engine.run.StackRun` that is used here."""

    def deployment(self) -> Stored:
        """The stack's state."""

    def replace(self, deployment: Stored) -> None:
        """Make ``deployment`` the stack's state."""

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Read resources through their plugins."""

    def preview(self) -> Plan:
        """What ``up`` would do."""


def read_in(
    stack: RecoverableStack,
    deployment: Stored,
    newcomers: list[Stored],
    reread: list[Stored],
    say: Say,
) -> Stored:
    """Put ``newcomers`` into the state, read them and ``reread`` through their plugins, and
    return the state after that. What the plugins do not find is not in it any more."""
    if newcomers:
        # Without outputs the plugin reads by id, as for an import: whole, and in its own form.
        stack.replace(adopted(deployment, [{**one, "outputs": {}} for one in newcomers]))
    targets = tuple(resource["urn"] for resource in (*newcomers, *reread))
    if not targets:
        return deployment
    say(f"Reading {counted(targets, 'resource')} …")
    stack.refresh(targets)
    return stack.deployment()


def whole(deployment: Stored, newcomer: Stored) -> Stored | None:
    """The resource that ``newcomer`` has become; None if its plugin did not find it."""
    now = living(deployment, newcomer["urn"])
    return now if now is not None and now.get("outputs") else None
