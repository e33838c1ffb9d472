"""Where the time of a boot went, as bars for the terminal: chips are billed while it lasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tpuflex.host.report import AT_ONCE, PHASES, READY, HostReport, wall_seconds

#: Columns of the longest bar: with names and seconds it fits 80 columns beside a fact's name.
_WIDEST = 32
#: Name of the line for all phases.
TOGETHER = "together"


class PhaseTime(NamedTuple):
    """How long a boot was in a phase.

    Attributes:
        name: the phase.
        seconds: how long it took, or has taken until now.
        ended: whether it is over.
        beside: the phase that went on at once with it, and was named before; empty for none.
    """

    name: str
    seconds: float
    ended: bool
    beside: str = ""


def phase_times(report: HostReport, now: float) -> tuple[PhaseTime, ...]:
    """The phases of a boot in the order in which they began; READY, which has no length, is none.

    Args:
        report: the host's own account. A name in it that is not one of our phases is left out:
            whoever is root on the host writes it.
        now: seconds since the epoch, for what goes on. Of a boot that failed there is none: when
            the last one ended is not known.
    """
    ended = report.seconds_by_phase()
    # What has no end yet goes on.
    going = {
        name: max(0.0, now - at)
        for name, at in report.timeline.items()
        if name not in ended and not report.error
    }
    known = {**ended, **going}
    names = [name for name in PHASES if name in known and name != READY]
    names.sort(key=lambda name: report.timeline[name])
    return with_beside([PhaseTime(name, known[name], name in ended) for name in names])


def with_beside(times: Sequence[PhaseTime]) -> tuple[PhaseTime, ...]:
    """``times``; of image and weights, which go on at once, the second names the first."""
    first, second = AT_ONCE
    both = any(time.name == first for time in times)
    return tuple(
        time._replace(beside=first) if both and time.name == second else time for time in times
    )


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
    return "\n".join(phase_bars(times, plain=plain))


def phase_bars(
    times: Sequence[PhaseTime], *, plain: bool, medians: Mapping[str, float] | None = None
) -> list[str]:
    """A line for each phase, and one for all of them.

    Args:
        times: the phases, at least one.
        plain: whether to use ASCII characters only.
        medians: seconds to show beside each phase, and beside ``together``; none without.
    """
    longest = max(time.seconds for time in times) or 1.0
    full, open_ = ("#", ">") if plain else ("█", "▒")
    lines = []
    for time in times:
        bar = (full if time.ended else open_) * round(_WIDEST * time.seconds / longest)
        drawn = [
            bar,
            "" if time.ended else "so far",
            f"beside {time.beside}" if time.beside else "",
        ]
        lines.append(_line(time.name, time.seconds, medians, " ".join(filter(None, drawn))))
    total = wall_seconds({time.name: time.seconds for time in times})
    return [*lines, _line(TOGETHER, total, medians, "")]


def _line(name: str, seconds: float, medians: Mapping[str, float] | None, drawn: str) -> str:
    beside = ""
    if medians is not None:
        beside = f"{medians[name]:10.1f} s" if name in medians else " " * 12
    return f"{name:<10} {seconds:7.1f} s{beside}  {drawn}".rstrip()
