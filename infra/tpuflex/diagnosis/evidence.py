"""What was read of an endpoint, before anything is concluded from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tpuflex.diagnosis.signs import Line, says_started_again
from tpuflex.host.serving import ServingPhase
from tpuflex.queued_resource.outcomes import Condition

if TYPE_CHECKING:
    from tpuflex.doctor.check import Check
    from tpuflex.errors import TpuflexError
    from tpuflex.host.serving import Serving
    from tpuflex.operate.endpoint_events import UnreadSource
    from tpuflex.operate.health import Health
    from tpuflex.operate.slice import SliceStatus


@dataclass(frozen=True, slots=True)
class Limits:
    """What the stack file says that a diagnosis depends on.

    Attributes:
        first_report: how long a host may take until its first report.
        ready: how long it may take until it has served a completion.
        secure_boot: whether the hosts boot with Secure Boot.
        project: the Google Cloud project.
    """

    first_report: timedelta = timedelta(minutes=10)
    ready: timedelta = timedelta(hours=1)
    secure_boot: bool = False
    project: str = "PROJECT"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was read of an endpoint.

    Attributes:
        slice: its slice; None where there is none, or it could not be read.
        at: when that was read, on the cloud's clock; None without a slice.
        limits: what the stack file says.
        refusal: why the slice could not be read.
        lines: of the logs of host and server.
        boot_error: why the last boot of a host that is gone failed; or empty.
        health: whether the server answers; None where it was not asked.
        stalled: what the metrics say of an engine that makes no step; or empty.
        deleted: who deleted the slice that the state of the stack still has; empty for nobody.
        refused: what Google refused of the last changes.
        checks: those of the doctor that failed, and warnings of what Google may refuse.
        looked_at: the sources that were read.
        unread: those that could not be.
    """

    slice: SliceStatus | None = None
    at: datetime | None = None
    limits: Limits = Limits()
    refusal: TpuflexError | None = None
    lines: tuple[Line, ...] = ()
    boot_error: str = ""
    health: Health | None = None
    stalled: str = ""
    deleted: tuple[Line, ...] = ()
    refused: tuple[Line, ...] = ()
    checks: tuple[Check, ...] = ()
    looked_at: tuple[str, ...] = ()
    unread: tuple[UnreadSource, ...] = ()

    @property
    def serving(self) -> Serving | None:
        """What the host's watch says of its server; None of a host that is not READY."""
        seen = self.slice
        host = seen.host if seen is not None and seen.condition is Condition.ACTIVE else None
        return host.serving if host is not None and host.ready else None

    @property
    def is_silent(self) -> bool:
        """Whether the host's watch, which writes every minute or so, has stopped writing."""
        serving = self.serving
        return serving is not None and self.at is not None and serving.is_old(self.at.timestamp())

    @property
    def is_recovering(self) -> bool:
        """Whether a server that was READY is being started again, as its host has said lately."""
        serving = self.serving
        if serving is None or serving.phase is not ServingPhase.DEGRADED:
            return False
        return not self.is_silent and says_started_again(serving.reason)
