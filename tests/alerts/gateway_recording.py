"""What a gateway says on a day on which everything happens to it, by its own counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tests.alerts.recording import Recording
from tests.gateway.test_counters import GOOD, REFUSED, Parts, upstream
from tpuflex.advice import Advice
from tpuflex.alerts.conditions import ShareOf, parts_of
from tpuflex.alerts.gateway_rules import gateway_rules
from tpuflex.alerts.judgement import Look
from tpuflex.alerts.signals import UP, Kind, Signal
from tpuflex.gateway.counters import Counters
from tpuflex.gateway.first_token import LEAST, FirstTokenLimits
from tpuflex.gateway.outcome import Outcome
from tpuflex.settings.gateway import BUILTIN_CLASSES
from tpuflex.settings.monitoring import AlertThresholds

RULES = {
    rule.name: rule
    for rule in gateway_rules(BUILTIN_CLASSES, AlertThresholds(), Advice("{gateway_status}"))
}


_PARTS = [part for rule in RULES.values() for part in parts_of(rule.condition)]
_SIGNALS = {part.signal for part in _PARTS} | {
    part.whole for part in _PARTS if isinstance(part, ShareOf)
}
_MERGES: Mapping[str, Callable[[Iterable[float]], float]] = {"sum": sum, "min": min, "max": max}
_FAMILIES = {each.prometheus.removesuffix("_total") for each in _SIGNALS}


@dataclass(frozen=True)
class Stage:
    """What happens from one look to the next, for so many looks.

    Attributes:
        name: its name.
        looks: how many.
        late: how many requests have their first token after 3 s.
        between: seconds to the first token of ten others; None for no others.
        good: how many are in time.
        failed: how many are refused, or fail.
        every: only at each of so many looks.
        serves: whether an upstream is open.
        breaks: whether its breaker is open.
        up: whether the gateway answers.
    """

    name: str
    looks: int
    late: int = 1
    between: float | None = 0.3
    good: int = 38
    failed: int = 1
    every: int = 1
    serves: bool = True
    breaks: bool = False
    up: bool = True


#: Of all requests some are late, and some fail, on any day: less than an alert is about.
DAY = (
    Stage("steady", 60),
    Stage("less steady", 30, between=0.6),
    Stage("slow", 45, between=0.9),
    Stage("calm", 30),
    Stage("nearly very slow", 30, between=1.7),
    Stage("calm again", 30),
    Stage("very slow", 45, between=3.0),
    Stage("calm after it", 30),
    Stage("refusing", 45, good=28, failed=11),
    Stage("calm after refusals", 30),
    Stage("breaker open", 60, breaks=True),
    Stage("breaker open, few", 45, 0, None, good=1, failed=0, every=10, breaks=True),
    Stage("breaker open, none", 45, every=100, breaks=True),
    Stage("calm after the breaker", 20),
    Stage("breaker open for a moment", 10, breaks=True),
    Stage("nothing serves for a moment", 2, serves=False),
    Stage("calm before the end", 10),
    Stage("nothing serves", 10, 0, None, good=0, failed=50, serves=False),
    Stage("it serves", 20),
    Stage("down", 10, up=False),
)
#: So few requests that it takes long until there are enough of them to judge.
FEW = (
    Stage("quiet", 95, 0, None, good=1, failed=0, every=90),
    Stage("bad", 45, 1, None, good=0, failed=1),
    Stage("gone", 30, every=100),
)
CASES: Mapping[str, Sequence[Stage]] = {"day": DAY, "few": FEW}


@cache
def recorded(case: str) -> Recording:
    """What the gateway says at each look."""
    parts = Parts([upstream("prod/prod-g7", open=True)])
    [one] = parts.found
    counters = parts.counters()
    breaker = one.breaker("interactive", FirstTokenLimits(1.5, 2.0))
    stages: dict[str, int] = {}
    looks: list[dict[str, float]] = []
    for stage in CASES[case]:
        stages[stage.name] = len(looks)
        one.open = stage.serves
        if stage.breaks is not bool(breaker.opened):
            del one.breakers["interactive"]
            breaker = one.breaker("interactive", FirstTokenLimits(1.5, 2.0))
            for _ in range(LEAST if stage.breaks else 0):
                breaker.first_token(breaker.begin(0.0), 1.9)
        for look in range(stage.looks):
            if stage.up and look % stage.every == stage.every - 1:
                for each in _ended(stage):
                    counters.ended(each)
            looks.append(_series(counters) if stage.up else {})
    names = dict.fromkeys(name for look in looks for name in look)
    return Recording(stages, {name: [look.get(name) for look in looks] for name in names})


def _ended(stage: Stage) -> Iterator[Outcome]:
    seconds = [0.3] * stage.good + [3.0] * stage.late
    seconds += [] if stage.between is None else [stage.between] * 10
    yield from (replace(GOOD, first_token_s=each) for each in seconds)
    yield from (REFUSED for _ in range(stage.failed))
    # What no rule is about: a class that may be slow, and whoever has no key.
    yield replace(GOOD, request_class="batch", first_token_s=25.0)
    yield from (replace(REFUSED, request_class="", model="", status=401) for _ in range(50))


def _series(counters: Counters) -> dict[str, float]:
    return {
        "{}{{{}}}".format(
            sample.name, ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
        ): sample.value
        for family in counters.collect()
        for sample in family.samples
        if family.name in _FAMILIES
    }


def look_at(recording: Recording, number: int) -> Look:
    """A look as a judge of rules has it."""
    values = {
        name: value
        for name, each in recording.series.items()
        if (value := each[number]) is not None
    }
    numbers = {UP: 1.0 if values else 0.0}
    histograms: dict[Signal, dict[float, float]] = {}
    for signal in _SIGNALS - {UP}:
        found: dict[str, list[float]] = {}
        for name, value in values.items():
            le = _le(signal, name)
            if le is not None:
                found.setdefault(le, []).append(value)
        if signal.kind is Kind.HISTOGRAM:
            histograms[signal] = {float(le): sum(each) for le, each in found.items()}
        elif found:
            numbers[signal] = _MERGES[signal.merge](found[""])
    return Look(recording.at(number), numbers, histograms)


def _le(signal: Signal, series: str) -> str | None:
    """The edge that a series of ``signal`` counts up to, empty for none; None if it is not one."""
    name, _, rest = series.partition("{")
    labels: dict[str, str] = dict(re.findall(r'(\w+)="([^"]*)"', rest))
    bucket = "_bucket" if signal.kind is Kind.HISTOGRAM else ""
    if name != f"{signal.prometheus}{bucket}":
        return None
    if any(not re.fullmatch(like, labels[label]) for label, like in signal.where):
        return None
    return labels.get("le", "")


#: Case -> alert -> the first and the last look of each time that it fires.
FIRING: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]] = {
    "day": {
        "GatewayFirstTokenSlow": ((109, 146), (173, 206), (233, 281)),
        "GatewayFirstTokenVerySlow": ((244, 281),),
        "GatewayRefuses": ((319, 356), (574, 590)),
        "GatewayNoUpstream": ((570, 576),),
        "GatewayBreakerOpen": ((405, 503),),
        "GatewayDown": ((600, 606),),
    },
    "few": {
        "GatewayFirstTokenSlow": ((120, 153),),
        "GatewayFirstTokenVerySlow": ((120, 153),),
        "GatewayRefuses": ((107, 153),),
    },
}


def fires(case: str, alert: str, look: int) -> bool:
    """Whether ``alert`` fires at a look."""
    return any(first <= look <= last for first, last in FIRING[case].get(alert, ()))
