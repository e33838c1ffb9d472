"""Prometheus' own rule tester on what a real vLLM said, and on rules that were made wrong."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.alerts.promtool import JOB, PROMTOOL, STACK, TARGET, check_rules, rule_test, wrong_rules
from tests.alerts.recording import EDGES, FIRING, fires, recorded
from tests.alerts.test_rules import RULES
from tpuflex.alerts.prometheus import prometheus_rules, prometheus_text

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: `apt-get install prometheus`"
)


def test_the_rule_file_is_sound(tmp_path: Path) -> None:
    """promtool takes the file that `tpuflex alerts prometheus` prints."""
    done = check_rules(
        tmp_path, prometheus_text(RULES.values(), STACK, JOB, "https://ADDRESS:8000/v1")
    )

    assert done.returncode == 0, done.stderr
    assert f"{len(FIRING['recorded'])} rules found" in done.stdout


@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case, rules in FIRING.items() for name in rules]
)
def test_prometheus_and_our_own_judge_agree(tmp_path: Path, case: str, name: str) -> None:
    """At each look of the recording Prometheus fires where tests/alerts/test_recording.py does."""
    done = rule_test(tmp_path, RULES[name], recorded(case), partial(fires, case, name))

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


WRONG = dict(
    wrong_rules((RULES[name] for name in FIRING["recorded"]), [float(each) for each in EDGES])
)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(tmp_path: Path, name: str) -> None:
    """A rule with another threshold, window, comparison or time to hold fails on the recording."""
    rule = WRONG[name]
    said = [
        rule_test(tmp_path, rule, recorded(case), partial(fires, case, rule.name))
        for case, rules in FIRING.items()
        if rule.name in rules
    ]

    assert any(each.returncode for each in said), "promtool finds nothing wrong"
    assert "FAILED" in "".join(each.stdout + each.stderr for each in said)
