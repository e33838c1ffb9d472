"""The steps of `tpuflex logs --boots`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError
from tpuflex.google.cloud_logging import LOG, RETENTION_DAYS, boot_entries
from tpuflex.operate.boots import Boot, Outcome, median_seconds, median_total, recent_boots
from tpuflex.terminal.boot_bars import TOGETHER, PhaseTime, phase_bars, with_beside

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection

_HEADER = ("run", "host", "last word (UTC)", "took", "beside median", "outcome")
#: Letters of the reason in a row of the table.
_REASON = 60


def run_boots(invocation: Invocation, cloud: Connection, last: int) -> None:
    """Print the newest ``last`` boots of the stack's hosts.

    Raises:
        NotFoundError: Cloud Logging has none.
        AccessError, ApiError: it cannot be read.
    """
    stack, output = cloud.stack, invocation.output
    entries = boot_entries(cloud.logging, stack.settings.project, stack.names, newest_first=True)
    boots = recent_boots(entries, last)
    if not boots:
        raise NotFoundError(
            f"Cloud Logging has no boot of a host of stack {stack.name}.",
            hint=f"A host writes there while it boots, which is kept for {RETENTION_DAYS} days:"
            " `tpuflex up` brings one up, `tpuflex status` shows what there is.",
        )
    medians, total = median_seconds(boots), median_total(boots)
    output.table(_HEADER, [_row(boot, total) for boot in boots])
    _show_newest(invocation, boots)
    output.document(
        {
            "source": f"projects/{stack.settings.project}/logs/{LOG}",
            "boots": [boot.to_json() for boot in boots],
            "median_seconds": medians,
            "median_total_seconds": total,
        }
    )


def _row(boot: Boot, median: float | None) -> tuple[str, ...]:
    served = boot.outcome is Outcome.SERVED and bool(boot.seconds)
    return (
        f"g{boot.generation}" if boot.generation else "",
        f"{boot.node} {boot.worker}",
        datetime.fromisoformat(boot.time).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        f"{boot.total:.1f} s" if boot.seconds else "",
        f"{boot.total - median:+.1f} s" if served and median is not None else "",
        _outcome(boot),
    )


def _outcome(boot: Boot) -> str:
    if boot.outcome is Outcome.SERVED:
        return boot.outcome.value
    said = f"{boot.outcome.value}, in {boot.phase or 'its first phase'}"
    reason = (boot.reason.splitlines() or [""])[0]
    return f"{said}: {reason[:_REASON]}" if reason else said


def _show_newest(invocation: Invocation, boots: Sequence[Boot]) -> None:
    """The phases of the newest boot that has any, beside what they take otherwise."""
    newest = next((boot for boot in boots if boot.seconds), None)
    if newest is None:
        return
    output = invocation.output
    total = median_total(boots)
    medians = median_seconds(boots) if total is not None else None
    if medians is not None and total is not None:
        medians[TOGETHER] = total
    served = sum(boot.outcome is Outcome.SERVED and bool(boot.seconds) for boot in boots)
    beside = f", beside the median of {served}" if medians else ""
    output.result()
    output.heading(f"Phases of {newest.node}{beside}")
    phases = [PhaseTime(phase, seconds, ended=True) for phase, seconds in newest.seconds.items()]
    times = with_beside(phases)
    for line in phase_bars(times, plain=output.ascii_only, medians=medians):
        output.result(f"  {line}")
