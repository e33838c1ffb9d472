"""How `tpuflex logs` shows a host's log, and how long boots took."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tpuflex.operate.boots import Boot, Boots, Outcome, boots_of
from tpuflex.operate.host_log import Part, logs
from tpuflex.terminal.boot_bars import TOGETHER, PhaseTime, phase_bars, with_beside

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output

_HEADER = ("run", "host", "last word (UTC)", "took", "beside median", "outcome")
#: Letters of the reason in a row of the table.
_REASON = 60


def run_logs(
    invocation: Invocation, cloud: Connection, part: Part, *, follow: bool, kept: bool = False
) -> None:
    """Print the log of the stack's host.

    Raises:
        SystemExit: with gcloud's exit code, when that is not 0.
    """
    output = invocation.output
    log = logs(cloud, part, output.verbatim, invocation.report, follow=follow, kept=kept)
    output.document(log.to_json())
    if log.exit_code:
        raise SystemExit(log.exit_code)


def run_boots(
    invocation: Invocation, cloud: Connection, last: int, since: datetime | None = None
) -> None:
    """Print the newest ``last`` boots of the stack's hosts."""
    output, boots = invocation.output, boots_of(cloud, last, since)
    output.table(_HEADER, [_row(boot, boots.median_total) for boot in boots.boots])
    _show_newest(output, boots)
    output.document(boots.to_json())


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


def _show_newest(output: Output, boots: Boots) -> None:
    """The phases of the newest boot that has any, beside what they take otherwise."""
    newest = next((boot for boot in boots.boots if boot.seconds), None)
    if newest is None:
        return
    total = boots.median_total
    medians = dict(boots.medians) if total is not None else None
    if medians is not None and total is not None:
        medians[TOGETHER] = total
    served = sum(boot.outcome is Outcome.SERVED and bool(boot.seconds) for boot in boots.boots)
    beside = f", beside the median of {served}" if medians else ""
    output.result()
    output.heading(f"Phases of {newest.node}{beside}")
    phases = [PhaseTime(phase, seconds, ended=True) for phase, seconds in newest.seconds.items()]
    times = with_beside(phases)
    for line in phase_bars(times, plain=output.ascii_only, medians=medians):
        output.verbatim(f"  {line}")
