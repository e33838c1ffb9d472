"""What a host says of itself from READY on: whether it serves, drains, or does not serve any more.

The host's watch writes it beside the boot's report (docs/serving.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pulumi_plugin.printable import marked

#: No count is larger: what is was not counted.
MOST = 2**53


def reported_object(text: str) -> dict[str, Any] | None:
    """The JSON object in ``text``; None where it is empty or cannot be read."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # numbers of thousands of digits, lists in lists
        return None
    return document if isinstance(document, dict) else None


def reported_count(value: object) -> int:
    """``value`` as a count; 0 if it is none."""
    return value if type(value) is int and 0 <= value <= MOST else 0


#: The guest attribute that the watch writes: a JSON object.
SERVING = "serving"

#: Seconds since the epoch at the beginning of the year 9999, whose end not every zone can show; no
#: comparison with NaN is true.
LAST_SECOND = 253_370_764_800.0
#: Seconds after which a host's last word is old: it speaks every minute (docs/serving.md), and one
#: or two of its writes may fail.
OLD_AFTER_S = 180.0
#: Seconds after which a host that has not begun to drain never will: its watch is told at once, but
#: for while it waits for a completion, twice 60 s at most (startup/watch_server.py).
REACTS_WITHIN_S = 150.0
#: The reason of what cannot be read.
UNREADABLE = "what the host says of its server cannot be read (guest attribute tpuflex/serving)"


class ServingPhase(StrEnum):
    """What a host does from READY on.

    Attributes:
        SERVING: it answers.
        DRAINING: it answers what it has begun, and takes nothing new.
        DEGRADED: its server does not answer, and is started again.
        FAILED: its server does not answer, and is not started again.
    """

    SERVING = "serving"
    DRAINING = "draining"
    DEGRADED = "degraded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Serving:
    """A host's account of its server from READY on.

    Attributes:
        phase: what it does.
        since: when that began, in seconds since the epoch; 0 where it is not known.
        at: when this was said; 0 where it is not known.
        running, waiting: how many requests its server answers, and how many wait in it.
        drained: whether nothing runs or waits there, and nothing is let in any more.
        cut_off: how many requests were cut off when the time to drain was over.
        reason: why it drains, is degraded or has failed; empty while it serves.
        drains_at: when it drains by itself, because its run ends; None where that is not known.
        ends_at: when its run ends, as the host has counted it; None where that is not known.
        restarts: how often the server was started again since the host was READY.
        restarted_at, restarted_why: when and why the last time; None and empty for never.
    """

    phase: ServingPhase
    since: float = 0.0
    at: float = 0.0
    running: int = 0
    waiting: int = 0
    drained: bool = False
    cut_off: int = 0
    reason: str = ""
    drains_at: datetime | None = None
    ends_at: datetime | None = None
    restarts: int = 0
    restarted_at: datetime | None = None
    restarted_why: str = ""

    def is_old(self, now: float) -> bool:
        """Whether this was said so long before ``now``, in seconds since the epoch, that the host
        may be gone; never where it is not known when it was said."""
        return self.at > 0 and now - self.at >= OLD_AFTER_S

    def to_json(self) -> dict[str, object]:
        """The document under ``host.serving`` that ``tpuflex status --json`` prints."""
        return {
            "phase": self.phase.value,
            "since": self.since,
            "at": self.at,
            "running": self.running,
            "waiting": self.waiting,
            "drained": self.drained,
            "cut_off": self.cut_off,
            "reason": self.reason,
            "drains_at": self.drains_at and self.drains_at.isoformat(),
            "ends_at": self.ends_at and self.ends_at.isoformat(),
            "restarts": self.restarts,
            "restarted_at": self.restarted_at and self.restarted_at.isoformat(),
            "restarted_why": self.restarted_why,
        }


def serving_report(text: str) -> Serving | None:
    """Read the guest attribute :data:`SERVING`; None where it is empty. One that cannot be read, or
    names a phase that this version does not know, shows that the host serves to nobody."""
    if not text:
        return None
    document = reported_object(text) or {}
    try:
        phase = ServingPhase(str(document.get("phase")))
    except ValueError:
        return Serving(ServingPhase.DEGRADED, reason=UNREADABLE)
    return Serving(
        phase,
        since=_seconds(document.get("since")) or 0.0,
        at=_seconds(document.get("at")) or 0.0,
        running=reported_count(document.get("running")),
        waiting=reported_count(document.get("waiting")),
        drained=document.get("drained") is True,
        cut_off=reported_count(document.get("cut_off")),
        reason=marked(str(document.get("reason") or "")),
        drains_at=_time(document.get("drains_at")),
        ends_at=_time(document.get("ends_at")),
        restarts=reported_count(document.get("restarts")),
        restarted_at=_time(document.get("restarted_at")),
        restarted_why=marked(str(document.get("restarted_why") or "")),
    )


def _seconds(value: object) -> float | None:
    if type(value) in (int, float) and 0 < value < LAST_SECOND:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    return None


def _time(value: object) -> datetime | None:
    seconds = _seconds(value)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
