"""What `tpuflex capacity` prints: what was served, its peaks, its price, other slices, advice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from tpuflex.measure.tally import FULL, QUANTILES
from tpuflex.planning.figure import SourceList
from tpuflex.terminal.money import dollars, money, show_sources

if TYPE_CHECKING:
    from tpuflex.measure.capacity import Capacity, SliceOption
    from tpuflex.measure.metrics import Histogram
    from tpuflex.measure.tally import Use
    from tpuflex.planning.figure import Figure
    from tpuflex.terminal.output import Output

#: Days and gaps that are shown, the newest; all of them with --json.
_DAYS, _GAPS = 14, 8
_DAY_HEADER = (
    *("DAY", "WATCHED", "COMPUTED", "CACHED", "GENERATED", "REQUESTS", "PEAK", "P95", "WAITED"),
)
_SLICE_HEADER = ("SLICE", "A DAY", "MORE", "CACHE", "AT PEAK", "BUSIEST", "HOLDS")


def show_capacity(output: Output, found: Capacity) -> None:
    """Show what the archive says."""
    output.document(found.to_json())
    origin, total, sources = found.origin, found.total, SourceList()
    on = "this machine" if origin.cloud == "embedded" else f"{origin.accelerator} in {origin.zone}"
    output.heading(f"Stack {origin.stack}: {origin.model} on {on}")
    span = (found.end - found.begin).total_seconds()
    output.result(
        f"{_moment(found.begin)} to {_moment(found.end)} UTC, watched {_length(total.watched)} of"
        f" {_length(span)}"
    )
    for other in found.other_slices:
        output.result(f"Not in these figures: {other}")
    output.result()
    days = [_day_row(day.isoformat(), use) for day, use in list(found.days.items())[-_DAYS:]]
    whole = [_day_row("all", total)] if len(found.days) > 1 else []
    output.table(_DAY_HEADER, [*days, *whole])
    output.result()
    output.facts(_facts(found, sources))
    if found.options:
        output.result()
        output.table(_SLICE_HEADER, [_slice_row(option, sources) for option in found.options])
        output.result(
            "AT PEAK: of its KV cache. BUSIEST: of what its chips compute at peak. HOLDS: up to"
            f" {FULL:.0%} of the cache. *: the one that was seen."
        )
    output.result()
    for sentence in found.advice:
        output.result(f"- {sentence}", hanging="  ")
    _show_gaps(output, found)
    show_sources(output, sources)


def _day_row(name: str, use: Use) -> tuple[str, ...]:
    return (
        name,
        _length(use.watched),
        *map(_count, (use.computed, use.cached, use.generated)),
        f"{use.requests:,.0f}",
        "-" if use.peak is None else str(use.peak),
        "-" if use.p95 is None else str(use.p95),
        _length(use.waited),
    )


def _count(tokens: float) -> str:
    """A number of tokens, to three digits or so."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.1f}{letter}"
    return f"{tokens:.0f}"


def _facts(found: Capacity, sources: SourceList) -> Iterator[tuple[str, str]]:
    total, peaks, origin = found.total, found.peaks, found.origin
    yield "first token", _quantiles(total.ttft)
    yield "inter-token", _quantiles(total.inter_token)
    most = "" if total.peak_at is None else f" at {_moment(total.peak_at)}"
    yield "at once", f"at most {_requests(total.peak or 0)}{most}, running and waiting"
    limit = "" if origin.max_num_seqs is None else f" of {origin.max_num_seqs:,} (max_num_seqs)"
    yield "running", f"at most {peaks.running:,}{limit}"
    yield "waited", f"{_length(total.waited)}; {_requests(total.preemptions)} put back"
    if peaks.kv_use is not None and peaks.kv_at is not None:
        tokens = ""
        if peaks.kv_tokens is not None:
            tokens = f", {peaks.kv_tokens:,} of {peaks.cache_tokens:,} tokens"
        yield "KV cache", f"at most {peaks.kv_use:.1%}{tokens}, at {_moment(peaks.kv_at)}"
        yield f"above {FULL:.0%}", _length(total.full)
    yield "computed", f"at most {_rate(peaks.computed, found.arithmetic, sources)}"
    yield "generated", f"at most {_rate(peaks.generated, found.decode, sources)}"
    if origin.cloud == "embedded":
        yield "paid", "nothing: it runs on this machine"
        return
    yield "paid", money(found.paid, sources)
    yield "per million", money(found.per_million, sources)
    yield "idle", money(found.idle, sources)


def _quantiles(histogram: Histogram | None) -> str:
    if histogram is None or not histogram.count:
        return "not known: nothing was counted"
    shown = (
        f"{name} {histogram.quantile_text(q, '{:.3g}'.format, '{:g}'.format)}"
        for name, q in QUANTILES.items()
    )
    return f"{', '.join(shown)} s (of {histogram.count:,.0f})"


def _rate(rate: float, ceiling: Figure, sources: SourceList) -> str:
    words = f"{rate:,.0f} tokens/s"
    if not ceiling.value:
        return words
    references = sources.references(ceiling.sources)
    share = rate / float(ceiling.value)
    return f"{words}, {share:.1%} of {ceiling.value:,} {references} ({ceiling.basis})"


def _slice_row(option: SliceOption, sources: SourceList) -> tuple[str, ...]:
    more, price = option.more_per_day, option.per_day
    return (
        option.accelerator + ("*" if option.current else ""),
        f"{dollars(price.value)} {sources.references(price.sources)}".rstrip(),
        "-" if option.current else "not known" if more is None else f"{more:+,.2f}",
        f"{option.cache_tokens:,}",
        "not known" if option.cache_share is None else f"{option.cache_share:.0%}",
        "not known" if option.load is None else f"{option.load:.1%}",
        "yes" if option.holds else "NO",
    )


def _show_gaps(output: Output, found: Capacity) -> None:
    if not found.gaps:
        return
    seconds = sum((gap.end - gap.begin).total_seconds() for gap in found.gaps)
    output.result(f"\nGaps: {len(found.gaps)}, {_length(seconds)} together; the newest:")
    for gap in islice(reversed(found.gaps), _GAPS):
        words = f"  {_moment(gap.begin)} to {_moment(gap.end)}  {gap.why}"
        output.result(words, hanging="    ")


def _length(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:,.1f} h"


def _requests(number: float) -> str:
    return f"{number:,.0f} request{'' if number == 1 else 's'}"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
