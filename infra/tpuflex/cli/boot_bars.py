"""Where the time of a boot went, as bars for the terminal: chips are billed while it lasts."""

from __future__ import annotations

from typing import NamedTuple

from tpuflex.operate.host import PHASES, READY, HostReport

#: Columns of the longest bar: with names and seconds it fits 80 columns beside a fact's name.
_WIDEST = 32


class PhaseTime(NamedTuple):
    """How long a boot was in a phase.

    Attributes:
        name: the phase.
        seconds: how long it took, or has taken until now.
        ended: whether it is over.
    """

    name: str
    seconds: float
    ended: bool


def phase_times(report: HostReport, now: float) -> tuple[PhaseTime, ...]:
    """The phases of a boot in the order in which they began; READY, which has no length, is none.

    Args:
        report: the host's own account. A name in it that is not one of our phases is left out:
            whoever is root on the host writes it.
        now: seconds since the epoch, for the phase that goes on. Of a boot that failed there is
            none: when the last one ended is not known.
    """
    ended = report.seconds_by_phase()
    times = [PhaseTime(name, seconds, ended=True) for name, seconds in ended.items()]
    # The last one that began has no end yet.
    times += [
        PhaseTime(name, max(0.0, now - at), ended=False)
        for name, at in report.timeline.items()
        if name not in ended and not report.error
    ]
    return tuple(time for time in times if time.name in PHASES and time.name != READY)


def boot_bars(report: HostReport | None, now: float, *, plain: bool) -> str:
    """A line for each phase of a boot, and one for all of it; empty before the second phase.

    Args:
        report: the host's own account; None before its first.
        now: seconds since the epoch.
        plain: whether to use ASCII characters only.
    """
    times = phase_times(report, now) if report is not None else ()
    if not any(time.ended for time in times):
        return ""
    longest = max(time.seconds for time in times) or 1.0
    lines = [_line(time, round(_WIDEST * time.seconds / longest), plain=plain) for time in times]
    total = sum(time.seconds for time in times)
    return "\n".join([*lines, f"{'together':<10} {total:7.1f} s"])


def _line(time: PhaseTime, cells: int, *, plain: bool) -> str:
    full, open_ = ("#", ">") if plain else ("█", "▒")
    drawn = [(full if time.ended else open_) * cells, "" if time.ended else "so far"]
    return f"{time.name:<10} {time.seconds:7.1f} s  {' '.join(filter(None, drawn))}".rstrip()
