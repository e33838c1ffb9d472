"""Alert policies and the dashboard, as the program declares them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
import series

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections
from tpuflex.alerts.rules import alert_rules
from tpuflex.components.monitoring import EVALUATED_EVERY
from tpuflex.naming import Names
from tpuflex.settings.load import parse

Deploy = Callable[..., Plan]
Compare = Callable[[Plan, str], None]

POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
BOARD = "gcp:monitoring/dashboard:Dashboard vllm-monitoring"
WATCHED: dict[str, Any] = {
    "labels": {"team": "search"},
    "monitoring": {
        "alert_policies": True,
        "notification_channels": ["projects/acme-serving/notificationChannels/17"],
    },
}
_METRIC = re.compile(r"workload_googleapis_com:vllm_(\w+?)(?:_bucket|_count)?\{([^}]*)\}")


@pytest.fixture
def plan(deployed: Deploy) -> Plan:
    """A stack with alert policies."""
    return deployed(sections(WATCHED))


def policies(plan: Plan) -> dict[str, dict[str, Any]]:
    """The policies of ``plan`` by the name of their rule."""
    return {
        address.rpartition("-")[2]: inputs
        for address, inputs in plan.inputs.items()
        if address.startswith(POLICY)
    }


def queries(plan: Plan) -> list[str]:
    """Every query of policies and dashboard."""
    asked = [
        condition["conditionPrometheusQueryLanguage"]["query"]
        for policy in policies(plan).values()
        for condition in policy["conditions"]
    ]
    return asked + re.findall(r'"prometheusQuery": ("(?:[^"\\]|\\.)*")', board(plan))


def board(plan: Plan) -> str:
    """The dashboard's JSON."""
    return str(plan.inputs[BOARD]["dashboardJson"])


def test_registers_what_its_inventory_says(plan: Plan, matches: Compare) -> None:
    """A policy per rule, with the user's channels and labels; one dashboard."""
    matches(plan, "monitoring.yaml")


def test_without_the_setting_there_is_nothing(deployed: Deploy) -> None:
    """Neither policy nor dashboard, which Google will charge for, unless they are asked for."""
    assert not [name for name in deployed(sections()).inputs if "onitoring" in name.split(" ")[0]]


def test_they_ask_for_what_hosts_write(plan: Plan) -> None:
    """Metric, monitored resource and its labels are those of the host's own table, and nothing is
    written that no policy and no chart asks for."""
    written = {each.name for each in series.SERIES}
    asked = set()
    for query in queries(plan):
        found = _METRIC.findall(query.replace('\\"', '"').replace("\\\\", "\\"))
        assert found, query
        for name, labels in found:
            asked.add(name)
            assert f'monitored_resource="{series.RESOURCE}"' in labels
            assert 'namespace="dev"' in labels
    assert asked == written


@pytest.mark.parametrize("stack", ["dev", "a-stack-of-a-rather-long-name-for-a-model-of-26-b-a4b"])
def test_they_look_at_the_nodes_of_this_endpoint(stack: str) -> None:
    """Another project of Pulumi's may have a stack of the same name in the same Google Cloud
    project; nodes are called after both."""
    names = Names("tpuflex", stack, "vllm")
    nodes = re.compile(names.node_pattern)

    for generation in (1, 9, 10, 123456789):
        node = names.queued_resource_id(generation)
        assert nodes.fullmatch(node)
        assert nodes.fullmatch(f"{node}-1")
    for other in ("shop", "tpuflex-x"):
        assert not nodes.fullmatch(Names(other, stack, "vllm").queued_resource_id(1))


def test_google_takes_their_times_and_texts(plan: Plan) -> None:
    """Limits of Cloud Monitoring: evaluated in multiples of 30 s, held for a day at most,
    here in whole minutes, 8,192 characters of documentation, a subject of 255 bytes."""
    assert EVALUATED_EVERY.total_seconds() % 30 == 0
    for policy in policies(plan).values():
        (condition,) = policy["conditions"]
        held = int(condition["conditionPrometheusQueryLanguage"]["duration"].removesuffix("s"))
        assert held in range(0, 86_401, 60)
        assert len(policy["documentation"]["content"]) < 8192
        assert len(policy["documentation"]["subject"].encode()) <= 255


def test_a_notification_says_what_to_do(plan: Plan) -> None:
    """What is so, the endpoint, the next command, and the runbook; a rule of which Cloud Monitoring
    sees only a part says so."""
    settings = parse(sections(WATCHED), "test")
    for rule in alert_rules(settings):
        if rule.cloud_condition is None:
            assert rule.name not in policies(plan)
            continue
        content = policies(plan)[rule.name]["documentation"]["content"]
        assert rule.summary in content
        assert settings.model.name in content
        assert "Next: `tpuflex " in content
        assert f"`tpuflex docs runbooks/{rule.runbook}`" in content
        assert ("sees a part" in content) is (rule.in_cloud is not None)


def test_the_dashboard_has_nothing_that_google_leaves_out(plan: Plan) -> None:
    """A zero, an empty list or a null in its JSON would be a change in each preview."""

    def check(value: Any) -> None:
        assert value not in (0, "", None, [], {}) or value is True
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                check(inner)

    document = json.loads(board(plan))
    check(document)
    layout = document["mosaicLayout"]
    titles = {tile["widget"].get("title", "").partition(":")[0] for tile in layout["tiles"]}
    assert policies(plan).keys() < titles
    assert len(titles) == len(layout["tiles"])
    for tile in layout["tiles"]:
        assert tile.get("xPos", 0) + tile["width"] <= layout["columns"]


def test_a_chart_draws_what_its_rule_is_about(plan: Plan) -> None:
    """A gauge with its limit; of NoTokens, requests and tokens, and not only that the server
    answers."""
    charts = {
        tile["widget"]["title"].partition(":")[0]: tile["widget"]["xyChart"]
        for tile in json.loads(board(plan))["mosaicLayout"]["tiles"]
        if "xyChart" in tile["widget"]
    }
    drawn = {
        name: {
            _METRIC.findall(each["timeSeriesQuery"]["prometheusQuery"])[0][0]
            for each in chart["dataSets"]
        }
        for name, chart in charts.items()
    }

    assert drawn["KvCacheFull"] == {"kv_cache_usage"}
    assert charts["KvCacheFull"]["thresholds"] == [{"value": 0.85}]
    assert drawn["NoTokens"] == {"requests_in_flight", "generation_tokens", "up"}
    assert "thresholds" not in charts["NoTokens"]


def test_they_are_there_before_chips_are(plan: Plan) -> None:
    """A channel that does not exist fails the update before anything is billed."""
    slice_ = plan.only("tpuflex:tpu:QueuedResource")
    assert {f"{POLICY} vllm-monitoring-{rule}" for rule in policies(plan)} <= (
        plan.dependencies[slice_]
    )


@pytest.mark.parametrize(
    ("monitoring", "words"),
    [
        ({"alert_policies": True, "export_metrics": False}, "keeps the hosts from writing"),
        ({"notification_channels": ["projects/p-12345/notificationChannels/1"]}, "no policy"),
        (
            {"alert_policies": True, "notification_channels": ["mail"]},
            "notificationChannels/NUMBER",
        ),
        (
            {
                "alert_policies": True,
                "notification_channels": ["projects/p-12345/notificationChannels/1"] * 2,
            },
            "stands there twice",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    deployed: Deploy, monitoring: dict[str, Any], words: str
) -> None:
    """Policies over metrics that nobody writes, channels that nobody uses, names of no channel."""
    with pytest.raises((pulumi.RunError, Exception), match=words):
        deployed(sections({"monitoring": monitoring}))
