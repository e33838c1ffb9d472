"""What is known of a host after READY: the data of ``watch_rules.py``, which the startup script
writes beside this file. Every time is in seconds since the epoch, by one clock that never goes
back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SERVING, DRAINING, DEGRADED, FAILED = "serving", "draining", "degraded", "failed"
#: Things to do: admit nothing; admit again; docker's restart and stop of the container; run the
#: startup script again, which ends the watch.
CLOSE, OPEN, RESTART, STOP, RERUN = "close", "open", "restart", "stop", "rerun"

#: Without a token, or without an answer, for so many seconds a server is frozen.
FROZEN_S = 60.0
#: Of the time between two looks so many seconds count for that: in a longer one it was docker that
#: did not answer, or the whole machine that stood still.
LOOKS_S = 20.0
#: A server that freezes again within so many seconds is given up.
FREEZES_S = 3600.0
#: A server that dies this often within so many seconds is not waited for any more.
DEATHS, DEATHS_S = 3, 3600.0
#: Of a server that has nothing to do nobody sees that it is frozen: one that has made no token for
#: so many seconds is asked for one, and is frozen once it has given none so often in a row.
IDLE_S, SILENT_LOOKS = 300.0, 2
#: Seconds between two reports. Google takes 10 queries of guest attributes a minute, and drops what
#: is beyond that: every 7 s leaves one for the first word of a change.
REPORT_S, DRAINING_REPORT_S = 60.0, 7.0
#: Seconds between two looks, by phase.
PACE = {SERVING: 5.0, DRAINING: 0.5, DEGRADED: 2.0, FAILED: 30.0}


@dataclass(frozen=True)
class Limits:
    """What is known from the start.

    Attributes:
        drain_s: how long a drain may last whose key does not say until when.
        start_s: how long a server that was started again may take until it serves.
        drains_at: when, by the cloud's clock, the run's end is near enough to drain; None where no
            end is known.
        ends_at: when the run ends, by the cloud's clock.
    """

    drain_s: float
    start_s: float
    drains_at: float | None = None
    ends_at: float | None = None


@dataclass(frozen=True)
class Container:
    """What docker says of the server's container.

    Attributes:
        status: as docker has it; ``absent`` without one.
        restarts: how often docker has started it again by itself.
        exit_code: of its last end.
        started: when its process was started, as docker writes times.
    """

    status: str
    restarts: int = 0
    exit_code: int = 0
    started: str = ""


@dataclass(frozen=True)
class Server:
    """What the server says of itself.

    Attributes:
        in_flight: requests that the guard has admitted and that have not ended.
        running, waiting: requests in the engine.
        steps: the engine's steps that made tokens, a count; None where the server has no such.
    """

    in_flight: int = 0
    running: int = 0
    waiting: int = 0
    steps: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return self.in_flight + self.running + self.waiting == 0


@dataclass(frozen=True)
class Look:
    """One look at the host.

    Attributes:
        at: when.
        drain: the metadata key ``tpuflex-drain``; empty without it.
        container: the server's container.
        server: None if it did not answer.
        completed: whether it has answered a completion, asked at this look; None where it was not
            asked.
        ahead: seconds by which the cloud's clock, by which a run ends, is ahead of the host's.
        restart: the metadata key ``tpuflex-restart``; empty without it, and where the boot has
            found the same one.
    """

    at: float
    drain: str
    container: Container
    server: Server | None = None
    completed: bool | None = None
    ahead: float = 0.0
    restart: str = ""


@dataclass(frozen=True)
class State:
    """Where the host stands, and what the rules remember.

    Attributes:
        phase: one of the four.
        since: when it began.
        reason: why, for people; empty while it serves.
        restarts: how often the server was started again, because it had died or was frozen.
        restarted_at, restarted_why: when and why it was the last time; 0 and empty for never.
        frozen_at: when it was started again last because it was frozen.
        drained: nothing runs, waits or is admitted any more.
        server: what the server said last.
        looked_at: when the last look was.
        answered_at: when the server answered last; later, by what does not count (``LOOKS_S``).
        moved_at: when a token came, or nothing ran, last; later, by what does not count.
        made_at: when a token came last.
        silent: how many completions of the watch have come to nothing since, while nothing ran.
        container: what docker said last; None where that counts no more.
        deaths: when the server died, within the last hour.
        was_idle: whether the server was idle at the last look.
        stopped: whether it was stopped here, and why; empty otherwise.
        cut_off: how many requests that ended because the time was over.
        proven: whether it is known to serve: it has answered a completion, or made tokens, since it
            was started last.
        answers: whether it has answered a look since it was started last: ``server`` is of the
            process that runs, which does not load any more.
        asked_at: when the key that asks for a drain was first seen; infinity without it.
        restart_asked_at: the same of the key that asks for a restart.
    """

    phase: str
    since: float
    reason: str = ""
    restarts: int = 0
    restarted_at: float = 0.0
    restarted_why: str = ""
    frozen_at: float = -math.inf
    drained: bool = False
    server: Server = Server()
    looked_at: float = 0.0
    answered_at: float = 0.0
    moved_at: float = 0.0
    made_at: float = 0.0
    silent: int = 0
    container: Container | None = None
    deaths: tuple[float, ...] = ()
    was_idle: bool = False
    stopped: str = ""
    cut_off: int = 0
    proven: bool = True
    answers: bool = True
    asked_at: float = math.inf
    restart_asked_at: float = math.inf
