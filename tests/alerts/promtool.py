"""Prometheus' own rule tester, and rules that were made wrong for it to find."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.alerts.recording import INTERVAL, Recording
from tpuflex.alerts.conditions import (
    AllOf,
    AnyOf,
    Compared,
    Comparison,
    Condition,
    Increase,
    Part,
    ShareAbove,
    ShareOf,
    parts_of,
)
from tpuflex.alerts.prometheus import prometheus_rules
from tpuflex.alerts.rules import AlertRule

PROMTOOL = shutil.which("promtool")
JOB, STACK = "tpuflex-prod", "prod"
INSTANCE = "10.0.0.2:8000"
TARGET = f'job="{JOB}",instance="{INSTANCE}"'


def sequence(values: Sequence[float | None]) -> str:
    """Values of a series as promtool reads them; a scrape that failed ends it."""
    return " ".join("stale" if value is None else f"{value:.10g}" for value in values)


def rule_test(
    directory: Path, rule: AlertRule, recording: Recording, fires: Callable[[int], bool]
) -> subprocess.CompletedProcess[str]:
    """Have promtool judge ``rule`` at each look of ``recording``: whether it ``fires`` there."""
    group = prometheus_rules([rule], STACK, JOB)["groups"]
    (directory / "rules.yml").write_text(json.dumps({"groups": group}))
    up = [0.0 if values is None else 1.0 for values in next(iter(recording.series.values()))]
    series = {
        name.replace("{", f"{{{TARGET},", 1): sequence(values)
        for name, values in recording.series.items()
    }
    labels = {"severity": rule.severity, "stack": STACK, "instance": INSTANCE}
    (written,) = group[0]["rules"]  # type: ignore[index]
    alert = {"exp_labels": labels, "exp_annotations": written["annotations"]}
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{INTERVAL}s",
        "tests": [
            {
                "interval": f"{INTERVAL}s",
                "input_series": [
                    {"series": name, "values": values}
                    for name, values in {**series, f"up{{{TARGET}}}": sequence(up)}.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{look * INTERVAL}s",
                        "alertname": rule.name,
                        "exp_alerts": [alert] if fires(look) else [],
                    }
                    for look in range(recording.looks)
                ],
            }
        ],
    }
    path = directory / "test.yml"
    path.write_text(json.dumps(document))
    return subprocess.run(
        [str(PROMTOOL), "test", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def check_rules(directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Have promtool read the text of a rule file."""
    path = directory / "rules.yml"
    path.write_text(text)
    return subprocess.run(
        [str(PROMTOOL), "check", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


Change = Callable[[Condition], Condition]


def changed(condition: Condition, change: Change) -> Condition:
    """``condition`` with ``change`` made to each of its parts."""
    if isinstance(condition, AllOf | AnyOf):
        return replace(condition, of=tuple(changed(each, change) for each in condition.of))
    return change(condition)


def flips(condition: Condition) -> Iterator[Condition]:
    """``condition`` with one "and" or "or" in the place of the other."""
    if isinstance(condition, AllOf | AnyOf):
        yield AnyOf(condition.of) if isinstance(condition, AllOf) else AllOf(condition.of)
        for at, part in enumerate(condition.of):
            for wrong in flips(part):
                yield replace(condition, of=(*condition.of[:at], wrong, *condition.of[at + 1 :]))


def wrong_parts(part: Part) -> Iterator[tuple[str, Part]]:
    """``part`` with another comparison or another limit."""
    assert part.limit is not None
    if isinstance(part, ShareAbove | ShareOf):
        yield "limit-6x", replace(part, limit=part.limit * 6)
        yield "limit-tenth", replace(part, limit=part.limit / 10)
        return
    flipped: dict[Comparison, Comparison] = {">": "<", "<": ">", "==": ">", ">=": "<"}
    yield "comparison", replace(part, comparison=flipped[part.comparison])
    yield "limit-higher", replace(part, limit=part.limit * 1.15 if part.limit else 10.0)
    yield "limit-lower", replace(part, limit=part.limit / 2 - 1.01)


def in_place(old: Part, new: Part) -> Change:
    return lambda part: new if part == old else part


def other_window(old: timedelta, new: timedelta) -> Change:
    """Another window wherever a rule has ``old``."""

    def change(part: Condition) -> Condition:
        if isinstance(part, Increase | ShareAbove | ShareOf) and part.window == old:
            return replace(part, window=new)
        if isinstance(part, Compared) and part.throughout == old:
            return replace(part, throughout=new)
        return part

    return change


def other_edge(edges: Sequence[float]) -> Change:
    """The edge below that of a share."""

    def change(part: Condition) -> Condition:
        if isinstance(part, ShareAbove):
            return replace(part, edge=edges[edges.index(part.edge) - 1])
        return part

    return change


def wrong_rules(
    rules: Iterable[AlertRule], edges: Sequence[float]
) -> Iterator[tuple[str, AlertRule]]:
    """Each of ``rules`` with one thing wrong in it, and what."""
    for rule in rules:
        parts = list(parts_of(rule.condition))
        changes: dict[str, Change] = {
            f"{part.signal.name}-{at}-{what}": in_place(part, wrong)
            for at, part in enumerate(parts)
            for what, wrong in wrong_parts(part)
        }
        for window in {part.window for part in parts} - {timedelta()}:
            seconds = int(window.total_seconds())
            changes[f"{seconds}s-third"] = other_window(window, window / 3)
            changes[f"{seconds}s-3x"] = other_window(window, window * 3)
        if any(isinstance(part, ShareAbove) for part in parts):
            changes["edge"] = other_edge(edges)
        for what, change in changes.items():
            yield f"{rule.name}-{what}", replace(rule, condition=changed(rule.condition, change))
        for at, flipped in enumerate(flips(rule.condition)):
            yield f"{rule.name}-and-or-{at}", replace(rule, condition=flipped)
        yield f"{rule.name}-held-longer", replace(rule, held=rule.held + timedelta(minutes=2))
        if rule.held:
            yield f"{rule.name}-held-not", replace(rule, held=timedelta())
