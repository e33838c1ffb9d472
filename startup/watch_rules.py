"""Where a host stands after READY, and what is to be done about it: pure rules (docs/serving.md).

A host is ``serving``; ``draining`` while nothing new is admitted; ``degraded`` while its server was
started again and has not served since; and ``failed`` for good.

Whether the server lives is judged by its tokens: ``/health`` answers 200 on an engine that is
frozen, and while the server ends (measured with vLLM 0.32).
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import datetime, timezone

from watch_state import (
    CLOSE,
    DEATHS,
    DEATHS_S,
    DEGRADED,
    DRAINING,
    DRAINING_REPORT_S,
    FAILED,
    FREEZES_S,
    FROZEN_S,
    IDLE_S,
    LOOKS_S,
    OPEN,
    REPORT_S,
    RERUN,
    RESTART,
    SERVING,
    SILENT_LOOKS,
    STOP,
    Limits,
    Look,
    Server,
    State,
)

#: Seconds since the epoch at the end of the year 9999, the last that can be shown.
_LAST_SECOND = 253_402_300_800.0


def begin(at: float) -> State:
    """A host that has just served a completion."""
    return State(SERVING, at, looked_at=at, answered_at=at, moved_at=at, made_at=at)


def begin_anew(at: float) -> State:
    """A host whose watch has died: whether its server answers, nobody knows."""
    why = "the watch of the host was started again"
    return replace(begin(at), phase=DEGRADED, reason=why, proven=False, answers=False)


def has_to_complete(state: State, at: float) -> bool:
    """Whether only a completion can tell if the server answers. A frozen engine counts nothing any
    more: what was sent to it while it was idle runs nowhere, and is in flight until its client
    gives up. While nothing is admitted, no completion is."""
    stuck = not state.server.is_idle and not state.server.running
    silent = state.phase == SERVING and at - state.moved_at >= FROZEN_S
    idle = state.phase == SERVING and state.server.is_idle and at - state.made_at >= IDLE_S
    return state.phase == DEGRADED or (silent and stuck) or idle


def step(before: State, look: Look, limits: Limits) -> tuple[State, tuple[str, ...]]:
    """Where the host stands after ``look``, and what to do, in this order."""
    if before.phase == FAILED:
        return before, (RERUN,) if look.restart and not look.drain else ()
    died = _has_died(before, look)
    seen = _observed(before, look, died=died)
    if why := _why_draining(seen, look, limits):
        return _draining(before, seen, look, limits, why, died=died)
    if before.phase == DRAINING:
        return _called_off(seen, look)
    if len(seen.deaths) >= DEATHS:
        code = look.container.exit_code
        return _failed(seen, look.at, f"the server keeps dying, the last time with status {code}")
    if seen.phase == DEGRADED:
        return _degraded(seen, look, limits)
    return _serving(seen, look, died=died)


def _has_died(before: State, look: Look) -> bool:
    """Whether docker has started the container again by itself, or it has ended, since the last
    look; what it starts anew for somebody counts from 0."""
    known = before.container
    if known is None:
        return False
    ended = known.status == "running" and look.container.status in ("exited", "dead", "absent")
    return look.container.restarts > known.restarts or ended


def _observed(before: State, look: Look, *, died: bool) -> State:
    """``before`` with what ``look`` shows."""
    deaths = tuple(at for at in before.deaths if look.at - at < DEATHS_S)
    missed = max(0.0, look.at - before.looked_at - LOOKS_S)
    same = before.answers and not died and look.container.status == "running"
    tokens = same and _makes_tokens(before.server, look.server)
    made = look.completed is True or (same and _has_stepped(before.server, look.server))
    idle = look.server is not None and look.server.is_idle
    after = replace(
        before,
        looked_at=look.at,
        answered_at=before.answered_at + missed,
        moved_at=before.moved_at + missed,
        container=look.container,
        made_at=look.at if made else before.made_at,
        silent=0 if made else before.silent + (look.completed is False and idle),
        deaths=(*deaths, look.at) if died else deaths,
        proven=(before.proven and not died) or look.completed is True or tokens,
        answers=same or look.server is not None,
        was_idle=idle,
        asked_at=min(before.asked_at, look.at) if look.drain else math.inf,
        restart_asked_at=min(before.restart_asked_at, look.at) if look.restart else math.inf,
    )
    if died:
        after = _counted(after, look.at, f"it died with status {look.container.exit_code}")
    server = look.server
    if server is None:
        return after
    # What has only just begun has made no token yet.
    begun = bool(server.running) and not before.server.running
    idle = idle or before.server.is_idle
    moved = server.steps is None or server.steps != before.server.steps
    moved = moved or begun or idle or look.completed is True or not same
    return replace(
        after,
        server=server,
        answered_at=look.at,
        moved_at=look.at if moved else after.moved_at,
    )


def _makes_tokens(before: Server, now: Server | None) -> bool:
    """Whether a process made tokens between two looks while requests ran. Behind a long queue no
    completion of the watch is answered in time."""
    return now is not None and now.running > 0 and _has_stepped(before, now)


def _has_stepped(before: Server, now: Server | None) -> bool:
    """Whether a process made tokens between two looks."""
    if now is None or now.steps is None or before.steps is None:
        return False
    return now.steps > before.steps


def _why_draining(seen: State, look: Look, limits: Limits) -> str:
    """Why nothing may be admitted; empty if it may."""
    ends = limits.ends_at
    if look.drain:
        said, why = _said(seen, look), "the slice is to be deleted"
        if ends is not None and ends - look.ahead <= _granted(seen, look, limits):
            return f"{why}, and its run ends at {rfc3339(ends)}"
        return why if said is None else f"{why}, which is waited for until {rfc3339(said)}"
    if ends is not None and _run_ends(look, limits):
        return f"the run ends at {rfc3339(ends)}"
    return "the server is started again, as somebody has asked" if look.restart else ""


def _run_ends(look: Look, limits: Limits) -> bool:
    """Whether the end of the run is near enough to drain."""
    return limits.drains_at is not None and look.at + look.ahead >= limits.drains_at


def _restarts(look: Look, limits: Limits) -> bool:
    """Whether the host drains in order to start its server again. What ends for good does not."""
    return bool(look.restart) and not look.drain and not _run_ends(look, limits)


def _draining(
    before: State, seen: State, look: Look, limits: Limits, why: str, *, died: bool
) -> tuple[State, tuple[str, ...]]:
    """A host that admits nothing. What was in flight may end, as long as there is time."""
    actions: tuple[str, ...] = ()
    if before.phase != DRAINING:
        # What was idle before admission was closed may not be so any more.
        seen = replace(seen, phase=DRAINING, since=look.at, drained=False, was_idle=False)
        actions = (CLOSE,)
    # Of a server that has ended, nobody waits for an answer any more. Of one that answers, two
    # looks: where several processes serve, one may have admitted what the others do not know of.
    gone = died or look.container.status != "running"
    idle = look.server is not None and look.server.is_idle and before.was_idle
    drained = seen.drained or gone or (idle and before.phase == DRAINING)
    # Nor of one that still loads.
    drained = drained or (_restarts(look, limits) and not seen.answers)
    until = _until(seen, look, limits)
    stopped = seen.stopped
    if not drained and not stopped:
        if frozen := _why_frozen(seen, look):
            stopped = f"{frozen}, so it was stopped"
        elif look.at >= until:
            count = max(seen.server.in_flight, seen.server.running + seen.server.waiting)
            seen = replace(seen, cut_off=count)
            ended = f"{count} requests had not ended by then and were cut off"
            stopped = ended if count else "the server was stopped"
        if stopped:
            # That end is no death.
            seen, actions = replace(seen, container=None), (*actions, STOP)
    reason = f"{why}; {stopped}" if stopped else why
    if drained and _restarts(look, limits):
        actions = (*actions, STOP, RERUN)
    return replace(seen, drained=drained, stopped=stopped, reason=reason), actions


def _until(seen: State, look: Look, limits: Limits) -> float:
    """When what is still in flight is cut off: at the latest when the run ends, and the machine
    with it."""
    ends = math.inf if limits.ends_at is None else limits.ends_at - look.ahead
    return min(ends, _granted(seen, look, limits))


def _granted(seen: State, look: Look, limits: Limits) -> float:
    """Until when, by the host's clock, the key lets requests end; infinity without one."""
    if _restarts(look, limits):
        return seen.restart_asked_at + restart_drain_s(look.restart, limits)
    said = _said(seen, look)
    return seen.asked_at + limits.drain_s if said is None else said + _fast_by(look)


def _said(seen: State, look: Look) -> float | None:
    """The time in the key; None without one. One that was over when the key was first seen is by a
    clock that is slow: whoever asks for a drain gives it time."""
    said = parse_time(look.drain)
    is_over = said is not None and said + _fast_by(look) < seen.asked_at
    return None if is_over else said


def _fast_by(look: Look) -> float:
    """Seconds by which the host's clock is fast. A slow one waits for longer; who set the key does
    not, and the embedded cloud's clock is ahead of theirs as well."""
    return max(0.0, -look.ahead)


def _called_off(seen: State, look: Look) -> tuple[State, tuple[str, ...]]:
    """Nobody wants the drain any more."""
    seen = replace(seen, since=look.at, drained=False, answered_at=look.at, moved_at=look.at)
    if seen.stopped or look.container.status != "running":
        reason = "the drain was called off after the server had been stopped; it is started again"
        again = replace(_started(seen), phase=DEGRADED, reason=reason, stopped="", cut_off=0)
        return again, (OPEN, RESTART)
    if not seen.proven:
        reason = "the drain was called off before the server had served again"
        return replace(seen, phase=DEGRADED, reason=reason), (OPEN,)
    return replace(seen, phase=SERVING, reason=""), (OPEN,)


def _serving(seen: State, look: Look, *, died: bool) -> tuple[State, tuple[str, ...]]:
    if died or look.container.status != "running":
        what = f"the server died with status {look.container.exit_code}"
        if not died:
            what = f"the container is {look.container.status}"
        return replace(seen, phase=DEGRADED, since=look.at, reason=what, proven=False), ()
    frozen = _why_frozen(seen, look)
    if not frozen:
        return seen, ()
    if _froze_lately(seen, look):
        return _failed(seen, look.at, f"{frozen}, again within an hour")
    return _once_more(seen, look.at, frozen)


def _froze_lately(seen: State, look: Look) -> bool:
    return look.at - seen.frozen_at < FREEZES_S


def _degraded(seen: State, look: Look, limits: Limits) -> tuple[State, tuple[str, ...]]:
    """A server that was started again serves once it is proven, and not before. It may freeze
    before that, but for one that loads, which does not answer yet."""
    if seen.proven:
        well = replace(seen, phase=SERVING, since=look.at, reason="")
        return replace(well, answered_at=look.at, moved_at=look.at), ()
    frozen = _why_frozen(seen, look) if seen.answers else ""
    if frozen and not _froze_lately(seen, look):
        return _once_more(seen, look.at, frozen)
    if look.at - seen.since >= limits.start_s:
        late = f"it has not served again within {limits.start_s:.0f} s"
        return _failed(seen, look.at, f"{seen.reason}; {late}")
    return seen, ()


def _once_more(seen: State, at: float, frozen: str) -> tuple[State, tuple[str, ...]]:
    again = replace(_counted(_started(seen), at, frozen), frozen_at=at)
    reason = f"{frozen}; it is started once more"
    return replace(again, phase=DEGRADED, since=at, reason=reason), (RESTART,)


def _counted(seen: State, at: float, why: str) -> State:
    """``seen`` of a server that is started again, here or by docker."""
    return replace(seen, restarts=seen.restarts + 1, restarted_at=at, restarted_why=why)


def _started(seen: State) -> State:
    """``seen`` of a server that is started here: docker's count begins anew, and its own."""
    return replace(seen, container=None, proven=False, answers=False, silent=0)


def _failed(seen: State, at: float, reason: str) -> tuple[State, tuple[str, ...]]:
    state = replace(seen, phase=FAILED, since=at, reason=reason, drained=True, server=Server())
    return state, (STOP,)


def _why_frozen(seen: State, look: Look) -> str:
    """Why the server counts as frozen; empty if it does not. The question that it does not answer
    is a request itself, so that it does not matter who else waits."""
    if look.at - seen.answered_at >= FROZEN_S:
        return f"the server has not answered for {FROZEN_S:.0f} s"
    if seen.silent >= SILENT_LOOKS and seen.phase == SERVING:
        return "no completion came, twice in a row, while nothing else ran"
    if look.at - seen.moved_at < FROZEN_S:
        return ""
    if seen.server.running:
        return f"no token came for {FROZEN_S:.0f} s while requests ran ({seen.server.running})"
    if look.completed is False:
        count = max(seen.server.in_flight, seen.server.waiting)
        return f"no token came for {FROZEN_S:.0f} s, nor a completion, while {count} waited for one"
    return ""


def report(state: State, at: float, limits: Limits, ahead: float = 0.0) -> dict[str, object]:
    """The document of the guest attribute ``tpuflex/serving``, its times by the metadata server's
    clock, which is ``ahead``: who reads it compares them with Google's. What the guard has in
    flight and the engine does not know runs: its first or last bytes are on their way. What a
    process had that has died does not."""
    server = state.server if state.answers and not state.drained else Server()
    return {
        "phase": state.phase,
        "since": round(state.since + ahead, 1),
        "at": round(at + ahead, 1),
        "running": max(server.running, server.in_flight - server.waiting),
        "waiting": server.waiting,
        "drained": state.drained,
        "reason": state.reason,
        "drains_at": limits.drains_at,
        "ends_at": limits.ends_at,
        "restarts": state.restarts,
        "restarted_at": round(state.restarted_at + ahead, 1) if state.restarts else None,
        "restarted_why": state.restarted_why,
        "cut_off": state.cut_off,
    }


def is_due(last: tuple[State, float] | None, state: State, at: float) -> bool:
    """Whether there is something to report.

    Args:
        last: what was reported last, and when; None before the first time.
        state: where the host stands now.
        at: the time.
    """
    if last is None:
        return True
    said, when = last
    told = ("phase", "since", "reason", "drained", "restarts")
    if any(getattr(said, name) != getattr(state, name) for name in told):
        return True
    return at - when >= (DRAINING_REPORT_S if state.phase == DRAINING else REPORT_S)


def restart_drain_s(key: str, limits: Limits) -> float:
    """How long a restart lets requests end: the number behind the last blank of its key."""
    word = key.rpartition(" ")[2]
    return float(word) if word.isascii() and word.isdecimal() else limits.drain_s


def parse_time(text: str) -> float | None:
    """The time in ``text``, RFC 3339; None if it has none, or none that UTC can show."""
    try:
        # Python 3.10 reads neither a Z nor every fraction.
        read = datetime.fromisoformat(re.sub(r"[.,]\d+", "", text.strip()).replace("Z", "+00:00"))
        at = None if read.tzinfo is None else read.astimezone(timezone.utc).timestamp()  # noqa: UP017
        return at if at is not None and at < _LAST_SECOND else None
    except (OverflowError, ValueError):
        return None


def rfc3339(at: float) -> str:
    """``at`` for people, to the second."""
    # The host's Python may be 3.10, which has no datetime.UTC.
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017
