"""The logs of a host, of its boot and its server: a file of the emulated host, what gcloud reads
over SSH, or what Cloud Logging keeps of a host that is gone, or cannot be reached.

Anyone with root on the host can write the log: nothing is decided by it.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from tpuflex.advice import Advice
from tpuflex.boot.config import CONTAINER_NAME
from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.gcloud_commands import HOST_LOG, host_log, server_log
from tpuflex.google.cloud_logging import LOG, RETENTION_DAYS, BootEntry, boot_entries, last_boot
from tpuflex.operate.endpoint_connection import (
    host_status,
    reconnecting,
    require_gcloud,
    tunnel_environment,
)
from tpuflex.queued_resource.snapshot import parse_time
from tpuflex.stack.emulator import Daemon
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: Seconds between two looks at a file that is followed.
_FILE_POLL_SECONDS = 0.5
#: Seconds between two lists of entries, of which a project may ask for 60 a minute
#: (https://cloud.google.com/logging/quotas).
_POLL_SECONDS = 5.0
#: An entry may come later than others that are newer.
_LATE = timedelta(minutes=1)
#: Lines of a log at most.
MOST_LINES = 100_000
#: Characters of one line at most, and of all that are kept before they are shown.
_LINE, _ALL = 32 * 2**10, 64 * 2**20
#: How uvicorn logs the questions of the host's watch (startup/watch_log.py), two in a few seconds:
#: of the lines of a server that is idle, most are these.
_LOOK = re.compile(r'"GET /(?:metrics|tpuflex/requests) HTTP')
_LOOKS = 10
#: How vLLM begins a line.
_SERVER_TIME = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d \d\d:\d\d:\d\d) ")
_HALF_A_YEAR = timedelta(days=180)
#: Takes a line of a log.
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What of a log is shown.

    Attributes:
        lines: the last so many.
        phase: only those of this phase of the boot, which Cloud Logging alone tells apart; empty
            for all.
        server: what the server wrote instead, without its lines about the looks of the watch.
        since: only what was written at this time or later.
    """

    lines: int
    phase: str = ""
    server: bool = False
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class HostLog:
    """A log, as far as it was there.

    Attributes:
        source: where it was read: a path, a command, or a log of Cloud Logging.
        lines: its last lines; empty of one that was followed over SSH.
        boot: whose boot that was, where Cloud Logging kept it; else None.
        server: the last lines that the server wrote, where Cloud Logging kept them beside others.
        exit_code: of gcloud, where it read the log; else 0.
    """

    source: str
    lines: tuple[str, ...]
    boot: BootEntry | None = None
    server: tuple[str, ...] = ()
    exit_code: int = 0

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex logs --json`` prints."""
        document: dict[str, object] = {"source": self.source, "lines": list(self.lines)}
        if self.boot is None:
            return document
        return {
            **document,
            "node": self.boot.node,
            "zone": self.boot.zone,
            "generation": self.boot.generation or None,
            "worker": self.boot.worker,
            "time": self.boot.time,
            "phase": self.boot.phase,
            "error": self.boot.error,
            "server": list(self.server),
        }


def logs(
    cloud: Connection,
    part: Part,
    show: Show,
    report: Report = silent,
    *,
    follow: bool = False,
    kept: bool = False,
) -> HostLog:
    """Read the last lines of the log of the stack's host, and with ``follow`` what comes.

    A connection that breaks off then is made again, and shows the last lines again. Of a host that
    is gone, and with ``kept`` of every one, the boot log is read that Cloud Logging keeps; so are
    parts of it.

    Args:
        cloud: the stack's cloud.
        part: what of the log.
        show: takes the log's lines, as they come.
        report: is told what is read, and what a host says beside its log.
        follow: go on with what is written from now on, without end.
        kept: read Cloud Logging, also if the host is there.

    Raises:
        NotFoundError: there is no host, no log, or no such part of it.
        AccessError, ApiError: it cannot be read.
        TpuflexError: there is no gcloud.
    """
    if kept or part.phase:
        return _kept_log(cloud, part, show, report, follow=follow)
    try:
        node = host_status(cloud).node
    except NotFoundError as absent:
        return _kept_log(cloud, part, show, report, absent=absent)
    if not cloud.stack.embedded:
        return _over_ssh(cloud, node, part, show, report, follow=follow)
    path = _emulated_server_log(cloud, node) if part.server else emulated_log(cloud, node)
    if path is None:
        return _kept_log(cloud, part, show, report, absent=_not_running(node))
    return _file(cloud, path, part, show, follow=follow)


class _Wanted:
    """Which lines of a log are shown: asked for one after the other.

    Args:
        part: what of the log.
        zone: of the times that a server writes.
    """

    def __init__(self, part: Part, zone: tzinfo | None = UTC) -> None:
        self._server, self._zone = part.server, zone
        self._since = part.since

    def __call__(self, line: str) -> bool:
        if self._server and _LOOK.search(line):
            return False
        if self._since is not None:
            time = self._server_time(line, self._since) if self._server else _script_time(line)
            if time is None or time < self._since:
                return False
            self._since = None  # what follows is later, and not every line has a time
        return True

    def _server_time(self, line: str, since: datetime) -> datetime | None:
        """When vLLM wrote a line; it leaves out the year, that of ``since`` or the next."""
        found = _SERVER_TIME.search(line)
        if found is None:
            return None
        with suppress(ValueError):
            year = since.astimezone(self._zone).year
            time = datetime.fromisoformat(f"{year}-{found[1]}").replace(tzinfo=self._zone)
            time = time.astimezone()  # one without a zone has this machine's
            return time.replace(year=year + 1) if since - time > _HALF_A_YEAR else time
        return None


def _script_time(line: str) -> datetime | None:
    """When the startup script or the watch wrote a line."""
    return parse_time(line.partition(" ")[0])


def _over_ssh(
    cloud: Connection, node: str, part: Part, show: Show, report: Report, *, follow: bool
) -> HostLog:
    if part.server:
        since = "" if part.since is None else part.since.astimezone(UTC).isoformat()
        lines = part.lines if follow else min(MOST_LINES, _LOOKS * part.lines)
        command = server_log(node, CONTAINER_NAME, lines=lines, since=since, follow=follow)
    else:
        command = host_log(node, lines=part.lines, follow=follow)
    words = require_gcloud(command, cloud.environ)
    report(f"$ {command}")
    last: list[str] = []

    def pass_on(stream: TextIO) -> None:
        # The host speaks there, too: its banner, and what sshd says.
        for line in bounded_lines(stream):
            report(line)

    def read() -> int:
        # Docker knows when each line of a server was written.
        wanted = _Wanted(replace(part, since=None) if part.server else part)
        with subprocess.Popen(
            words,
            env=tunnel_environment(cloud),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            said = threading.Thread(target=pass_on, args=(process.stderr,), daemon=True)
            said.start()
            lines = filter(wanted, bounded_lines(cast("TextIO", process.stdout)))
            if follow:
                for line in lines:
                    show(line)
            else:
                last.extend(_last(lines, part.lines))
            said.join()
        return process.returncode

    code = reconnecting(read, cloud, report) if follow else read()
    for line in last:
        show(line)
    return HostLog(str(command), tuple(last), exit_code=code)


def _file(cloud: Connection, path: Path, part: Part, show: Show, *, follow: bool) -> HostLog:
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise NotFoundError(
            f"The {'server' if part.server else 'host'} has written no log yet: {path} does not"
            " exist.",
            hint="Type the command again in a moment.",
        ) from error
    wanted = _Wanted(part, zone=None)  # an emulated host has this machine's time
    with file:
        last = _last(filter(wanted, bounded_lines(file)), part.lines)
        for line in last:
            show(line)
        if follow:
            for line in bounded_lines(file, lambda: cloud.sleep(_FILE_POLL_SECONDS)):
                if wanted(line):
                    show(line)
    return HostLog(str(path), last)


def emulated_log(cloud: Connection, node: str) -> Path | None:
    """The log of the first emulated host of ``node`` (full name): its file :data:`HOST_LOG`, or its
    serial log before that is there. None if no host runs, or one that writes no log."""
    first = emulated_host(cloud, node)
    if first is None:
        return None
    # The watch, which outlives the startup script, writes to the first one alone.
    log = Path(first["root"]) / HOST_LOG.lstrip("/")
    return log if log.exists() else Path(first["serial_log"])


def _emulated_server_log(cloud: Connection, node: str) -> Path | None:
    host = emulated_host(cloud, node)
    return None if host is None else Path(host["container_logs"]) / f"{CONTAINER_NAME}.log"


def emulated_host(cloud: Connection, node: str) -> dict[str, Any] | None:
    """The first emulated host of ``node`` (full name); None if none runs."""
    hosts = Daemon(cloud.stack.project.home).call("GET", "hosts")["hosts"]
    logged = [host for host in hosts if host["node"] == node and "serial_log" in host]
    return min(logged, key=lambda host: int(host["worker"]), default=None)


def _not_running(node: str) -> NotFoundError:
    return NotFoundError(
        f"No host of {node} runs, or it writes no log.",
        hint=Advice("`{status}` shows its state."),
    )


def bounded_lines(file: TextIO, pause: Callable[[], None] | None = None) -> Iterator[str]:
    """Lines of ``file`` from where it stands, to its end: of one that is too long the begin, with a
    mark. A host may write one without end.

    Args:
        file: the file, open for reading.
        pause: waits at the end until it is worth looking again, for whole lines without end; what
            it raises ends the reading.
    """
    begun = ""
    while True:
        piece = file.readline(_LINE)
        begun = (begun + piece)[: _LINE + 1]  # one more, by which it is known to be too long
        if piece.endswith("\n") or (begun and not piece and pause is None):
            line = begun.rstrip("\n")
            yield line if len(line) <= _LINE else f"{line[:_LINE]} [the line goes on]"
            begun = ""
        elif not piece:
            if pause is None:
                return
            pause()


def _last(lines: Iterable[str], count: int) -> tuple[str, ...]:
    """The last ``count`` lines; where they are too much together, fewer, and a word about it."""
    last: deque[str] = deque()
    size, dropped = 0, False
    for line in lines:
        last.append(line)
        size += len(line)
        while len(last) > count or size > _ALL:
            size -= len(last.popleft())
            dropped = True
    if dropped and len(last) < count:
        last.appendleft("[earlier lines are left out: they are too long]")
    return tuple(last)


def _kept_log(
    cloud: Connection,
    part: Part,
    show: Show,
    report: Report,
    *,
    absent: NotFoundError | None = None,
    follow: bool = False,
) -> HostLog:
    """What Cloud Logging has of the last boot of the stack's hosts; ``absent`` says why the log is
    not read on the host itself, if that was wanted.

    Raises:
        NotFoundError: there is none, or no such part of it.
        AccessError, ApiError: it cannot be read, and ``absent`` is None.
    """
    stack = cloud.stack
    absent_message = f"{absent.message} " if absent else ""
    absent_hint = absent.hint if absent else ""

    def told(left_out: str) -> None:
        report(f"Of the boot log, {left_out}.")

    try:
        entries = last_boot(cloud.logging, stack.settings.project, stack.names, told)
    except (AccessError, ApiError) as error:
        if absent is None:
            raise
        raise NotFoundError(
            f"{absent_message}The end of its boot log cannot be read: {error.message}",
            hint=Advice.lines(error.hint, absent_hint),
        ) from error
    if not entries:
        of = "it" if absent else f"stack {stack.name}"
        raise NotFoundError(
            f"{absent_message}Cloud Logging has no boot log of {of}.",
            hint=absent_hint
            or Advice(
                "A host writes one when it boots, which is kept for"
                " {days} days: `{status}` shows how far it has come.",
                days=RETENTION_DAYS,
            ),
        ) from absent
    if absent:
        report(absent.message)
    shown = _shown(cloud, part, entries, show, report)
    if follow:
        for entry in _followed(cloud, entries):
            for line in filter(_Wanted(part), _lines(part, (entry,))):
                show(line)
    return shown


def _shown(
    cloud: Connection,
    part: Part,
    entries: tuple[BootEntry, ...],
    show: Show,
    report: Report,
) -> HostLog:
    end = entries[-1]
    why = f": {end.error}" if end.error else ""
    report(
        f"The end of the boot log of {end.node} in {end.zone}, {end.time}, phase"
        f" {end.phase or 'unknown'}{why}"
    )
    if part.phase and not any(entry.phase == part.phase for entry in entries):
        reached = dict.fromkeys(entry.phase for entry in entries if entry.phase)
        raise NotFoundError(
            f"The boot log of {end.node} has no phase {part.phase}.",
            hint=f"It has: {', '.join(reached)}.",
        )
    if part.server and not end.container:
        raise NotFoundError(
            f"Cloud Logging has nothing that the server of {end.node} wrote.",
            hint=Advice("A host writes it when its boot ends: `{logs}` shows the rest."),
        )
    script = () if part.server else _wanted(part, _lines(part, entries))
    server = () if part.phase else _wanted(replace(part, server=True), end.container)
    for line in script:
        show(line)
    if server and not part.server:
        report("The end of what the server wrote:")
    for line in server:
        show(line)
    source = f"projects/{cloud.stack.settings.project}/logs/{LOG}"
    return HostLog(source, script, end, server)


def _wanted(part: Part, lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(deque(filter(_Wanted(part), lines), maxlen=part.lines))


def _lines(part: Part, entries: Iterable[BootEntry]) -> tuple[str, ...]:
    """The lines of ``part`` in entries, one after the other."""
    if part.server:
        return tuple(line for entry in entries for line in entry.container)
    wanted = (entry for entry in entries if part.phase in ("", entry.phase))
    return tuple(line for entry in wanted for line in entry.lines)


def _followed(cloud: Connection, shown: tuple[BootEntry, ...]) -> Iterator[BootEntry]:
    """Entries that are written after ``shown``, of this boot and the next ones, without end."""
    stack = cloud.stack
    return new_entries(
        lambda since: boot_entries(cloud.logging, stack.settings.project, stack.names, since=since),
        shown,
        lambda: cloud.sleep(_POLL_SECONDS),
    )


def new_entries(
    read: Callable[[datetime], Iterable[BootEntry]],
    shown: tuple[BootEntry, ...],
    pause: Callable[[], None],
) -> Iterator[BootEntry]:
    """Entries that are not among ``shown``, each once, without end; of one that is written again
    with the same id, the lines that have been added.

    Args:
        read: the entries of a time or later.
        shown: those that are known, at least one; the last one says from when on to ask.
        pause: waits until it is worth asking again; what it raises ends it.
    """
    known = {(entry.time, entry.id) for entry in shown}
    lines = {entry.id: len(entry.lines) for entry in shown if entry.id}
    newest = datetime.fromisoformat(shown[-1].time)
    begin = newest
    while True:
        pause()
        for entry in read(max(begin, newest - _LATE)):
            if (entry.time, entry.id) not in known:
                known.add((entry.time, entry.id))
                newest = max(newest, datetime.fromisoformat(entry.time))
                yield replace(entry, lines=entry.lines[lines.get(entry.id, 0) :])
                lines |= {entry.id: len(entry.lines)} if entry.id else {}
