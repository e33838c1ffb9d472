"""Prometheus' own rule tester on what a real vLLM said, and on rules that were made wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.alerts.recording import FIRING, INTERVAL, fires, recorded
from tests.alerts.test_rules import RULES
from tpuflex.alerts.conditions import (
    AllOf,
    AnyOf,
    Compared,
    Comparison,
    Condition,
    Increase,
    Part,
    ShareAbove,
    parts_of,
)
from tpuflex.alerts.prometheus import prometheus_rules, prometheus_text
from tpuflex.alerts.rules import AlertRule

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: `apt-get install prometheus`"
)
JOB, STACK = "tpuflex-prod", "prod"
TARGET = f'job="{JOB}",instance="10.0.0.2:8000"'


def sequence(values: Sequence[float | None]) -> str:
    """Values of a series as promtool reads them; a scrape that failed ends it."""
    return " ".join("stale" if value is None else f"{value:.10g}" for value in values)


def rule_test(directory: Path, rule: AlertRule, case: str) -> subprocess.CompletedProcess[str]:
    """Have promtool judge ``rule`` at each look of the recording."""
    recording = recorded(case)
    group = prometheus_rules([rule], STACK, JOB)["groups"]
    (directory / "rules.yml").write_text(json.dumps({"groups": group}))
    up = [0.0 if values is None else 1.0 for values in next(iter(recording.series.values()))]
    series = {
        name.replace("{", f"{{{TARGET},", 1): sequence(values)
        for name, values in recording.series.items()
    }
    labels = {"severity": rule.severity, "stack": STACK, "instance": "10.0.0.2:8000"}
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
                        "exp_alerts": [alert] if fires(case, rule.name, look) else [],
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


def test_the_rule_file_is_sound(tmp_path: Path) -> None:
    """promtool takes the file that `tpuflex alerts prometheus` prints."""
    path = tmp_path / "rules.yml"
    path.write_text(prometheus_text(RULES.values(), STACK, JOB, "https://ADDRESS:8000/v1"))
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert f"{len(FIRING['recorded'])} rules found" in done.stdout


@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case, rules in FIRING.items() for name in rules]
)
def test_prometheus_and_our_own_judge_agree(tmp_path: Path, case: str, name: str) -> None:
    """At each look of the recording Prometheus fires where tests/alerts/test_recording.py does."""
    done = rule_test(tmp_path, RULES[name], case)

    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


#: What was not recorded: the rule that must not fire, and series of a server, a sample each 10 s.
QUIET: dict[str, tuple[str, dict[str, str]]] = {
    # It hung for less than is allowed; then `increase` sees its last samples alone.
    "a server that has ended": (
        "NoTokens",
        {
            "vllm:num_requests_running": "8x39 stale _x40",
            "vllm:generation_tokens_total": "0+100x30 3000x8 stale _x40",
            "up": "1x39 0x41",
        },
    ),
    # Five were slow before the first look, none after it: `rate` extrapolates only one of the two.
    "slow first tokens before the first look": (
        "FirstTokenVerySlow",
        {
            "vllm:time_to_first_token_seconds_count": "5+10x80",
            "vllm:time_to_first_token_seconds_bucket": "0+10x80",
            "up": "1x80",
        },
    ),
}


@pytest.mark.parametrize("case", QUIET)
def test_a_rule_is_quiet(tmp_path: Path, case: str) -> None:
    """What PromQL makes of few samples fires nothing."""
    name, series = QUIET[case]
    (tmp_path / "rules.yml").write_text(json.dumps(prometheus_rules([RULES[name]], STACK, JOB)))
    labels = {each: ',le="2.5"' for each in series if each.endswith("_bucket")}
    test = {
        "interval": "10s",
        "input_series": [
            {"series": f"{each}{{{TARGET}{labels.get(each, '')}}}", "values": values}
            for each, values in series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{look * 10}s", "alertname": name, "exp_alerts": []}
            for look in range(81)
        ],
    }
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "10s", "tests": [test]}
    (tmp_path / "test.yml").write_text(json.dumps(document))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(tmp_path / "test.yml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


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
    if isinstance(part, ShareAbove):
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
        if isinstance(part, Increase | ShareAbove) and part.window == old:
            return replace(part, window=new)
        if isinstance(part, Compared) and part.throughout == old:
            return replace(part, throughout=new)
        return part

    return change


def other_edge(part: Condition) -> Condition:
    """The edge below that of a share."""
    if isinstance(part, ShareAbove):
        return replace(part, edge={1.0: 0.75, 2.5: 1.0}[part.edge])
    return part


def wrong_rules() -> Iterator[tuple[str, AlertRule]]:
    """Each rule with one thing wrong in it, and what."""
    for name in FIRING["recorded"]:
        rule = RULES[name]
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
            changes["edge"] = other_edge
        for what, change in changes.items():
            yield f"{name}-{what}", replace(rule, condition=changed(rule.condition, change))
        for at, flipped in enumerate(flips(rule.condition)):
            yield f"{name}-and-or-{at}", replace(rule, condition=flipped)
        yield f"{name}-held-longer", replace(rule, held=rule.held + timedelta(minutes=2))
        if rule.held:
            yield f"{name}-held-not", replace(rule, held=timedelta())


WRONG = dict(wrong_rules())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(tmp_path: Path, name: str) -> None:
    """A rule with another threshold, window, comparison or time to hold fails on the recording."""
    rule = WRONG[name]
    said = [rule_test(tmp_path, rule, case) for case, rules in FIRING.items() if rule.name in rules]

    assert any(each.returncode for each in said), "promtool finds nothing wrong"
    assert "FAILED" in "".join(each.stdout + each.stderr for each in said)
