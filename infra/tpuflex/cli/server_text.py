"""What a host does from READY on, in words for people."""

from __future__ import annotations

from tpuflex.host.serving import Serving, ServingPhase

#: In the headline of ``status``, by phase; one that serves is READY.
HEADLINES = {
    ServingPhase.DRAINING: "draining",
    ServingPhase.DEGRADED: "its server is started again",
    ServingPhase.FAILED: "the server failed",
}


def server_text(serving: Serving | None) -> str:
    """The phase, what it answers and why it does not serve; empty on hosts of older scripts."""
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
    return f"{text}: {serving.reason}" if serving.reason else text
