"""The alert rules: their table in the guide, their pages, and what a stack file changes of them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from tpuflex.alerts.conditions import parts_of, signals_of
from tpuflex.alerts.grafana import dashboard
from tpuflex.alerts.prometheus import job_of, prometheus_rules, prometheus_text
from tpuflex.alerts.promql import cloud_monitoring, promql
from tpuflex.alerts.rules import AlertRule, alert_rules
from tpuflex.alerts.signals import RUN_SECONDS_LEFT, SPENT_USD, Signal
from tpuflex.duration import format_duration
from tpuflex.errors import UsageError
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings
from tpuflex.settings.monitoring import AlertThresholds, MonitoringSettings, first_token_edge

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "how-to" / "watch.md").read_text()


def settings(run: timedelta = timedelta(days=7), **thresholds: object) -> StackSettings:
    """A stack on Google with these thresholds."""
    path = ROOT / "stacks" / "Pulumi.gemma-4-31b-v6e-4.yaml"
    found = load_stack_file(path, deploying=False).settings
    monitoring = MonitoringSettings(thresholds=AlertThresholds.model_validate(thresholds))
    slice_ = found.slice.model_copy(update={"max_run_duration": run})
    return found.model_copy(update={"slice": slice_, "monitoring": monitoring})


RULES = {rule.name: rule for rule in alert_rules(settings())}


def table_row(rule: AlertRule) -> str:
    """The row of ``rule`` in the guide's table."""
    where = {
        "Prometheus": rule.prometheus_condition,
        "Cloud Monitoring": rule.cloud_condition,
        "`alerts`": rule.condition,
    }
    judges = ", ".join(name for name, condition in where.items() if condition is not None)
    held = format_duration(rule.held) if rule.held else "at once"
    return (
        f"| `{rule.name}` | {rule.severity} | {rule.summary} | {held} | {judges} |"
        f" `{rule.runbook}` |"
    )


def test_the_guide_has_the_rules() -> None:
    """The table of docs/how-to/watch.md is that of the rules, with the defaults of the settings."""
    table = GUIDE.partition("### The rules")[2].partition("\n### ")[0]
    found = [line for line in table.splitlines() if line.startswith("| `")]

    assert found == [table_row(rule) for rule in RULES.values()]


@pytest.mark.parametrize("name", RULES)
def test_each_rule_has_a_page(name: str) -> None:
    """The page that an alert names says what to do, and how to see that it is mended."""
    page = ROOT / "docs" / "runbooks" / f"{RULES[name].runbook}.md"
    text = page.read_text()

    assert f"`{name}`" in text
    assert "**What to do.**" in text
    assert "**Mended when" in text


def limit_of(stack: StackSettings, name: str, signal: Signal) -> float | None:
    """What the rule of that name compares ``signal`` with."""
    (rule,) = (each for each in alert_rules(stack) if each.name == name)
    (found,) = (each for each in parts_of(rule.condition) if each.signal is signal)
    return found.limit


@pytest.mark.parametrize(
    ("limit", "edge"), [(0.75, 0.75), (0.8, 1.0), (1.0, 1.0), (1.2, 2.5), (2.0, 2.5), (2560, 2560)]
)
def test_a_limit_between_edges_counts_from_the_next(limit: float, edge: float) -> None:
    """What is above the next edge is above the limit for certain."""
    assert first_token_edge(limit) == edge


def test_a_short_run_ends_soon_only_at_its_end() -> None:
    """The end of a run is near 6 h before it, and for a run of 4 h in its last one; or as the stack
    file says."""
    hours = timedelta(hours=1)

    def seconds(stack: StackSettings) -> float | None:
        return limit_of(stack, "RunEndsSoon", RUN_SECONDS_LEFT)

    assert seconds(settings()) == 6 * 3600
    assert seconds(settings(run=4 * hours)) == 3600
    assert seconds(settings(run=4 * hours, run_ends_within="2h")) == 2 * 3600


def test_the_cost_cap_is_the_nearest_that_is_written() -> None:
    """A cap for alerts comes before the budget of a run, and that before what its chips cost."""

    def cap(stack: StackSettings) -> float | None:
        return limit_of(stack, "CostCapReached", SPENT_USD)

    plain = settings()
    budget = plain.budget.model_copy(update={"per_run_usd": Decimal(700)})
    whole_run = cap(plain)

    assert whole_run is not None
    assert whole_run > 700
    assert cap(plain.model_copy(update={"budget": budget})) == 700
    assert cap(settings(cost_usd=100)) == 100


def test_a_rule_file_is_about_one_job() -> None:
    """Every series of the rules for Prometheus is of the stack's job, and each alert says what is
    so, its page, and the command about its stack."""
    document = yaml.safe_load(
        prometheus_text(RULES.values(), "prod", "vllm-prod", "http://A:8000/v1")
    )
    rules = document["groups"][0]["rules"]

    assert document == prometheus_rules(RULES.values(), "prod", "vllm-prod")
    for rule in rules:
        series = re.findall(r"(?:vllm:\w+|\bup)(\{[^}]*\})?", rule["expr"])
        assert series
        assert all('job="vllm-prod"' in labels for labels in series)
        assert rule["annotations"]["summary"] == RULES[rule["alert"]].summary
        assert "tpuflex " in rule["annotations"]["next"]
        assert "--stack prod" in rule["annotations"]["next"]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_head_of_a_rule_file_can_be_copied(scheme: str) -> None:
    """Without its comment signs it is a configuration of Prometheus, which trusts the stack's
    certificate where the server has one."""
    text = prometheus_text(RULES.values(), "prod", "vllm", f"{scheme}://A:8000/v1")
    head = "\n".join(line[2:] for line in text.splitlines() if line.startswith("#   "))
    (job,) = yaml.safe_load(head)["scrape_configs"]

    assert (job["scheme"], job["static_configs"]) == (scheme, [{"targets": ["A:8000"]}])
    assert ("tls_config" in job) is (scheme == "https")
    assert job["authorization"] == {"credentials_file": "/etc/prometheus/vllm.key"}


def test_the_same_rules_in_cloud_monitoring() -> None:
    """Google's names have no slash, and the resource is that of the host's own metrics."""
    dialect = cloud_monitoring("tpuflex-prod-vllm")
    condition = RULES["RequestsWaiting"].cloud_condition
    assert condition is not None

    assert promql(condition, dialect) == (
        "sum by (node_id) (workload_googleapis_com:vllm_requests_waiting"
        '{monitored_resource="generic_node",namespace="tpuflex-prod-vllm"}) > 0'
    )
    assert RULES["RunEndsSoon"].cloud_condition is not None
    assert signals_of(RULES["RunEndsSoon"].cloud_condition) == {RUN_SECONDS_LEFT}
    assert RULES["BootStuck"].cloud_condition is None


def test_a_dashboard_draws_the_limits_of_the_rules() -> None:
    """Its panels do not overlap, have each curve by its letter, and show where alerts fire."""
    rules = alert_rules(settings(kv_use=0.7, first_token_slow=0.5))
    found = dashboard(rules, "prod", job_of("prod"))
    panels = found["panels"]
    assert isinstance(panels, list)
    limits = {
        each["title"]: each["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"]
        for each in panels
    }
    places = {(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels}

    assert len(places) == len(panels)
    quoted = json.dumps(dashboard(rules, "prod", 'a"b')["panels"])
    assert json.dumps('vllm:request_success_total{job="a\\"b"}')[1:-1] in quoted
    assert limits["KV cache in use"] == 0.7
    (slow,) = (each for each in panels if "slow first token" in each["title"])
    assert {each["refId"]: each["legendFormat"] for each in slow["targets"]} == {
        **{"A": "above 0.5 s, 30m", "B": "above 0.5 s, 5m"},
        **{"C": "above 2.5 s, 30m", "D": "above 2.5 s, 5m"},
    }


@pytest.mark.parametrize("job", ["", "a\n---\ngroups: []", "a b", 'a"', "a\u2028b", "../a"])
def test_a_job_that_would_not_stay_in_its_place(job: str) -> None:
    """It stands in the file's head, as the name of another file, and in expressions."""
    with pytest.raises(UsageError, match="no job's name"):
        job_of("dev", job)
