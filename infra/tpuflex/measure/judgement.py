"""What a point is worth: its figures, and whether they agree with each other.

A point is a result only if nothing speaks against it. What does is said in sentences with figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from itertools import zip_longest
from statistics import quantiles
from typing import TYPE_CHECKING, TypeVar

from tpuflex.measure.run import (
    Ceilings,
    Counted,
    Load,
    Measured,
    Point,
    Quantiles,
    Requests,
)
from tpuflex.planning.throughput import judge
from tpuflex.planning.token_cost import Throughput, usd_per_million

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model
    from tpuflex.measure.metrics import Counters
    from tpuflex.measure.vllm_result import VllmResult

T = TypeVar("T")

#: How far concurrency may be from throughput x latency.
LITTLE_LIMIT = 0.05
#: How far the client's tokens may be from the server's.
TOKENS_LIMIT = 0.01
#: The share of prompts that the server may have had in its cache although they were to be new ones:
#: above what chance gives of tpuflex.measure.grid.MOST_REQUESTS.
HITS_LIMIT = 0.02
#: Processor seconds per second of the generator, which has one thread: at three quarters an event
#: waits for three others on average (rho / (1 - rho) of a queue M/M/1), which is in its times.
BUSY_LIMIT = 0.75
#: Seconds that the generator may stand still: as long is missing in the times of all requests in
#: flight. A quarter of a second is below the first token of most, and twice what it takes to send
#: some hundred requests at once.
LAG_LIMIT = 0.25
#: A gap between two tokens of a request that is a stall: longer than this, and than so many times
#: 99 % of the point's gaps.
STALL_S, STALL_TIMES = 5.0, 20.0

_REASONS_OF_HTTP = {status.phrase.lower(): status.value for status in HTTPStatus}
#: What the generator says of an answer without a token.
_NO_TOKEN = "Never received a valid chunk"  # noqa: S105 - no password
_EXCEPTION = re.compile(r"(Error|Exception)\b")
NO_TOKENS, CUT_SHORT, BROKE_OFF, STALLED = "no tokens", "cut short", "broke off", "stalled"
TIMED_OUT, NOT_CONNECTED, TOO_MANY = "timed out", "not connected", "more tokens than asked for"


@dataclass(frozen=True, slots=True)
class Chips:
    """What a point is held against.

    Attributes:
        model: the model; None if it is not in the catalog.
        accelerator: the chips; None if they are not known.
        usd_per_hour: their price; None if it is not known.
        max_num_seqs: sequences that are computed at once; None if that is not known.
        kv_itemsize: bytes of a value in the KV cache.
        decodes_plainly: whether each decoding step reads weights in bfloat16 for one token of a
            sequence: without quantisation and speculation.
    """

    model: Model | None = None
    accelerator: Accelerator | None = None
    usd_per_hour: Decimal | None = None
    max_num_seqs: int | None = None
    kv_itemsize: int = 2
    decodes_plainly: bool = True

    def ceilings(self, load: Load) -> Ceilings:
        """The most that the chips allow at ``load``."""
        from tpuflex.planning.throughput import decode_ceiling, first_token_bound, prompt_ceiling

        model, accelerator = self.model, self.accelerator
        if model is None or accelerator is None:
            return Ceilings()
        running = min(load.concurrency, self.max_num_seqs or load.concurrency)
        decode = None
        if self.decodes_plainly:
            decode = decode_ceiling(model, accelerator, running, load.context, self.kv_itemsize)
        # What all prompts share is in the cache.
        first = first_token_bound(model, accelerator, load.context - load.shared, 1)
        return Ceilings(
            prompt_per_second=prompt_ceiling(model, accelerator, eight_bit=True),
            output_per_second=decode,
            first_token=first.alone if first is not None and self.decodes_plainly else None,
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one drive.

    Attributes:
        result: what the generator has measured.
        counted: what the server has counted meanwhile; None if it does not say.
        restarted: whether the server was started again meanwhile.
        lag: longest time in seconds that the generator stood still.
        busy: processor seconds of the generator per second.
    """

    result: VllmResult
    counted: Counters | None
    restarted: bool
    lag: float
    busy: float


def judged(load: Load, found: Evidence, chips: Chips, at: datetime | None = None) -> Point:
    """The point of ``load``, from what is known of its drive.

    Args:
        load: what was asked for.
        found: what came of it.
        chips: what the figures are held against.
        at: when; now by default.
    """
    kinds = failures(load, found.result, preempted=bool(_count(found, "preemptions")))
    measured = _measured(load, found, kinds)
    ceilings = chips.ceilings(load)
    reasons = tuple(_reasons(load, found, measured))
    price, rate = chips.usd_per_hour, measured.output_per_second
    return Point(
        load=load,
        verdict="not_a_result" if reasons else "result",
        reasons=reasons,
        flags=tuple(_flags(measured, ceilings, chips)),
        measured=measured,
        ceilings=ceilings,
        usd_per_million=None if price is None or not rate else _price(price, rate),
        at=at or datetime.now(UTC),
    )


def _price(per_hour: Decimal, rate: float) -> Decimal:
    return Decimal(f"{usd_per_million(per_hour, Throughput(rate)):.6g}")


def failures(load: Load, result: VllmResult, *, preempted: bool = False) -> tuple[str, ...]:
    """The kind of each request's failure; empty of one that was answered in full.

    Args:
        load: what was asked for.
        result: what the generator has measured.
        preempted: whether the server has put requests back: then they wait in the middle.
    """
    gaps = [gap for each in result.itls for gap in each]
    usual = quantiles(gaps, n=100)[98] if len(gaps) > 1 else 0.0
    stall = max(STALL_S, STALL_TIMES * usual)
    columns = zip_longest(result.errors, result.output_lens, result.itls, fillvalue=None)
    return tuple(
        _failure(
            load,
            error if isinstance(error, str) else "",
            tokens if isinstance(tokens, int) else 0,
            max(itl, default=0.0) if isinstance(itl, tuple) and not preempted else 0.0,
            stall,
        )
        for error, tokens, itl in columns
    )


def _failure(load: Load, error: str, tokens: int, gap: float, stall: float) -> str:
    if error:
        return _kind(error)
    if tokens == 0:
        return NO_TOKENS
    if gap > stall:
        return STALLED
    if tokens < load.output:
        return CUT_SHORT
    return TOO_MANY if tokens > load.output else ""


def _kind(error: str) -> str:
    """What the generator's words about a failed request mean: the status line of an answer, or the
    end of a traceback, which has several lines."""
    status = _REASONS_OF_HTTP.get(error.strip().lower())
    if status is not None:
        return f"HTTP {status}"
    if error.startswith(_NO_TOKEN):
        return NO_TOKENS
    if "ClientConnectorError" in error or "Cannot connect to host" in error:
        return NOT_CONNECTED
    if "TimeoutError" in error:
        return TIMED_OUT
    return BROKE_OFF if "\n" in error.strip() else f"HTTP: {error.strip()[:40]}"


def _count(found: Evidence, name: str) -> int:
    value = None if found.counted is None else getattr(found.counted, name)
    return round(value or 0)


def _counted(found: Evidence) -> Counted | None:
    counters = found.counted
    if counters is None or counters.prompt_tokens is None or counters.generation_tokens is None:
        return None
    return Counted(
        prompt_tokens=_count(found, "prompt_tokens"),
        cached_tokens=_count(found, "cached_tokens"),
        output_tokens=_count(found, "generation_tokens"),
        preemptions=_count(found, "preemptions"),
    )


def _measured(load: Load, found: Evidence, kinds: Sequence[str]) -> Measured:
    result, counted = found.result, _counted(found)
    answered = [index for index, kind in enumerate(kinds) if not kind]
    seconds = result.duration

    def of(column: Sequence[T]) -> list[T]:
        return [column[index] for index in answered if index < len(column)]

    def rate(count: float) -> float:
        return count / seconds if seconds > 0 else 0.0

    prompts = sum(of(result.input_lens))
    computed = prompts
    if counted is not None and counted.prompt_tokens:
        computed = round(prompts * (1 - min(1, counted.cached_tokens / counted.prompt_tokens)))
    first = min(result.start_times, default=0.0)
    return Measured(
        seconds=seconds,
        completed=len(answered),
        failures=dict(Counter(kind for kind in kinds if kind)),
        requests_per_second=rate(len(answered)),
        output_per_second=rate(sum(of(result.output_lens))),
        prompt_per_second=rate(computed),
        ttft=Quantiles.of(of(result.ttfts)),
        inter_token=Quantiles.of([gap for each in of(result.itls) for gap in each]),
        latency=Quantiles.of(of(result.latencies)),
        little=in_flight(load, result.start_times, result.latencies),
        counted=counted,
        generator_lag=found.lag,
        generator_busy=found.busy,
        requests=Requests(
            start=tuple(round(start - first, 6) for start in result.start_times),
            ttft=tuple(round(each, 6) for each in result.ttfts),
            latency=tuple(round(each, 6) for each in result.latencies),
            prompt_tokens=result.input_lens,
            output_tokens=result.output_lens,
            error=tuple(kinds),
        ),
    )


def in_flight(load: Load, starts: Sequence[float], latencies: Sequence[float]) -> float | None:
    """Throughput x latency as a share of the concurrency, from the first start to the last one:
    before, nothing is in flight, and after, nothing takes the place of what ends.

    Of each latency the part within counts, which makes Little's law exact for a stretch of time of
    any length (https://doi.org/10.1287/opre.1110.0940); without that, what is in flight
    at the end would be missing: a sixteenth with eight requests for each user. None without such a
    stretch: when no request had to wait for another one to end.
    """
    if len(starts) <= load.concurrency:
        return None
    begin, end = min(starts), max(starts)
    if end <= begin:
        return None
    within = sum(
        min(start + latency, end) - start for start, latency in zip(starts, latencies, strict=False)
    )
    return within / (end - begin) / load.concurrency


def _reasons(load: Load, found: Evidence, measured: Measured) -> Iterator[str]:
    """What speaks against the point, worst first."""
    if found.restarted:
        yield "the server was started again meanwhile"
    yield from _failed(load, measured)
    yield from _not_in_flight(load, measured)
    if not found.restarted:
        yield from _other_tokens(found, measured)
        yield from _cached(load, measured)
    yield from _generator(found)


def _failed(load: Load, measured: Measured) -> Iterator[str]:
    asked = sum(measured.failures.values()) + measured.completed
    if measured.failures:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(measured.failures.items()))
        failed = sum(measured.failures.values())
        yield (
            f"{failed:,} of {asked:,} requests were not answered with their {load.output:,} tokens:"
            f" {kinds}"
        )
    if asked != load.requests:
        yield f"the generator has sent {asked:,} requests, and {load.requests:,} were asked for"


def _not_in_flight(load: Load, measured: Measured) -> Iterator[str]:
    if measured.little is None:
        if load.requests > load.concurrency:
            yield "the times of its requests are missing: nothing can be compared"
    elif abs(measured.little - 1) > LITTLE_LIMIT:
        yield (
            f"throughput x latency is {measured.little * load.concurrency:.3g} requests in flight,"
            f" and {load.concurrency:,} were asked for ({measured.little - 1:+.0%}; at most"
            f" {LITTLE_LIMIT:.0%})"
        )


def _other_tokens(found: Evidence, measured: Measured) -> Iterator[str]:
    counted = measured.counted
    if counted is None:
        yield "the server does not say how many tokens it has counted"
        return
    # All that the client has had, also of answers that were cut short.
    sides = (
        ("generated", found.result.total_output_tokens, counted.output_tokens),
        ("prompt", found.result.total_input_tokens, counted.prompt_tokens),
    )
    for what, client, server in sides:
        if abs(server - client) <= TOKENS_LIMIT * max(client, 1):
            continue
        why = ": others have used it meanwhile" if server > client else ""
        if server > client and measured.failures:
            why = ": some went into what failed, or others have used it meanwhile"
        yield (
            f"the client has {client:,} {what} tokens, and the server has counted {server:,}"
            f" ({(server - client) / max(client, 1):+.1%}; at most {TOKENS_LIMIT:.0%}){why}"
        )


def _cached(load: Load, measured: Measured) -> Iterator[str]:
    counted = measured.counted
    if counted is None or not counted.prompt_tokens or load.shared:
        return
    share = counted.cached_tokens / counted.prompt_tokens
    if share > HITS_LIMIT:
        yield (
            f"{share:.1%} of the prompts' tokens were in the server's prefix cache (at most"
            f" {HITS_LIMIT:.0%}): they were not computed, and were to be new ones"
        )


def _generator(found: Evidence) -> Iterator[str]:
    if found.lag > LAG_LIMIT:
        yield (
            f"the load generator stood still for {found.lag:.2f} s (at most {LAG_LIMIT} s): that is"
            " in the times of all requests in flight"
        )
    if found.busy > BUSY_LIMIT:
        yield (
            f"the load generator took {found.busy:.0%} of its processor (at most {BUSY_LIMIT:.0%}):"
            " it has measured itself"
        )


def _flags(measured: Measured, ceilings: Ceilings, chips: Chips) -> Iterator[str]:
    """Figures that the chips cannot reach, and what else a reader should know."""
    model, accelerator = chips.model, chips.accelerator
    if model is not None and accelerator is not None:
        computed = measured.prompt_per_second + measured.output_per_second
        if text := judge(model, accelerator, computed).text:
            yield f"prompt and answer tokens together: {text}"
    most = ceilings.output_per_second
    if most is not None and measured.output_per_second > most:
        yield (
            f"{measured.output_per_second:,.0f} tokens/s of answers are above the"
            f" {most:,.0f} that the chips can decode with so many sequences of that length"
        )
    least = ceilings.first_token
    if least is not None and measured.ttft is not None and measured.ttft.p50 < least:
        yield (
            f"half of the first tokens came within {measured.ttft.p50:.3g} s, and computing such a"
            f" prompt takes {least:.3g} s at the chips' peak"
        )
    if measured.counted is not None and measured.counted.preemptions:
        yield (
            f"the server has put requests back {measured.counted.preemptions:,} times to make room"
            " in its KV cache, and has computed them again"
        )
