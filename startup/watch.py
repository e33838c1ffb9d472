"""Watch over a host that serves: close it when it is drained, start a frozen server once more, and
say where it stands in the guest attribute ``tpuflex/serving`` (docs/serving.md).

Run by the startup script once the host is READY: ``watch.py STATE BOOT-LOG METADATA LOGGING SERVER
CERTIFICATE REPORTS``, with ``routes.py``, ``boot_log.py`` and ``watch_*.py`` beside it. It outlives
the script, there is one of it on a host, and it ends when it is told to. STATE has the settings of
the boot, ``config.fields``. TPUFLEX_SLEEP is a command to run instead of sleeping.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from watch_host import Clock, Docker, Metadata, environment
from watch_log import Log
from watch_rules import begin, begin_anew, has_to_complete, is_due, report, step
from watch_server import ModelServer
from watch_state import (
    CLOSE,
    DEGRADED,
    DRAINING,
    FAILED,
    OPEN,
    PACE,
    RESTART,
    SERVING,
    STOP,
    Container,
    Limits,
    Look,
    State,
)

_SEVERITY = {SERVING: "NOTICE", DRAINING: "NOTICE", DEGRADED: "WARNING", FAILED: "ERROR"}


@dataclass
class Watch:
    """One host and its server.

    Attributes:
        clock: the time.
        metadata: where the drain is asked for, and where reports go.
        server: the model server.
        docker: its container.
        log: where events are written.
        closed: while this file is there, the guard admits nothing.
        limits: what is known from the start.
        anew: whether a watch of this boot has died before.
    """

    clock: Clock
    metadata: Metadata
    server: ModelServer
    docker: Docker
    log: Log
    closed: Path
    limits: Limits
    anew: bool = False

    def run(self) -> None:
        """Watch until killed."""
        state = (begin_anew if self.anew else begin)(self.clock.now())
        told = None
        # A watch that ended in a drain has left it closed: the first look says what holds.
        admit: tuple[str, ...] = (OPEN,)
        drain = self.metadata.drain()
        container = Container("running")
        while True:
            container = self.docker.container() or container
            look = self._look(state, drain, container)
            after, actions = step(state, look, self.limits)
            self._admit((*admit, *actions))
            admit = ()
            before, state = state, self._worded(state, after, actions)
            # First what others wait for: docker takes its time, and so may Cloud Logging.
            now = self.clock.now()
            document = report(state, now, self.limits, self.metadata.ahead)
            if is_due(told, state, now) and self.metadata.tell(document):
                told = (state, now)
            self._run_docker(actions)
            self._write_down(before, state)
            drain = self._wait(drain, PACE[state.phase])

    def _look(self, state: State, drain: str, container: Container) -> Look:
        """What there is to see. A failed server is left alone."""
        runs = container.status == "running" and state.phase != FAILED
        server = self.server.look() if runs else None
        completed = None
        if server is not None and not drain and has_to_complete(state, self.clock.now()):
            completed = self.server.completes()
        ahead = self.metadata.ahead
        return Look(self.clock.now(), drain, container, server, completed, ahead)

    def _admit(self, actions: Sequence[str]) -> None:
        if CLOSE in actions:
            self.closed.touch()
        elif OPEN in actions:
            self.closed.unlink(missing_ok=True)

    def _run_docker(self, actions: Sequence[str]) -> None:
        if RESTART in actions:
            self.docker.restart()
        elif STOP in actions:
            self.docker.stop()

    def _worded(self, before: State, after: State, actions: Sequence[str]) -> State:
        """``after`` with the server's own last words in its reason."""
        if after.phase == before.phase:
            return after
        if after.phase == FAILED:
            return replace(after, reason=f"{after.reason}: {self.log.last_lines(15)}")
        if after.phase == DEGRADED and not actions:
            # One that was frozen does not know it.
            return replace(after, reason=f"{after.reason}: {self.log.last_lines(1)}")
        return after

    def _write_down(self, before: State, after: State) -> None:
        """Log ``after``, if something has happened."""
        names = ("phase", "since", "drained", "stopped")
        if any(getattr(after, name) != getattr(before, name) for name in names):
            said = f"{after.phase}{', drained' if after.drained else ''}: {after.reason}"
            self.log.write(said.removesuffix(": "), _SEVERITY[after.phase])

    def _wait(self, drain: str, seconds: float) -> str:
        """The drain's key, at the latest after so many seconds; at once when it has changed."""
        until = self.clock.now() + seconds
        found = self.metadata.drain(seconds)
        left = until - self.clock.now()
        if found == drain and left > 0:
            self.clock.pause(left)
        return found


def read_fields(path: Path) -> dict[str, str]:
    """The settings that the startup script has read, by dotted key."""
    words = path.read_text(encoding="utf-8").split("\0")
    return dict(zip(words[0::2], words[1::2], strict=False))


def limits_of(fields: dict[str, str], began: float | None) -> Limits:
    """The limits by the boot's settings.

    Args:
        fields: them.
        began: when the run began; None where it is not known.
    """
    run, margin = int(fields["drain.run_s"]), int(fields["drain.margin_s"])
    ends = began + run if began is not None and run else None
    return Limits(
        drain_s=float(fields["drain.drain_s"]),
        start_s=float(fields["timeouts.ready_s"]),
        drains_at=None if ends is None else ends - margin,
        ends_at=ends,
    )


def main() -> int:
    """See above."""
    state, log, metadata_url, logging_url, server_url, certificate, reports = sys.argv[1:]
    directory = Path(state)
    lock = (directory / "watch.lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    lock.seek(0)
    anew = bool(lock.read())  # the script empties it before it begins the first
    # By which the startup script ends it.
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    fields = read_fields(directory / "config.fields")
    began = (directory / "run.began").read_text(encoding="ascii").strip()
    clock = Clock(environment("TPUFLEX_SLEEP"))
    metadata = Metadata(metadata_url, directory / "asked", int(reports), clock.machine)
    docker = Docker(fields["container.name"])
    key = directory / "memory" / "secrets" / "host-key"
    Watch(
        clock=clock,
        metadata=metadata,
        server=ModelServer(server_url, certificate, key, fields["serving.model_name"]),
        docker=docker,
        log=Log(directory, Path(log), logging_url, metadata.token, docker.log),
        closed=directory / "guard" / "closed",
        limits=limits_of(fields, float(began) if began else None),
        anew=anew,
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
