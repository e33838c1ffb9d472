"""Which of many stacks a teardown is for: by label, by age, by how long nothing was asked. Pure.

Every condition that is given must hold. What cannot be known of a stack never lets it be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tpuflex.duration import format_age
from tpuflex.operate.activity import Idleness


@dataclass(frozen=True, slots=True)
class Selection:
    """What a stack must be like.

    Attributes:
        labels: labels that one of its resources carries, all of them.
        older_than: how old its slice must be, at least.
        idle_for: how long its server must have been asked nothing, at least.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    older_than: timedelta | None = None
    idle_for: timedelta | None = None

    @property
    def everything(self) -> bool:
        """Whether every stack is meant."""
        return not self.labels and self.older_than is None and self.idle_for is None


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a stack.

    Attributes:
        labels: the labels of each of its resources.
        created: when its slice was made, or requested while it waits; None if there is none.
        idle: since when its server was asked nothing; None if that was not asked.
    """

    labels: tuple[Mapping[str, str], ...] = ()
    created: datetime | None = None
    idle: Idleness | None = None


def refusal(selection: Selection, traits: Traits, now: datetime) -> str:
    """Why a stack with ``traits`` is not chosen; empty if it is."""
    wanted = selection.labels.items()
    if wanted and not any(wanted <= dict(labels).items() for labels in traits.labels):
        text = ", ".join(f"{key}={value}" for key, value in wanted)
        return f"nothing of it is labelled {text}"
    if selection.older_than is not None:
        if traits.created is None:
            return "its age is unknown: it has no slice"
        if now - traits.created < selection.older_than:
            return f"its slice is {format_age(now - traits.created)} old"
    if selection.idle_for is not None:
        return _not_idle(traits.idle, selection.idle_for, now)
    return ""


def _not_idle(idle: Idleness | None, wanted: timedelta, now: datetime) -> str:
    if idle is None:
        return "how long it was idle is unknown: it was not asked"
    if idle.busy:
        return f"it is in use: {idle.why}"
    if idle.since is None:
        return f"how long it was idle is unknown: {idle.why}"
    if now - idle.since < wanted:
        return f"known to be idle for {format_age(now - idle.since)} only: {idle.why}"
    return ""
