"""What the rules of policy find, as `preview`, `up` and `policy` show it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from tests.cli.typing import Captured, TypeIn
from tests.policy.resources import firewall, slice_
from tests.unit.stack_sections import embedded
from tools.docs.policy_reference import policy_reference
from tpuflex.cli.stack_plan import show_plan
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.policy import planned_resources, require_allowed
from tpuflex.deploy.stack_preview import preview
from tpuflex.deploy.stack_up import up
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.errors import PolicyError, SettingsError
from tpuflex.planning.cost import RunCost
from tpuflex.policy.evaluate import evaluate
from tpuflex.policy.rows import RULES
from tpuflex.policy.stack import StackFacts
from tpuflex.settings.load import parse
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import agree
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
FREE = RunCost(1, Decimal(0), Decimal(0), None)


def plan_with_waiver(stack: Stack) -> StackPlan:
    """A plan with an open rule, a waived external address, and a waiver of nothing."""
    waivers = [
        {"rule": "no-external-address", "reason": "a test", "until": "2026-12-31"},
        {"rule": "no-basic-roles", "reason": "a test", "until": "2026-12-31"},
    ]
    settings = parse(embedded({"waivers": waivers}), "test")
    planned = [firewall(sourceRanges=["0.0.0.0/0"]), slice_(externalIps=True)]
    report = evaluate(planned, StackFacts.of(settings), settings.waivers, NOW)
    return StackPlan(stack, EnginePlan(()), FREE, policy=report)


def test_findings_stand_in_the_plan(stack: Stack, capsys: Captured) -> None:
    """What refuses, what is waived and until when, and a waiver of nothing, a line each."""
    show_plan(Output(json=False, verbose=False), plan_with_waiver(stack))

    shown = capsys.readouterr().out
    assert shown.endswith(
        "  resources  none\n"
        "  refused    r (no-open-ingress): 0.0.0.0/0 lets in the internet, or as good as all of it."
        " Write the addresses of your clients, such as 203.0.113.7/32.\n"
        "  waived     slice (no-external-address): externalIps gives the hosts external addresses."
        " Waived until 2026-12-31: a test\n"
        "  policy     tpuflex:waivers[1] (no-basic-roles) waives nothing: remove it\n"
        "\n"
    )


def test_findings_in_json(stack: Stack) -> None:
    """`preview --json` has each finding with rule, severity, resource, remedy and waiver."""
    policy = plan_with_waiver(stack).to_json()["policy"]

    assert json.loads(json.dumps(policy)) == {
        "refused": True,
        "findings": [
            {
                "rule": "no-open-ingress",
                "severity": "mandatory",
                "resource": "r",
                "type": "gcp:compute/firewall:Firewall",
                "text": "0.0.0.0/0 lets in the internet, or as good as all of it",
                "remedy": "Write the addresses of your clients, such as 203.0.113.7/32.",
                "waived": None,
            },
            {
                "rule": "no-external-address",
                "severity": "mandatory",
                "resource": "slice",
                "type": "tpuflex:tpu:QueuedResource",
                "text": "externalIps gives the hosts external addresses",
                "remedy": "Leave it out and use `tpuflex tunnel`, or waive the rule with a reason.",
                "waived": {"reason": "a test", "until": "2026-12-31"},
            },
        ],
        "idle_waivers": ["tpuflex:waivers[1] (no-basic-roles) waives nothing: remove it"],
    }


def test_a_broken_rule_refuses(stack: Stack) -> None:
    """What is broken and not waived is an error of its own kind, with the way to accept it."""
    with pytest.raises(PolicyError) as raised:
        require_allowed(plan_with_waiver(stack).policy)

    assert raised.value.exit_code == 11
    assert raised.value.message.startswith("Policy refuses this plan, 1 rule is broken:\n  r (no-o")
    assert "no-external-address" not in raised.value.message
    assert "tpuflex:waivers" in str(raised.value.hint)


def test_what_goes_is_not_judged() -> None:
    """Of a plan, rules look at what will be there: changed or not, and not at what is deleted."""
    steps = [
        Step(operation, "gcp:storage/bucket:Bucket", operation, f"urn:{operation}")
        for operation in ("create", "same", "update", "replace", "delete", "discard")
    ]

    judged = [each.name for each in planned_resources(EnginePlan(tuple(steps)))]

    assert judged == ["create", "same", "update", "replace"]


@pytest.mark.parametrize("begin", [preview, partial(up, consent=agree)], ids=["preview", "up"])
def test_an_expired_waiver_is_an_error(stack: Stack, begin: Callable[[Connection], object]) -> None:
    """A waiver whose last day is over ends `preview` and `up` by its key, before the cloud or the
    engine is asked anything."""
    waiver = {"rule": "run-duration", "reason": "a test", "until": "2020-01-31"}
    settings = parse(embedded({"waivers": [waiver]}), "test")

    with pytest.raises(SettingsError) as refused:
        begin(Connection(replace(stack, settings=settings), {}, now=lambda: NOW))

    (finding,) = refused.value.findings
    assert str(refused.value).startswith("Pulumi.dev.yaml has 1 problem:")
    assert finding.key == "tpuflex:waivers[0].until"
    assert "its last day was 2020-01-31" in finding.problem


def test_the_rules_are_listed(type_in: TypeIn) -> None:
    """`policy` lists every rule, for people and for scripts, and a pack that is there."""
    shown, document = type_in("policy"), type_in("policy", "--json")

    listed = json.loads(document.out)
    assert [rule["id"] for rule in listed["rules"]] == [rule.id for rule in RULES]
    assert (Path(listed["policy_pack"]) / "PulumiPolicy.yaml").is_file()
    assert all(rule.id in shown.out and rule.requires in shown.out for rule in RULES)


def test_the_page_leaves_no_rule_out() -> None:
    """docs/policy.md has each rule with what it protects and where that is documented."""
    page = policy_reference()

    assert all(f"| `{rule.id}` | {rule.requires} | {rule.protects}" in page for rule in RULES)
