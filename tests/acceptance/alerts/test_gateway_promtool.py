"""Prometheus' own rule tester on what a gateway says, and on rules that were made wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.alerts.gateway_recording import CASES, FIRING, RULES, fires, recorded
from tests.alerts.promtool import JOB, PROMTOOL, STACK, check_rules, rule_test, wrong_rules
from tpuflex.alerts.gateway_rules import FIRST_TOKEN_EDGES
from tpuflex.alerts.prometheus import gateway_text

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: `apt-get install prometheus`"
)


def test_the_rule_file_is_sound(tmp_path: Path) -> None:
    """promtool takes the file that `tpuflex gateway alerts` prints."""
    done = check_rules(tmp_path, gateway_text(RULES.values(), STACK, JOB, "https://ADDRESS:8080"))

    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", RULES)
def test_prometheus_and_our_own_judge_agree(tmp_path: Path, case: str, name: str) -> None:
    """At each look Prometheus fires where tests/alerts/test_gateway_rules.py does."""
    done = rule_test(tmp_path, RULES[name], recorded(case), partial(fires, case, name))

    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


WRONG = dict(wrong_rules(RULES.values(), FIRST_TOKEN_EDGES))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(tmp_path: Path, name: str) -> None:
    """A rule with another threshold, window, edge, comparison or time to hold fails on it."""
    rule = WRONG[name]
    found = any(
        rule_test(tmp_path, rule, recorded(case), partial(fires, case, rule.name)).returncode
        for case in FIRING
    )

    assert found, "promtool finds nothing wrong"
