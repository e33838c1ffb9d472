"""Watch over a host that serves: close it when it is drained, start a frozen server once more, boot
again when somebody asks for a restart, and say where it stands in the guest attribute
``tpuflex/serving`` (docs/serving.md). Once a minute it writes to Cloud Monitoring what its server
counts.

Run by the startup script once the host is READY: ``watch.py STATE BOOT-LOG METADATA LOGGING
MONITORING SERVER CERTIFICATE REPORTS``, with ``routes.py``, ``boot_log.py``, ``series.py`` and
``watch_*.py`` beside it. It outlives the script, there is one of it on a host, and it ends when it
is told to. STATE has the settings of the boot, ``config.fields``. TPUFLEX_SLEEP is a command to run
instead of sleeping.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boot_log import place_of
from watch_host import Asked, Clock, Docker, Metadata, environment
from watch_log import Log
from watch_metrics import Monitoring
from watch_rules import begin, begin_anew, has_to_complete, is_due, report, step
from watch_server import ModelServer
from watch_state import (
    CLOSE,
    DEGRADED,
    DRAINING,
    FAILED,
    OPEN,
    PACE,
    RERUN,
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
        monitoring: where its metrics are written.
        closed: while this file is there, the guard admits nothing.
        known: the key ``tpuflex-restart`` as the boot has found it, which asks for nothing more.
        limits: what is known from the start.
        anew: whether a watch of this boot has died before.
    """

    clock: Clock
    metadata: Metadata
    server: ModelServer
    docker: Docker
    log: Log
    monitoring: Monitoring
    closed: Path
    known: str
    limits: Limits
    anew: bool = False

    def run(self) -> None:
        """Watch until somebody asks for a restart, and nothing is in flight any more."""
        state = (begin_anew if self.anew else begin)(self.clock.now())
        told = None
        # A watch that ended in a drain has left it closed: the first look says what holds.
        admit: tuple[str, ...] = (OPEN,)
        asked = self.metadata.asked_for()
        container = Container("running")
        while True:
            container = self.docker.container() or container
            look = self._look(state, asked, container)
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
            if RERUN in actions:
                return
            self.monitoring.write(look, self.limits, self.server.metrics)
            asked = self._wait(asked, PACE[state.phase])

    def _look(self, state: State, asked: Asked, container: Container) -> Look:
        """What there is to see. A failed server is left alone."""
        runs = container.status == "running" and state.phase != FAILED
        server = self.server.look() if runs else None
        completed = None
        restart = asked.restart if asked.restart != self.known else ""
        may_ask = server is not None and not asked.drain and not restart
        if may_ask and has_to_complete(state, self.clock.now()):
            completed = self.server.completes()
        ahead = self.metadata.ahead
        now = self.clock.now()
        return Look(now, asked.drain, container, server, completed, ahead, restart)

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

    def _wait(self, asked: Asked, seconds: float) -> Asked:
        """The keys, at the latest after so many seconds; at once when one has changed."""
        until = self.clock.now() + seconds
        found = self.metadata.asked_for(seconds)
        left = until - self.clock.now()
        if found == asked and left > 0:
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


def boot_again(directory: Path) -> None:
    """Run the startup script of this boot once more, which has left itself in ``directory``: it
    keeps what is right on the disk, reads the secrets again, and says how far it is. It begins a
    watch of its own."""
    subprocess.run(
        ["bash", str(directory / "startup-script")],
        env={**os.environ, "TPUFLEX_RESTART": "1"},
        stdin=subprocess.DEVNULL,
        # It writes its own log.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


def main() -> int:
    """See above."""
    state, log, metadata_url, logging_url, monitoring_url, server_url, certificate, reports = (
        sys.argv[1:]
    )
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
    written = Log(directory, Path(log), logging_url, metadata.token, docker.log)
    place = place_of(directory)
    Watch(
        clock=clock,
        metadata=metadata,
        server=ModelServer(server_url, certificate, key, fields["serving.model_name"]),
        docker=docker,
        log=written,
        monitoring=Monitoring(
            f"{monitoring_url}/projects/{place['project_id']}/timeSeries",
            place,
            float(fields["monitoring.every_s"]),
            metadata.token,
            written.write,
        ),
        closed=directory / "guard" / "closed",
        known=(directory / "restart.known").read_text(encoding="utf-8").strip(),
        limits=limits_of(fields, float(began) if began else None),
        anew=anew,
    ).run()
    lock.close()
    boot_again(directory)
    # Whether the boot has gone well is in its report: as a service, this one has not failed.
    return 0


if __name__ == "__main__":
    sys.exit(main())
