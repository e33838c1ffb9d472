"""How `tpuflex verify`, `details` and `metrics` show what an endpoint says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.measure.details import Source
from tpuflex.measure.usage import LATENCIES, QUANTILES
from tpuflex.measure.verify import Standing
from tpuflex.terminal.money import dollars
from tpuflex.terminal.output import one_line

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.measure.details import Details
    from tpuflex.measure.metrics import Histogram
    from tpuflex.measure.usage import Usage
    from tpuflex.measure.verify import Verification

_UNKNOWN = "?"
_STALLED = Advice(
    "the engine has made no step since the last look: `{verify}` says whether it is frozen."
)
_RESULTS = {
    Standing.OK: "ok",
    Standing.FAILED: "FAILED",
    Standing.UNKNOWN: "not known",
}
#: Columns of the text of a check: a completion may have any length.
_TEXT = 200


def show_verification(invocation: Invocation, found: Verification) -> None:
    """Print ``found`` and exit.

    Raises:
        SystemExit: with its exit code.
    """
    output = invocation.output
    output.document(found.to_json())
    output.heading(f"Endpoint of stack {found.stack}: {found.endpoint}")
    rows = [
        (each.name, _RESULTS[each.standing], one_line(" ".join(each.text.split()), _TEXT))
        for each in found.checks
    ]
    output.table(("CHECK", "RESULT", "FOUND"), rows)
    output.result()
    wrong = len(found.problems)
    if not wrong:
        output.result("Verified: it completes text, and its engine has counted it.")
    else:
        output.result(f"{wrong} of {len(found.checks)} checks failed.")
    hints = (each.hint.for_stack(found.stack, invocation.environ) for each in found.problems)
    for hint in dict.fromkeys(hints):
        output.result(f"  -> {hint}", hanging="     ")
    raise SystemExit(found.exit_code)


def show_details(invocation: Invocation, found: Details) -> None:
    """Print ``found``."""
    output = invocation.output
    output.document(found.to_json())
    output.heading(f"Endpoint of stack {found.stack}: {found.endpoint}")
    output.facts(
        (
            fact.name,
            fact.value
            + ("" if fact.source is Source.SERVER else f" ({fact.source.value})")
            + (f"; planned: {fact.planned}" if fact.planned else ""),
        )
        for fact in found.facts
    )
    output.result()
    output.result("By the server itself, but for what names another source.")
    for why in found.missing:
        output.result(f"not known: {why}")


def show_usage(invocation: Invocation, found: Usage) -> None:
    """Print ``found``."""
    output, now, interval = invocation.output, found.metrics, found.interval
    output.heading(f"Endpoint of stack {found.stack}, {now.at.astimezone():%Y-%m-%d %H:%M:%S %Z}")
    if found.why:
        age = f"{found.age:.0f} s old: {found.why}"
        output.result(f"STALE, {age}" if found.stale else f"No answer; {age}")
    if interval is not None and interval.restarted:
        output.result("The server was started again since the last look.")
    if found.stalled:
        advice = _STALLED.for_stack(found.stack, invocation.environ)
        output.result(f"{_requests(found.open_requests)} in flight, and {advice}")
    cache = now.kv_cache
    tokens = "" if cache is None or cache.tokens is None else f" of {cache.tokens:,} tokens"
    output.facts(
        (
            ("requests", _in_flight(found)),
            ("KV cache", f"{_share(now.kv_use)}{tokens} in use"),
            ("ended", _ended(found)),
            ("cost so far", _cost(found)),
        )
    )
    output.result()
    output.table(*_counts(found))
    output.result()
    output.table(*_latencies(found))


def _counts(found: Usage) -> tuple[list[str], list[list[str]]]:
    """The table of what was counted: since the server's start, and since the last look."""
    now, interval = found.metrics, found.interval
    priced = bool(found.cost.since_start)
    header = ["COUNTED", "SINCE START"]
    if interval is not None:
        header += [f"LAST {interval.seconds:.0f} S", "PER SECOND"]
    if priced:
        header.append("USD PER MILLION")
    names = {
        "prompt tokens": "prompt_tokens",
        "  computed": "computed_tokens",
        "  cached": "cached_tokens",
        "generated tokens": "generation_tokens",
        "preemptions": "preemptions",
    }
    rows = list[list[str]]()
    for name, field in names.items():
        total = getattr(now, field)
        row = [name, _count(total)]
        if interval is not None:
            counted = getattr(interval, field)
            rate = interval.rate(counted)
            row += [_count(counted), _UNKNOWN if rate is None else f"{rate:,.1f}"]
        if priced:
            amount = None if field == "preemptions" else found.cost.per_million(total)
            row.append("" if amount is None else dollars(amount))
        rows.append(row)
    hits = ["prefix-cache hits", _share(now.hit_rate)]
    if interval is not None:
        hits += [_share(interval.hit_rate), ""]
    rows.append(hits + [""] * priced)
    return header, rows


def _latencies(found: Usage) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    names = (name.upper() for name, _ in QUANTILES)
    return ("SECONDS", *names, "MEAN", "OF"), list(_latency_rows(found))


def _latency_rows(found: Usage) -> Iterator[tuple[str, ...]]:
    interval = found.interval
    for field, name in LATENCIES.items():
        yield name, *_latency(getattr(found.metrics, field))
        if interval is not None:
            yield f"  last {interval.seconds:.0f} s", *_latency(getattr(interval, field))


def _latency(histogram: Histogram | None) -> tuple[str, ...]:
    if histogram is None:
        return (_UNKNOWN,) * (len(QUANTILES) + 2)
    quantiles = (histogram.quantile_text(q, _seconds, "{:g}".format) for _, q in QUANTILES)
    return (*quantiles, _seconds(histogram.mean), _count(histogram.count))


def _in_flight(found: Usage) -> str:
    """Requests, as the engine counts them and as the server does."""
    now = found.metrics
    words = f"{_count(now.running)} running, {_count(now.waiting)} waiting"
    return words if found.in_flight is None else f"{words}; {found.in_flight:,} in flight"


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number:,} requests"


def _ended(found: Usage) -> str:
    """How many requests have ended, by reason."""
    counts = found.metrics.success
    if not counts:
        return ""
    reasons = ", ".join(f"{count:,.0f} {reason}" for reason, count in counts.items() if count)
    return reasons or "none"


def _cost(found: Usage) -> str:
    """What the run has cost, and the server since its start."""
    cost = found.cost
    if cost.per_hour is None:
        return "not known: no price for this region"
    if not cost.per_hour:
        return "free: nothing leaves this machine"
    text = f"{dollars(cost.spent)} of this run, at {dollars(cost.per_hour)} an hour"
    if cost.since is None:
        return text
    started = f"{cost.since.astimezone():%Y-%m-%d %H:%M %Z}"
    return f"{text}\n{dollars(cost.since_start)} since the server's start at {started}"


def _count(count: float | None) -> str:
    return _UNKNOWN if count is None else f"{count:,.0f}"


def _share(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.1%}".replace("%", " %")


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"
