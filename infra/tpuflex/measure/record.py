"""Recording: a snapshot of a running server every minute, into an archive, until Ctrl-C."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.duration import format_roughly
from tpuflex.errors import (
    ApiError,
    InterruptedByUser,
    NotFoundError,
    TpuflexError,
    UsageError,
)
from tpuflex.measure.archive import INTERVAL, Origin, Snapshot, writing
from tpuflex.measure.server import KeptServer, ServerClient
from tpuflex.naming import digest
from tpuflex.operate.endpoint_connection import serving_slice
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import memory_request
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.google.timing import Timing
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection

#: Seconds after which what was taken is written.
_WRITTEN_AFTER = 60.0
_URL = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded.

    Attributes:
        stack: the stack.
        directory: the archive.
        snapshots: looks that were answered.
        unanswered: looks that were not.
    """

    stack: str
    directory: Path
    snapshots: int = 0
    unanswered: int = 0

    def with_look(self, look: Snapshot) -> Recorded:
        """This and one more look."""
        if look.metrics is None:
            return replace(self, unanswered=self.unanswered + 1)
        return replace(self, snapshots=self.snapshots + 1)

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex metrics record --json``."""
        return {
            "stack": self.stack,
            "directory": str(self.directory),
            "snapshots": self.snapshots,
            "unanswered": self.unanswered,
        }


def record(
    cloud: Connection,
    directory: Path,
    report: Report = silent,
    *,
    interval: int = INTERVAL,
    tunnel: bool = True,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Recorded:
    """Keep snapshots of the server of the stack of ``cloud``, until Ctrl-C.

    A server that does not answer is no end: its snapshot says so. All that was taken is written in
    the end; what ends the process otherwise loses the last minute.

    Args:
        cloud: the stack's cloud.
        directory: the archive; made if it is not there.
        report: receives that it begins, that the server does not answer, and that it answers again.
        interval: seconds between two snapshots.
        tunnel: whether a tunnel may be opened.
        now: the time. That of an embedded cloud ends with it.

    Raises:
        UsageError: ``directory`` is a file.
        ConflictError: another process records the stack there.
        InterruptedByUser: Ctrl-C before the first snapshot.
        TpuflexError: there is no pyarrow; or at the first look, no right to the endpoint or no way
            to it.
    """
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a directory for the archive.", option="DIR")
    name, timing = cloud.stack.name, cloud.timing
    recorded = Recorded(name, directory)
    with (
        writing(directory, name) as writer,
        _Observer(cloud, report, interval, tunnel, now) as observer,
    ):
        report(f"Recording stack {name} in {directory}, every {interval} s, until Ctrl-C.")
        written = timing.monotonic()
        try:
            for _ in _ticks(timing, interval):
                look = observer.look()
                writer.add(look)
                recorded = recorded.with_look(look)
                if timing.monotonic() - written >= _WRITTEN_AFTER:
                    writer.flush()
                    written = timing.monotonic()
        except KeyboardInterrupt:
            if recorded == Recorded(name, directory):
                words = f"Stopped before the first snapshot: nothing was recorded in {directory}."
                raise InterruptedByUser(words) from None
    return recorded


def _ticks(timing: Timing, interval: int) -> Iterator[None]:
    """Now, and after each interval; those that pass meanwhile are left out."""
    began = timing.monotonic()
    number = 0
    while True:
        yield
        number = max(number + 1, math.ceil((timing.monotonic() - began) / interval))
        if timing.pause(max(0.0, began + number * interval - timing.monotonic())):
            return


class _Observer:
    """Looks at the server of a stack."""

    def __init__(
        self,
        cloud: Connection,
        report: Report,
        interval: int,
        tunnel: bool,
        now: Callable[[], datetime],
    ) -> None:
        self._cloud, self._report, self._now = cloud, report, now
        settings = cloud.stack.settings
        request = memory_request(settings)
        self._of_stack = Origin(
            stack=cloud.stack.name,
            cloud=settings.cloud,
            accelerator=settings.slice.accelerator_type,
            model=settings.model.name,
            settings_hash=digest(settings.model_dump_json(include={"slice", "model", "serving"})),
            max_num_seqs=None if isinstance(request, NotPlannable) else request.max_num_seqs,
            interval=interval,
        )
        self._origin = self._of_stack
        self._server = KeptServer(
            cloud, report, tunnel=tunnel, read_slice=self._slice, opened=self._opened
        )
        self._silent_since: datetime | None = None
        self._looked = False

    def __enter__(self) -> _Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def look(self) -> Snapshot:
        """What the server counts now, or why it does not say."""
        at = self._now()
        try:
            found = self._server.ask(self._snapshot)
        except TpuflexError as error:
            if not self._looked and not isinstance(error, NotFoundError | ApiError):
                raise
            found = self._unanswered(at, error)
        else:
            self._answered(at)
        self._looked = True
        return found

    def _snapshot(self, server: ServerClient) -> Snapshot:
        at = self._now()
        return Snapshot(at=at, origin=self._origin, metrics=replace(server.metrics(), at=at))

    def _slice(self) -> SliceStatus:
        self._origin = self._of_stack
        status = serving_slice(self._cloud)
        self._origin = replace(self._of_stack, slice=status.node, zone=status.zone)
        return status

    def _opened(self, server: ServerClient) -> None:
        served = {model.id: model.max_model_len for model in server.models()}
        self._origin = replace(
            self._origin, vllm=server.version(), max_model_len=served.get(server.model)
        )

    def _unanswered(self, at: datetime, error: TpuflexError) -> Snapshot:
        if self._silent_since is None:
            self._silent_since = at
            self._report(f"No snapshot at {at:%H:%M} UTC: {error.message} It is asked again.")
        # The port of a tunnel is another each time, and the reason the same.
        why = _URL.sub("the endpoint", error.message)
        return Snapshot(at=at, origin=self._origin, gap=why)

    def _answered(self, at: datetime) -> None:
        if self._silent_since is not None:
            length = format_roughly(at - self._silent_since)
            self._report(f"The endpoint answers again, after {length}.")
        self._silent_since = None
