"""Which of many stacks a teardown is for: by label and by age. Pure.

Every condition that is given must hold. What cannot be known of a stack never lets it be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tpuflex.duration import format_age


@dataclass(frozen=True, slots=True)
class Selection:
    """What a stack must be like.

    Attributes:
        labels: labels that one of its resources carries, all of them.
        older_than: how old its slice must be, at least.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    older_than: timedelta | None = None

    @property
    def everything(self) -> bool:
        """Whether every stack is meant."""
        return not self.labels and self.older_than is None


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a stack.

    Attributes:
        labels: the labels of each of its resources.
        created: when its slice was made, or requested while it waits; None if there is none.
    """

    labels: tuple[Mapping[str, str], ...] = ()
    created: datetime | None = None


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
    return ""
