"""The boot log that Cloud Logging keeps: of a host that is gone, or cannot be reached.

Whoever is root on the host writes the log: all of it is printed through `Output`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.google.cloud_logging import LOG, RETENTION_DAYS, BootEntry, boot_entries, last_boot
from tpuflex.terminal.output import for_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

#: Seconds between two lists of entries, of which a project may ask for 60 a minute
#: (https://cloud.google.com/logging/quotas).
_POLL_SECONDS = 5.0
#: An entry may come later than others that are newer.
_LATE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Part:
    """What of a log is shown.

    Attributes:
        lines: the last so many.
        phase: only those of this phase of the boot; empty for all.
        container: only what the server wrote.
    """

    lines: int
    phase: str = ""
    container: bool = False

    @property
    def kept_only(self) -> bool:
        """Whether no file on the host is this part."""
        return bool(self.phase) or self.container


def show_kept_log(
    invocation: Invocation,
    cloud: Connection,
    part: Part,
    *,
    absent: NotFoundError | None = None,
    follow: bool = False,
) -> None:
    """Print what Cloud Logging has of the last boot of the stack's hosts.

    Args:
        invocation: of the command.
        cloud: the stack's.
        part: what of it.
        absent: why the log is not read on the host itself; None if nobody wanted that.
        follow: go on with what is written from now on, without end.

    Raises:
        NotFoundError: there is none, or no such part of it; exit code 4.
        AccessError, ApiError: it cannot be read, and ``absent`` is None.
    """
    stack = cloud.stack
    absent_message = f"{absent.message} " if absent else ""
    absent_hint = absent.hint if absent else ""
    try:
        entries = last_boot(cloud.logging, stack.settings.project, stack.names)
    except (AccessError, ApiError) as error:
        if absent is None:
            raise
        raise NotFoundError(
            f"{absent_message}The end of its boot log cannot be read: {error.message}",
            hint="\n".join(filter(None, (error.hint, absent_hint))),
        ) from error
    if not entries:
        of = "it" if absent else f"stack {stack.name}"
        raise NotFoundError(
            f"{absent_message}Cloud Logging has no boot log of {of}.",
            hint=absent_hint
            or "A host writes one when it boots, which is kept for"
            f" {RETENTION_DAYS} days: `tpuflex status` shows how far it has come.",
        ) from absent
    if absent:
        invocation.output.progress(absent.message)
    _show(invocation, cloud, part, entries)
    if follow:
        for entry in _followed(cloud, entries):
            for line in _lines(part, (entry,)):
                invocation.output.result(line)


def _show(
    invocation: Invocation, cloud: Connection, part: Part, entries: tuple[BootEntry, ...]
) -> None:
    output, end = invocation.output, entries[-1]
    why = f": {end.error}" if end.error else ""
    output.progress(
        f"The end of the boot log of {end.node} in {end.zone}, {end.time}, phase"
        f" {end.phase or 'unknown'}{why}"
    )
    if part.phase and not any(entry.phase == part.phase for entry in entries):
        reached = dict.fromkeys(entry.phase for entry in entries if entry.phase)
        raise NotFoundError(
            f"The boot log of {end.node} has no phase {part.phase}.",
            hint=f"It has: {', '.join(reached)}.",
        )
    if part.container and not end.container:
        raise NotFoundError(
            f"Cloud Logging has nothing that the server of {end.node} wrote.",
            hint=for_stack(
                "A host writes it when its boot ends: `tpuflex logs` shows the rest.",
                cloud.stack.name,
            ),
        )
    script = () if part.container else _lines(part, entries)[-part.lines :]
    server = () if part.phase else end.container[-part.lines :]
    for line in script:
        output.result(line)
    if server and not part.container:
        output.progress("The end of what the server wrote:")
    for line in server:
        output.result(line)
    output.document(
        {
            "source": f"projects/{cloud.stack.settings.project}/logs/{LOG}",
            "node": end.node,
            "zone": end.zone,
            "generation": end.generation or None,
            "worker": end.worker,
            "time": end.time,
            "phase": end.phase,
            "error": end.error,
            "lines": list(script),
            "container": list(server),
        }
    )


def _lines(part: Part, entries: Iterable[BootEntry]) -> tuple[str, ...]:
    """The lines of ``part`` in entries, one after the other."""
    if part.container:
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
