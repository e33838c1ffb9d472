"""What a host does from READY on, in words for people."""

from __future__ import annotations

from datetime import UTC, datetime

from tpuflex.duration import format_roughly
from tpuflex.host.serving import Serving, ServingPhase

#: Said of a host whose last word is old.
_GONE = "the host, or its watch, may be gone"

#: In the headline of ``status``, by phase; one that serves is READY.
HEADLINES = {
    ServingPhase.DRAINING: "draining",
    ServingPhase.DEGRADED: "its server is started again",
    ServingPhase.FAILED: "the server failed",
}


def server_text(serving: Serving | None, now: datetime) -> str:
    """The phase, what it answers, why it does not serve, and how old that is where it is too old to
    be relied on; empty on hosts of older scripts."""
    if serving is None:
        return ""
    parts = [serving.phase.value]
    if serving.running or serving.waiting or serving.phase is ServingPhase.DRAINING:
        waiting = f", {serving.waiting} waiting" if serving.waiting else ""
        plural = "" if serving.running == 1 else "s"
        parts.append(f"{serving.running} request{plural} running{waiting}")
    if serving.drained:
        parts.append("drained")
    if serving.restarts:
        parts.append("started again once, because it was frozen")
    text = "; ".join(parts)
    said = f"{text}: {serving.reason}" if serving.reason else text
    if not serving.is_old(now.timestamp()):
        return said
    spoke = datetime.fromtimestamp(serving.at, UTC)
    when = spoke.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    age = format_roughly(now - spoke)
    return f"{said}\nsaid {age} ago, at {when}, though it is due every minute: {_GONE}"
