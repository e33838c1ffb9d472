"""What an archive of metrics says of capacity: how much was served, at what price, with how much to
spare, and which other slice would have held it.

How long a first token takes on other chips is not computed: nobody has measured them here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.catalog.zones import region_of
from tpuflex.errors import NotFoundError
from tpuflex.measure.tally import FULL, Gap, Moment, Peaks, Tally, Use, hours, steps, timeline
from tpuflex.planning.figure import Figure, with_source_table
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.recommend import Option, Requirements, recommend
from tpuflex.planning.request import Load
from tpuflex.planning.stack_cost import hourly
from tpuflex.planning.throughput import arithmetic_ceiling, decode_ceiling
from tpuflex.planning.token_cost import usd_for_million

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Model
    from tpuflex.measure.archive import Origin, Snapshot

#: Seconds that have to be watched for advice, and for advice that is no first impression.
_LEAST_S, _DAY_S = 3600.0, 86_400.0
#: Share of the time in which requests wait, or the cache is full, that is worth more chips.
_WORTH = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOption:
    """A slice that the model fits on, beside the load that was seen.

    Attributes:
        accelerator: accelerator type.
        zones: where it is granted and costs least.
        per_day: its price for 24 hours.
        more_per_day: what it costs more than the slice that was seen; None if that is not known.
        cache_tokens: tokens that its KV cache holds, by the memory planner.
        cache_share: share of them that was in use at the peak; None where that is not known.
        load: tokens of the busiest time as a share of what its chips compute at peak; None where
            that is not known.
        current: whether it is the slice that was seen.
    """

    accelerator: str
    zones: tuple[str, ...]
    per_day: Figure
    more_per_day: Decimal | None
    cache_tokens: int
    cache_share: float | None
    load: float | None
    current: bool

    @property
    def holds(self) -> bool:
        """Whether it would have held the peak, with something to spare."""
        within = self.cache_share is not None and self.cache_share <= FULL
        return within and (self.load is None or self.load < 1)

    def to_json(self) -> dict[str, object]:
        """The option in a JSON document."""
        more = self.more_per_day
        return {
            "accelerator_type": self.accelerator,
            "zones": list(self.zones),
            "usd_per_day": self.per_day.to_json(),
            "more_usd_per_day": None if more is None else float(more),
            "cache_tokens": self.cache_tokens,
            "cache_share_at_peak": self.cache_share,
            "share_of_arithmetic_ceiling": self.load,
            "holds_the_peak": self.holds,
            "current": self.current,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an archive says of a stack, on the slice that it had last.

    Attributes:
        origin: the newest snapshot's.
        begin: the first snapshot.
        end: the last one.
        other_slices: what else it was served on meanwhile, and is not in these figures.
        total: what was served.
        days: day -> what was served.
        timeline: what was served in parts of equal length; a part without a snapshot is missing.
        moments: the snapshots.
        gaps: the times of which nothing is known.
        peaks: what it was asked for at most.
        arithmetic: tokens per second that the chips compute at peak.
        decode: tokens per second that they generate at most, at the most sequences that were seen.
        per_hour: price of the slice.
        paid: for the time in which it was there.
        per_million: of the generated tokens.
        idle: part of what was paid while no request ran.
        options: slices that the model fits on, the cheapest first.
        unknown: why there are none.
        advice: what to do, in sentences.
    """

    origin: Origin
    begin: datetime
    end: datetime
    other_slices: tuple[str, ...]
    total: Use
    days: dict[date, Use]
    timeline: tuple[Use, ...]
    moments: tuple[Moment, ...]
    gaps: tuple[Gap, ...]
    peaks: Peaks
    arithmetic: Figure
    decode: Figure
    per_hour: Figure
    paid: Figure
    per_million: Figure
    idle: Figure
    options: tuple[SliceOption, ...]
    unknown: str
    advice: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex capacity --json``."""
        return with_source_table(
            {
                "stack": self.origin.stack,
                "model": self.origin.model,
                "accelerator_type": self.origin.accelerator,
                "zone": self.origin.zone,
                "vllm": self.origin.vllm,
                "max_model_len": self.origin.max_model_len,
                "max_num_seqs": self.origin.max_num_seqs,
                "begin": self.begin.isoformat(),
                "end": self.end.isoformat(),
                "other_slices": list(self.other_slices),
                "total": self.total.to_json(),
                "days": {day.isoformat(): use.to_json() for day, use in self.days.items()},
                "gaps": [gap.to_json() for gap in self.gaps],
                "peaks": self.peaks.to_json(),
                "arithmetic_ceiling": self.arithmetic.to_json(),
                "decode_ceiling": self.decode.to_json(),
                "usd_per_hour": self.per_hour.to_json(),
                "paid": self.paid.to_json(),
                "usd_per_million_generated": self.per_million.to_json(),
                "idle": self.idle.to_json(),
                "options": [option.to_json() for option in self.options],
                "options_unknown": self.unknown,
                "advice": list(self.advice),
            }
        )


def capacity(snapshots: Iterable[Snapshot], catalog: Catalog) -> Capacity:
    """What ``snapshots`` of one stack, the oldest first, say of its capacity.

    Args:
        snapshots: those of an archive.
        catalog: models, chips and prices.

    Raises:
        NotFoundError: there is no snapshot with an answer.
    """
    tallies: dict[tuple[str, str], Tally] = {}
    origin = None
    for step in steps(snapshots):
        now = step.snapshot
        key = (now.origin.model, now.origin.accelerator)
        tallies.setdefault(key, Tally(now.at)).add(step)
        origin = now.origin if now.metrics is not None or origin is None else origin
    if origin is None or not any(tally.total.snapshots for tally in tallies.values()):
        raise NotFoundError(
            "The archive has no snapshot with an answer of the server.",
            hint=Advice("`{status}` says whether it serves."),
        )
    tally = tallies[origin.model, origin.accelerator]
    others = tuple(
        f"{hours(other.total.watched):g} h of {model} on {accelerator}"
        for (model, accelerator), other in tallies.items()
        if other is not tally and other.total.snapshots
    )
    return _concluded(_described(origin, tally, others, catalog), catalog)


def _described(origin: Origin, tally: Tally, others: tuple[str, ...], catalog: Catalog) -> Capacity:
    accelerator, model = catalog.accelerator(origin.accelerator), catalog.model(origin.model)
    per_hour = _price(origin, accelerator, catalog)
    total = tally.total
    on_chips = accelerator is not None and origin.cloud == "google"
    known = (model, accelerator) if on_chips else (None, None)
    return Capacity(
        origin=origin,
        begin=tally.begin,
        end=tally.end,
        other_slices=others,
        total=total,
        days=tally.days,
        timeline=timeline(list(tally.parts.values())),
        moments=tuple(tally.moments),
        gaps=tuple(tally.gaps),
        peaks=tally.peaks,
        arithmetic=_arithmetic(*known),
        decode=_decode(*known, tally.peaks),
        per_hour=per_hour,
        paid=_paid(per_hour, total.billed, f"{hours(total.billed):,g} h in which it was there"),
        per_million=_per_million(per_hour, total),
        idle=_paid(per_hour, _idle_seconds(total), "no request ran in the snapshots"),
        options=(),
        unknown="",
        advice=(),
    )


def _price(origin: Origin, accelerator: Accelerator | None, catalog: Catalog) -> Figure:
    if origin.cloud == "embedded":
        return Figure(Decimal(0), "USD per hour", "free: on this machine")
    if accelerator is None or not origin.zone:
        return Figure(None, "USD per hour", f"{origin.accelerator} is not in the catalog")
    region = region_of(origin.zone)
    return hourly(accelerator, catalog.price(accelerator.generation, region), region)


def _paid(per_hour: Figure, seconds: float, words: str) -> Figure:
    if per_hour.value is None:
        return Figure(None, "USD", per_hour.basis, per_hour.sources)
    amount = Decimal(per_hour.value) * Decimal(f"{seconds / 3600:.6f}")
    return Figure(amount, "USD", f"{words}; {per_hour.basis}", per_hour.sources)


def _idle_seconds(total: Use) -> float:
    """Of what is billed, so much as the share of the watched time in which nothing ran."""
    if not total.watched:
        return 0.0
    return total.billed * (1 - total.busy / total.watched)


def _per_million(per_hour: Figure, total: Use) -> Figure:
    unit = "USD per million generated tokens"
    if per_hour.value is None or not total.generated:
        words = per_hour.basis if per_hour.value is None else "nothing was generated"
        return Figure(None, unit, words, per_hour.sources)
    hours = Decimal(f"{total.billed / 3600:.6f}")
    paid = Decimal(per_hour.value) * hours
    amount = usd_for_million(paid, Decimal(round(total.generated)))
    words = f"{total.generated:,.0f} in {hours:,.1f} h, idle ones and prompts included"
    return Figure(Decimal(f"{amount:.6g}"), unit, words, per_hour.sources)


def _arithmetic(model: Model | None, accelerator: Accelerator | None) -> Figure:
    unit = "tokens per second"
    if model is None or accelerator is None:
        return Figure(None, unit, "the model or its chips are not in the catalog")
    rate = arithmetic_ceiling(model, accelerator)
    words = "peak bfloat16 at 2 FLOP per active parameter"
    return Figure(rate and round(rate), unit, words, (model.source, accelerator.source))


def _decode(model: Model | None, accelerator: Accelerator | None, peaks: Peaks) -> Figure:
    unit = "tokens per second"
    if model is None or accelerator is None or not peaks.running:
        return Figure(None, unit, "the model or its chips are not in the catalog, or nothing ran")
    rate = decode_ceiling(model, accelerator, peaks.running, 1, 1)
    words = f"bandwidth for the weights alone, {peaks.running:,} sequences at once"
    return Figure(rate and round(rate), unit, words, (model.source, accelerator.source))


def _concluded(found: Capacity, catalog: Catalog) -> Capacity:
    """``found`` with what other slices would have done, and with advice."""
    model = catalog.model(found.origin.model)
    if model is None:
        return _advised(replace(found, unknown=f"{found.origin.model} is not in the catalog"))
    if found.peaks.kv_tokens is None:
        return _advised(replace(found, unknown="the server does not say the size of its cache"))
    most = found.total.peak or 1
    context = found.origin.max_model_len or model.max_context or 16_384
    wanted = Requirements(load=Load(context=context, concurrency=max(most, 1)))
    dtype = "fp8" if "fp8" in found.peaks.kv_dtype else "bfloat16"
    options = [
        _option(found, model, option)
        for option in recommend([model], wanted, catalog).options
        if option.fit == "fits" and option.request.kv_cache_dtype == dtype
    ]
    return _advised(replace(found, options=tuple(sorted(options, key=_by_price))))


def _by_price(option: SliceOption) -> tuple[float, int]:
    price = option.per_day.value
    return math.inf if price is None else float(price), option.cache_tokens


def _option(found: Capacity, model: Model, option: Option) -> SliceOption:
    chips, plan, origin = option.request.accelerator, option.plan, found.origin
    current = origin.cloud == "google" and chips.name == origin.accelerator
    tokens = plan.cached_tokens if isinstance(plan, MemoryPlan) else 0
    per_hour = found.per_hour if current else option.per_hour
    per_day = _paid(per_hour, _DAY_S, "24 h")
    more = None
    if origin.cloud == "google" and per_day.value is not None and found.per_hour.value is not None:
        more = Decimal(per_day.value) - 24 * Decimal(found.per_hour.value)
    held, rate = found.peaks.kv_tokens, arithmetic_ceiling(model, chips)
    share = (
        found.peaks.kv_use if current else held / tokens if held is not None and tokens else None
    )
    return SliceOption(
        accelerator=chips.name,
        zones=(origin.zone,) if current else option.zones,
        per_day=replace(per_day, unit="USD per day"),
        more_per_day=more,
        cache_tokens=(found.peaks.cache_tokens if current else None) or tokens,
        cache_share=share,
        load=found.peaks.computed / rate if rate else None,
        current=current,
    )


def _advised(found: Capacity) -> Capacity:
    watched = found.total.watched
    if watched < _LEAST_S:
        words = (
            f"Too little to say: {watched / 60:.0f} min are watched, and advice takes an hour at"
            " least; a week shows how days differ."
        )
        return replace(found, advice=(words,))
    return replace(found, advice=tuple(_advice(found)))


def _advice(found: Capacity) -> Iterator[str]:
    total, watched = found.total, found.total.watched
    if watched < _DAY_S:
        yield (
            f"A first impression: {hours(watched):g} hours are watched, and the load of a day"
            " takes a whole one."
        )
    short = max(total.waited, total.full) / watched > _WORTH or total.preemptions > 0
    yield from _more(found) if short else _less(found)
    if found.idle.value and total.busy / watched < 0.5:
        yield (
            f"No request ran in {1 - total.busy / watched:.0%} of the time, for which"
            f" ${found.idle.value:,.2f} of ${found.paid.value:,.2f} were paid:"
            f" `tpuflex down --stack {found.origin.stack}` between the hours of work saves that."
        )
    if found.unknown:
        yield f"Other slices are not compared: {found.unknown}."


def _more(found: Capacity) -> Iterator[str]:
    """What to do about a slice that is too small."""
    total, peaks, origin = found.total, found.peaks, found.origin
    yield (
        f"Requests waited in {hours(total.waited):g} of {hours(total.watched):g} hours, the KV"
        f" cache was above {FULL:.0%} in {hours(total.full):g}, and {total.preemptions:,.0f}"
        " requests were put back."
    )
    most = origin.max_num_seqs
    if most is not None and peaks.running >= most and (peaks.kv_use or 0) <= FULL:
        yield (
            f"At most {most:,} sequences run at once (max_num_seqs), while the KV cache was never"
            f" above {peaks.kv_use or 0:.0%}: a higher max_num_seqs costs nothing, and may be"
            " enough."
        )
        return
    if (peaks.kv_use or 0) <= FULL:
        yield "They waited for the chips: neither the KV cache nor max_num_seqs was at its end."
    now = next((option for option in found.options if option.current), None)
    for option in found.options:
        if now is None or not option.more_per_day or option.more_per_day < 0:
            continue
        if option.cache_tokens > now.cache_tokens and (option.load or 0) < (now.load or 0):
            times = (now.load or 0) / (option.load or 1)
            yield (
                f"A {option.accelerator} computes {times:.1f} times as much at peak, with a cache"
                f" of {option.cache_tokens:,} tokens instead of {now.cache_tokens:,}"
                f"{_difference(option)}."
            )
            return
    if found.options:
        yield "No slice of one host with a known price is larger: a second stack shares the load."


def _less(found: Capacity) -> Iterator[str]:
    """What to do about a slice that has something to spare."""
    peaks = found.peaks
    most = found.total.peak or 0
    for option in found.options:
        cheaper = option.more_per_day is not None and option.more_per_day < 0
        if not (cheaper and option.holds):
            continue
        yield (
            f"A {option.accelerator} holds the peak of {most:,} requests: {peaks.kv_tokens or 0:,}"
            f" tokens of {option.cache_tokens:,} in its cache{_difference(option)}."
        )
        if option.load is not None:
            yield (
                f"The busiest time would take {option.load:.1%} of what its chips compute at peak."
                " How long the first token would take there is not known: measure it before you"
                " change."
            )
        return
    if found.options and found.origin.cloud == "google":
        yield "The slice fits its load: nothing waited, and no cheaper one holds the peak."


def _difference(option: SliceOption) -> str:
    more = option.more_per_day
    if more is None:
        return ""
    return f"; it costs ${abs(more):,.2f} a day {'less' if more < 0 else 'more'}"
