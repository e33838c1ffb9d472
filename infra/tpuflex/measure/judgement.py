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
from statistics import fmean, quantiles
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
from tpuflex.planning.throughput import decode_ceiling, first_token_bound, judge, prompt_ceiling
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
#: How far the mean length of the prompts may be from the one asked for, beside a special token.
LENGTH_LIMIT = 0.02
#: The share of a point's time that may have passed with places empty since no request was left:
#: its rates are too low by as much.
DRAIN_LIMIT = 0.25
#: The share of tokens that may have come in a chunk with another one, for a gap between chunks to
#: be one between tokens.
CHUNKS_LIMIT = 0.05
#: Half of the answers came in one burst if all their tokens after the first took a smaller share of
#: the latency, and less than a millisecond each: no server decodes 1,000 tokens/s of one sequence
#: after it has taken nine times as long for the first one.
BURST_SHARE, BURST_S = 0.1, 0.001
#: Processor seconds per second of the generator, which has one thread: at three quarters an event
#: waits for three others on average (rho / (1 - rho) of a queue M/M/1), which is in its times.
BUSY_LIMIT = 0.75
#: Seconds that the generator may stand still, or that share of the median latency if it is longer:
#: they are in the times of all requests in flight. A quarter of a second is twice what it
#: takes to send some hundred requests at once.
LAG_LIMIT, LAG_SHARE = 0.25, 0.1
#: The share of a point in which the generator may have stood still, all times together.
STALLED_LIMIT = 0.1
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
        block_size: tokens of a block of the KV cache; None if that is not known.
        decodes_plainly: whether each decoding step reads weights in bfloat16 for one token of a
            sequence: without quantisation and speculation.
    """

    model: Model | None = None
    accelerator: Accelerator | None = None
    usd_per_hour: Decimal | None = None
    max_num_seqs: int | None = None
    kv_itemsize: int = 2
    block_size: int | None = None
    decodes_plainly: bool = True

    def ceilings(self, load: Load) -> Ceilings:
        """The most that the chips allow at ``load``."""
        model, accelerator = self.model, self.accelerator
        if model is None or accelerator is None:
            return Ceilings()
        running = min(load.concurrency, self.max_num_seqs or load.concurrency)
        # What all prompts share is computed once, and a step may read it once for all of them.
        own = load.context - load.shared
        decode = None
        if self.decodes_plainly:
            decode = decode_ceiling(model, accelerator, running, own, self.kv_itemsize)
        first = first_token_bound(model, accelerator, own, 1)
        in_eight_bits = not self.decodes_plainly
        return Ceilings(
            prompt_per_second=prompt_ceiling(model, accelerator, eight_bit=in_eight_bits),
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
        stalled: seconds that the generator stood still, all times together.
        open_before: requests that the server computed, or let wait, before the first one was sent.
    """

    result: VllmResult
    counted: Counters | None
    restarted: bool
    lag: float
    busy: float
    stalled: float = 0.0
    open_before: float = 0.0


def judged(load: Load, found: Evidence, chips: Chips, at: datetime | None = None) -> Point:
    """The point of ``load``, from what is known of its drive.

    Args:
        load: what was asked for.
        found: what came of it.
        chips: what the figures are held against.
        at: when the drive began; now by default.
    """
    kinds = failures(load, found.result, preempted=bool(_count(found, "preemptions")))
    measured = _measured(load, found, kinds)
    ceilings = chips.ceilings(load)
    reasons = (*_reasons(load, found, measured, chips), *_above(load, measured, ceilings))
    doubts = tuple(_doubts(measured, ceilings, chips))
    price, rate = chips.usd_per_hour, measured.output_per_second
    return Point(
        load=load,
        verdict="not_a_result" if reasons else "result",
        reasons=reasons,
        flags=(*doubts, *_notes(load, measured, chips)),
        doubtful=bool(doubts),
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
    if counters is None or None in (
        counters.prompt_tokens,
        counters.cached_tokens,
        counters.generation_tokens,
    ):
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
    lengths, gaps = of(result.output_lens), of(result.itls)
    chunks = sum(len(each) + 1 for each in gaps)
    chunked = chunks < (1 - CHUNKS_LIMIT) * sum(lengths)
    return Measured(
        seconds=seconds,
        completed=len(answered),
        failures=dict(Counter(kind for kind in kinds if kind)),
        requests_per_second=rate(len(answered)),
        output_per_second=rate(sum(lengths)),
        prompt_per_second=rate(computed),
        ttft=Quantiles.of(of(result.ttfts)),
        tpot=Quantiles.of(per_token(of(result.ttfts), of(result.latencies), lengths)),
        inter_token=None if chunked else Quantiles.of([gap for each in gaps for gap in each]),
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


def per_token(
    ttfts: Sequence[float], latencies: Sequence[float], tokens: Sequence[int]
) -> list[float]:
    """Seconds for each token after the first one, of each request that has more than one."""
    columns = zip(ttfts, latencies, tokens, strict=False)
    return [max(whole - first, 0.0) / (count - 1) for first, whole, count in columns if count > 1]


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


def _reasons(load: Load, found: Evidence, measured: Measured, chips: Chips) -> Iterator[str]:
    """What speaks against the point, worst first."""
    if found.restarted:
        yield "the server was started again meanwhile"
    yield from _failed(load, measured)
    yield from _lengths(load, measured)
    yield from _not_in_flight(load, measured)
    yield from _burst(measured)
    if not found.restarted:
        yield from _others(load, found)
        yield from _other_tokens(found, measured)
        yield from _cached(load, measured, chips.block_size)
    yield from _generator(found, measured)


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


def _lengths(load: Load, measured: Measured) -> Iterator[str]:
    columns = zip(measured.requests.prompt_tokens, measured.requests.error, strict=False)
    lengths = [tokens for tokens, error in columns if not error]
    if not lengths:
        return
    mean = fmean(lengths)
    if abs(mean - load.context) > max(1, LENGTH_LIMIT * load.context):
        yield (
            f"its prompts have {mean:,.0f} tokens on average, and {load.context:,} were asked for"
            f" ({mean / load.context - 1:+.0%}; at most {LENGTH_LIMIT:.0%})"
        )


def _not_in_flight(load: Load, measured: Measured) -> Iterator[str]:
    if load.requests <= load.concurrency:
        yield (
            f"all {load.requests:,} requests were sent at once: none began as another one ended, so"
            f" nothing says that {load.concurrency:,} were in flight"
        )
    elif measured.little is None:
        yield "the times of its requests are missing: nothing can be compared"
    elif abs(measured.little - 1) > LITTLE_LIMIT:
        yield (
            f"throughput x latency is {measured.little * load.concurrency:.3g} requests in flight,"
            f" and {load.concurrency:,} were asked for ({measured.little - 1:+.0%}; at most"
            f" {LITTLE_LIMIT:.0%})"
        )
    elif not measured.failures:
        yield from _drained(load, measured)


def _drained(load: Load, measured: Measured) -> Iterator[str]:
    """Whether the rates, which are those of the whole point, are those of its steady part.

    Requests that end one after the other leave half a request's time of each place empty, so a
    point with few requests for each user may have twice that.
    """
    places = measured.seconds * load.concurrency
    empty = 1 - sum(measured.requests.latency) / places if places else 0.0
    most = max(DRAIN_LIMIT, load.concurrency / load.requests)
    if empty > most:
        yield (
            f"{empty:.0%} of its time passed with places empty, since its last requests took longer"
            f" than the others (at most {most:.0%}): its rates are too low"
        )


def _burst(measured: Measured) -> Iterator[str]:
    requests, tpot = measured.requests, measured.tpot
    if tpot is None or tpot.p50 >= BURST_S:
        return
    columns = zip(requests.ttft, requests.latency, requests.error, strict=False)
    answered = [(first, whole) for first, whole, error in columns if not error]
    if sum(whole - first <= BURST_SHARE * whole for first, whole in answered) > len(answered) / 2:
        yield (
            "most answers came in one burst at their end: the stream was buffered on its way, and"
            " the time to the first token is that to the last one"
        )


def _others(load: Load, found: Evidence) -> Iterator[str]:
    if found.open_before:
        yield (
            f"{found.open_before:,.0f} requests were running or waiting at the server before the"
            " point began: others use it"
        )
    ended = 0 if found.counted is None else round(sum(found.counted.success.values()))
    if ended > load.requests:
        yield (
            f"{ended:,} requests have ended at the server, and {load.requests:,} were sent: others"
            " have used it meanwhile"
        )


def _other_tokens(found: Evidence, measured: Measured) -> Iterator[str]:
    counted = measured.counted
    if counted is None:
        counters = found.counted
        unknown = counters is not None and counters.cached_tokens is None
        what = "had in its prefix cache" if unknown else "counted"
        yield f"the server does not say how many tokens it has {what}"
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


def _cached(load: Load, measured: Measured, block_size: int | None) -> Iterator[str]:
    counted = measured.counted
    if counted is None or not counted.prompt_tokens:
        return
    share = counted.cached_tokens / counted.prompt_tokens
    # The cache has whole blocks.
    block = block_size or 1
    shared = load.shared // block * block / load.context
    if share > shared + HITS_LIMIT:
        yield (
            f"{share:.1%} of the prompts' tokens were in the server's prefix cache (at most"
            f" {shared + HITS_LIMIT:.0%}): they were not computed, and were to be new ones"
        )
    # The first request of each user may come before the cache has anything.
    if load.shared and block_size is not None and share < shared / 2:
        yield (
            f"{share:.1%} of the prompts' tokens were in the server's prefix cache, and"
            f" {shared:.1%} are in blocks that all of them share"
        )


def _generator(found: Evidence, measured: Measured) -> Iterator[str]:
    usual = measured.latency.p50 if measured.latency else 0.0
    most = max(LAG_LIMIT, LAG_SHARE * usual)
    if found.lag > most:
        yield (
            f"the load generator stood still for {found.lag:.2f} s (at most {most:.3g} s): that is"
            " in the times of all requests in flight"
        )
    elif found.stalled > STALLED_LIMIT * measured.seconds:
        yield (
            f"the load generator stood still for {found.stalled:.2f} s of {measured.seconds:.3g} s"
            f" in all (at most {STALLED_LIMIT:.0%}): that is in the times of the requests"
        )
    if found.busy > BUSY_LIMIT:
        yield (
            f"the load generator took {found.busy:.0%} of its processor (at most {BUSY_LIMIT:.0%}):"
            " it has measured itself"
        )


def _above(load: Load, measured: Measured, ceilings: Ceilings) -> Iterator[str]:
    """Figures that the chips cannot reach, whatever the server does."""
    computed = measured.prompt_per_second + measured.output_per_second
    most = ceilings.prompt_per_second
    if most is not None and computed > most:
        yield (
            f"{computed:,.0f} tokens/s of prompts and answers are above the {most:,.0f} that the"
            " chips can compute at their peak"
        )
    most = ceilings.output_per_second
    # The first token of an answer comes with the prompt, not of a decoding step.
    decoded = measured.output_per_second * (load.output - 1) / load.output
    if most is not None and decoded > most:
        yield (
            f"{measured.output_per_second:,.0f} tokens/s of answers are above the {most:,.0f} that"
            " the chips can decode with so many sequences of that length"
        )
    least = ceilings.first_token
    if least is not None and measured.ttft is not None and measured.ttft.p50 < least:
        yield (
            f"half of the first tokens came within {measured.ttft.p50:.3g} s, and computing such a"
            f" prompt takes {least:.3g} s at the chips' peak"
        )


def _doubts(measured: Measured, ceilings: Ceilings, chips: Chips) -> Iterator[str]:
    """Figures below the ceilings that are not credible."""
    model, accelerator, most = chips.model, chips.accelerator, ceilings.prompt_per_second
    if model is None or accelerator is None or most is None:
        return
    computed = measured.prompt_per_second + measured.output_per_second
    if computed <= most and (text := judge(model, accelerator, computed).text):
        yield f"prompt and answer tokens together: {text}"


def _notes(load: Load, measured: Measured, chips: Chips) -> Iterator[str]:
    """What a reader should know of figures that may well be right."""
    if measured.tpot is not None and measured.inter_token is None:
        yield (
            "the stream had fewer chunks than tokens, so the time between two tokens (ITL) is not"
            " known, only its mean in each request (TPOT)"
        )
    most = chips.max_num_seqs
    if most is not None and load.concurrency > most:
        yield (
            f"{load.concurrency - most:,} of {load.concurrency:,} requests always wait in the"
            f" server's queue: it computes {most:,} at once (max_num_seqs)"
        )
    if measured.counted is not None and measured.counted.preemptions:
        yield (
            f"the server has put requests back {measured.counted.preemptions:,} times to make room"
            " in its KV cache, and has computed them again"
        )
