"""The boots of an endpoint's hosts, from the entries of their logs in Cloud Logging.

Anyone with root on a host can write its entries: they are only shown, and nothing is decided by
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.advice import Advice
from tpuflex.errors import NotFoundError
from tpuflex.google.cloud_logging import LOG, RETENTION_DAYS, BootEntry, boot_entries
from tpuflex.host.report import PHASES, READY, REPORT, HostReport, host_report, wall_seconds

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection


class Outcome(StrEnum):
    """How a boot ended."""

    SERVED = "READY"
    FAILED = "failed"
    #: It goes on, or the host was lost.
    UNFINISHED = "no end"


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of one host.

    Attributes:
        node: id of the node.
        zone: its zone.
        generation: the run of the slice; 0 where it is not known.
        worker: number of the host in its slice.
        time: when it was heard of last, which for one that ended is its end (RFC 3339).
        phase: the phase it came to.
        outcome: how it ended.
        reason: why it failed, or empty.
        seconds: how long each phase took that has ended.
        timeline: when each phase began, in seconds since the epoch.
    """

    node: str
    zone: str
    generation: int
    worker: int
    time: str
    phase: str
    outcome: Outcome
    reason: str
    seconds: Mapping[str, float]
    timeline: Mapping[str, float]

    @property
    def total(self) -> float:
        """Seconds of all phases that have ended."""
        return round(wall_seconds(self.seconds), 1)

    def to_json(self) -> dict[str, object]:
        """The document under ``boots`` that ``tpuflex logs --boots --json`` prints."""
        return {
            "node": self.node,
            "zone": self.zone,
            "generation": self.generation or None,
            "worker": self.worker,
            "time": self.time,
            "phase": self.phase,
            "outcome": self.outcome.name.lower(),
            "error": self.reason,
            "boot_seconds": dict(self.seconds),
            "total_seconds": self.total,
        }


@dataclass(frozen=True, slots=True)
class Boots:
    """The newest boots of an endpoint's hosts.

    Attributes:
        source: the log that says so.
        boots: they, the newest first.
        medians: the median of each phase over those that served, in seconds; empty without any.
        median_total: the median of what those took; None without any.
    """

    source: str
    boots: tuple[Boot, ...]
    medians: Mapping[str, float]
    median_total: float | None

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex logs --boots --json`` prints."""
        return {
            "source": self.source,
            "boots": [boot.to_json() for boot in self.boots],
            "median_seconds": dict(self.medians),
            "median_total_seconds": self.median_total,
        }


def boots_of(cloud: Connection, last: int, since: datetime | None = None) -> Boots:
    """The newest ``last`` boots of the hosts of the stack of ``cloud``, with ``since`` those that
    were heard of then or later.

    Raises:
        NotFoundError: Cloud Logging has none.
        AccessError, ApiError: it cannot be read.
    """
    stack = cloud.stack
    entries = boot_entries(
        cloud.logging, stack.settings.project, stack.names, since=since, newest_first=True
    )
    boots = recent_boots(entries, last)
    if not boots:
        raise NotFoundError(
            f"Cloud Logging has no boot of a host of stack {stack.name}.",
            hint=Advice(
                "A host writes there while it boots, which is kept for {days} days:"
                " `{up}` brings one up, `{status}` shows what there is.",
                days=RETENTION_DAYS,
            ),
        )
    source = f"projects/{stack.settings.project}/logs/{LOG}"
    return Boots(source, boots, median_seconds(boots), median_total(boots))


def recent_boots(entries: Iterable[BootEntry], most: int) -> tuple[Boot, ...]:
    """The newest boots, the newest first.

    The newest entry of a boot says all of it, so that no more are read than are needed. A request
    writes its entries with one time, of which the last one counts, and whichever way time runs,
    Cloud Logging gives them in the order of their ids
    (https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list).

    Args:
        entries: of an endpoint's hosts, the newest first; those of one time in any order.
        most: how many boots.
    """
    newest: dict[tuple[str, str, int, str], BootEntry] = {}
    for entry in entries:
        key = (entry.node, entry.zone, entry.worker, entry.boot)
        if key not in newest and len(newest) == most:
            break
        known = newest.setdefault(key, entry)
        if entry.time == known.time and entry.id > known.id:
            newest[key] = entry
    return tuple(_boot(entry) for entry in newest.values())


def median_seconds(boots: Iterable[Boot]) -> dict[str, float]:
    """The median of each phase over the boots that served; empty without any."""
    served = [boot.seconds for boot in boots if boot.outcome is Outcome.SERVED]
    phases = (phase for phase in PHASES if any(phase in seconds for seconds in served))
    return {
        phase: round(median(each[phase] for each in served if phase in each), 1) for phase in phases
    }


def median_total(boots: Iterable[Boot]) -> float | None:
    """The median of what a boot that served took, in seconds; None without any that says."""
    totals = [boot.total for boot in boots if boot.outcome is Outcome.SERVED and boot.seconds]
    return round(median(totals), 1) if totals else None


def _boot(entry: BootEntry) -> Boot:
    fields = {
        "phase": entry.phase,
        "error": entry.error,
        "timeline": json.dumps(dict(entry.timeline)),
        "ended": json.dumps(dict(entry.ended)),
    }
    report = host_report({REPORT: json.dumps(fields)}) or HostReport()
    outcome = Outcome.SERVED if report.ready else Outcome.UNFINISHED
    return Boot(
        node=printable(entry.node),
        zone=printable(entry.zone),
        generation=entry.generation,
        worker=entry.worker,
        time=entry.time,
        phase=report.phase,
        outcome=Outcome.FAILED if report.error else outcome,
        reason=report.reason,
        seconds=_seconds(report, entry.time),
        timeline=report.timeline,
    )


def _seconds(report: HostReport, written: str) -> dict[str, float]:
    seconds = report.seconds_by_phase()
    began = report.timeline.get(report.phase)
    if report.error and began is not None and report.phase not in seconds:
        # The entry is written when the boot gives up.
        gone_on = datetime.fromisoformat(written).timestamp() - began
        seconds[report.phase] = round(max(0.0, gone_on), 1)
    return {phase: seconds[phase] for phase in PHASES if phase in seconds and phase != READY}
