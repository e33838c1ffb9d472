"""The alert rules of a gateway, over what its own counters say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.alerts.gateway_recording import CASES, RULES, fires, look_at, recorded
from tpuflex.advice import Advice
from tpuflex.alerts.gateway_rules import gateway_rules
from tpuflex.alerts.judgement import Judge, State
from tpuflex.alerts.prometheus import gateway_text
from tpuflex.duration import format_duration
from tpuflex.settings.gateway import BUILTIN_CLASSES, ClassSettings, FirstTokenSettings
from tpuflex.settings.monitoring import AlertThresholds

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("case", CASES)
def test_rules_fire_when_they_should(case: str) -> None:
    """Each rule fires at these looks and at no other: first tokens between two edges fire the one
    alert alone, and neither does a slow class nor a client without a key change a share."""
    recording, judge = recorded(case), Judge(RULES.values())
    wrong = [
        f"{verdict.rule.name} at look {number}: {verdict.state}"
        for number in range(recording.looks)
        for verdict in judge.look(look_at(recording, number))
        if (verdict.state is State.FIRING) is not fires(case, verdict.rule.name, number)
    ]

    assert wrong == []


def test_the_guide_has_the_rules() -> None:
    """The table of docs/how-to/watch.md is that of the rules, with the defaults of the settings."""
    guide = (ROOT / "docs" / "how-to" / "watch.md").read_text()
    section = guide.partition("## Alerts of a gateway")[2].partition("\n## ")[0]

    assert [line for line in section.splitlines() if line.startswith("| `")] == [
        f"| `{rule.name}` | {rule.severity} | {rule.summary} | {format_duration(rule.held)} |"
        f" `{rule.runbook}` |"
        for rule in RULES.values()
    ]


@pytest.mark.parametrize("name", RULES)
def test_each_rule_has_a_page(name: str) -> None:
    """The page that an alert names says what to do, and how to see that it is mended."""
    text = (ROOT / "docs" / "runbooks" / f"{RULES[name].runbook}.md").read_text()

    assert f"`{name}`" in text
    assert "**What to do.**" in text
    assert "**Mended when" in text


def test_only_classes_that_are_promised_early_tokens_are_judged() -> None:
    """Not `batch`, nor one of the user's own that may be slower; without any, there is no rule."""

    def classes(**limits: float) -> dict[str, ClassSettings]:
        return {
            name: ClassSettings(first_token=FirstTokenSettings(very_slow=very_slow))
            for name, very_slow in limits.items()
        }

    def rules(found: dict[str, ClassSettings]) -> dict[str, str]:
        limits = AlertThresholds(first_token_slow=0.7, first_token_very_slow=1.2)
        text = gateway_text(gateway_rules(found, limits, Advice("x")), "", "job", "http://A:1")
        return {each["alert"]: each["expr"] for each in yaml.safe_load(text)["groups"][0]["rules"]}

    found = rules(BUILTIN_CLASSES | classes(chat=1.5, voice=0.9, slow=1.6))
    assert set(re.findall('class=~"([^"]*)"', found["GatewayFirstTokenVerySlow"])) == {"chat|voice"}
    assert set(re.findall('le=~"([^"]*)"', found["GatewayFirstTokenVerySlow"])) == {r"1\\.5(\\.0)?"}
    assert set(re.findall('le=~"([^"]*)"', found["GatewayFirstTokenSlow"])) == {r"0\\.8(\\.0)?"}
    assert "GatewayFirstTokenSlow" not in rules(classes(slow=1.6))


@pytest.mark.parametrize(("stack", "scheme"), [("prod", "https"), ("", "http")])
def test_the_head_of_a_rule_file_can_be_copied(stack: str, scheme: str) -> None:
    """Without its comment signs it is a configuration of Prometheus. What an alert says to type
    names the stack, if the gateway is configured by that of one."""
    text = gateway_text(RULES.values(), stack, "gw", f"{scheme}://127.0.0.1:8080")
    head = "\n".join(line[2:] for line in text.splitlines() if line.startswith("#   "))
    (job,) = yaml.safe_load(head)["scrape_configs"]
    (group,) = yaml.safe_load(text)["groups"]

    assert (job["scheme"], job["static_configs"]) == (scheme, [{"targets": ["127.0.0.1:8080"]}])
    assert ("tls_config" in job) is (scheme == "https")
    assert len(group["rules"]) == len(RULES)
    for rule in group["rules"]:
        assert rule["labels"].get("stack", "") == stack
        named = f" --stack {stack}" if stack else ""
        assert f"`tpuflex gateway status{named}`" in rule["annotations"]["next"]
