"""How `tpuflex alerts` shows what the rules say."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from tpuflex.alerts.conditions import Compared, Increase
from tpuflex.alerts.judgement import Reading, State, Verdict
from tpuflex.alerts.signals import (
    KV_USE,
    PHASE_SECONDS,
    RUN_SECONDS_LEFT,
    SPENT_USD,
)
from tpuflex.duration import format_age, format_duration

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.measure.alerts import Alerts

_STATES = {
    State.FIRING: "FIRING",
    State.PENDING: "pending",
    State.OK: "ok",
    State.UNKNOWN: "not known",
}
_PHASES = frozenset(PHASE_SECONDS.values())


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
        output.result(
            f"  -> {rule.next.for_stack(found.stack, invocation.environ)}", hanging="     "
        )
        output.result(f"     `tpuflex docs runbooks/{rule.runbook}`")
    unknown, firing = len(found.of(State.UNKNOWN)), len(found.firing)
    words = f"{firing} of {len(found.verdicts)} alerts fire" if firing else "No alert fires"
    output.result(f"{words}; {unknown} are not known." if unknown else f"{words}.")
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
    part, value = reading.part, reading.value
    if value is None:
        return ""
    signal = part.signal
    words = signal.name.replace("_", " ")
    if isinstance(part, Increase):
        return f"{words} +{value:,.0f} in {format_duration(part.window)}"
    if not isinstance(part, Compared):
        return f"{value:.1%} above {part.edge:g} s in {format_duration(part.window)}"
    if signal in _PHASES:
        name = signal.name.removeprefix("seconds_in_")
        if math.isinf(value):
            return f"failed in {name}"
        return f"{format_age(timedelta(seconds=value))} in {name}" if value else ""
    if signal is KV_USE:
        return f"{value:.1%} of the KV cache".replace("%", " %")
    if signal is RUN_SECONDS_LEFT:
        left = "no run" if math.isinf(value) else format_age(timedelta(seconds=value))
        return left if math.isinf(value) else f"{left} left"
    if signal is SPENT_USD:
        limit = "" if part.limit is None else f" of {part.limit:,.2f}"
        return f"{value:,.2f}{limit} USD"
    return f"{value:,.0f} {words}"
