"""How `tpuflex alerts` shows what the rules say."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from tpuflex.alerts import signals
from tpuflex.alerts.conditions import Compared, Increase, ShareOf
from tpuflex.alerts.judgement import Reading, State, Verdict
from tpuflex.alerts.signals import Signal
from tpuflex.duration import format_age, format_duration
from tpuflex.terminal.money import dollars

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.measure.alerts import Alerts

_STATES = {
    State.FIRING: "FIRING",
    State.PENDING: "pending",
    State.OK: "ok",
    State.UNKNOWN: "not known",
}
#: The phase that each signal of a boot is about.
_PHASES = {signal: phase for phase, signal in signals.PHASE_SECONDS.items()}


def show_alerts(invocation: Invocation, found: Alerts) -> None:
    """Print ``found``."""
    output = invocation.output
    output.heading(f"Alerts of stack {found.stack}, {found.at.astimezone():%Y-%m-%d %H:%M:%S %Z}")
    output.table(
        ("ALERT", "STATE", "FOUND"),
        [(each.rule.name, _state(each, found), _found(each)) for each in found.verdicts],
    )
    output.result()
    for verdict in found.firing:
        rule = verdict.rule
        output.result(f"{rule.name} ({rule.severity}): {rule.summary}")
        advice = rule.next.for_stack(found.stack, invocation.environ)
        output.result(f"  -> {advice}", hanging="     ")
        output.result(f"     `tpuflex docs runbooks/{rule.runbook}`")
    unknown, firing = len(found.of(State.UNKNOWN)), len(found.firing)
    verb, are = ("fires" if firing == 1 else "fire"), ("is" if unknown == 1 else "are")
    words = f"{firing} of {len(found.verdicts)} alerts {verb}" if firing else "No alert fires"
    output.result(f"{words}; {unknown} {are} not known." if unknown else f"{words}.")
    if found.refused is not None:
        output.result(f"The server was not asked: {found.refused.message}")
        hint = found.refused.hint.for_stack(found.stack, invocation.environ)
        output.result(f"  -> {hint}" if hint else "", hanging="     ")


def _state(verdict: Verdict, found: Alerts) -> str:
    words = _STATES[verdict.state]
    if verdict.since is None or verdict.since == found.at:
        return words
    return f"{words} for {format_age(found.at - verdict.since)}"


def _found(verdict: Verdict) -> str:
    """The values that were compared, each once; or why they are not known."""
    if verdict.why:
        return verdict.why
    return ", ".join(dict.fromkeys(filter(None, map(_reading, verdict.readings)))) or "-"


def _reading(reading: Reading) -> str:
    """The value of a part in words; empty where there is nothing to say of it yet."""
    part, value = reading.part, reading.value
    if value is None:
        return ""
    if isinstance(part, Compared):
        return _gauge(part, value)
    if isinstance(part, Increase) and reading.truth is False and part.comparison == ">=":
        return f"fewer than {part.limit:,.0f} {part.signal.words[1]}"
    if not reading.whole:
        return ""
    window = format_duration(part.window)
    if isinstance(part, Increase):
        return f"{_count(part.signal, value)} in {window}"
    if isinstance(part, ShareOf):
        return f"{_percent(value)} {part.signal.words[1]} in {window}"
    return f"{_percent(value)} above {part.edge:g} s in {window}"


def _gauge(part: Compared, value: float) -> str:
    signal = part.signal
    if (phase := _PHASES.get(signal)) is not None:
        if math.isinf(value):
            return f"failed in phase {phase}"
        return f"{format_age(timedelta(seconds=value))} in phase {phase}" if value else ""
    if signal is signals.KV_USE:
        return f"{_percent(value)} of the KV cache"
    if signal is signals.UP:
        if value:
            return "" if part.throughout else "it answers"
        return "it does not answer"
    if signal is signals.RUN_SECONDS_LEFT:
        return "no run" if math.isinf(value) else f"{format_age(timedelta(seconds=value))} left"
    if signal is signals.SPENT_USD:
        cap = "" if part.limit is None else f", the cap is {dollars(part.limit)}"
        return f"{dollars(value)}{cap}"
    return _count(signal, value)


def _count(signal: Signal, value: float) -> str:
    one, many = signal.words
    return f"{value:,.0f} {one if value == 1 else many}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
