"""The rules of policy: what breaks each, in every spelling, what keeps it, and what is waived."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.policy.cases import BREAKS, FACTS, KEEPS, NOW, Case
from tests.policy.resources import firewall, slice_
from tpuflex.policy import rows
from tpuflex.policy.evaluate import RESOURCE_CHECKS, STACK_CHECKS, evaluate, not_current
from tpuflex.policy.violations import PolicyReport
from tpuflex.settings.policy_section import Waiver


def judged(case: Case, *waivers: Waiver) -> PolicyReport:
    return evaluate(case.resources, case.facts, waivers, NOW)


def waiver(rule: str, resource: str | None = None, *, days: int = 1) -> Waiver:
    return Waiver(
        rule=rule, resource=resource, reason="seen by me", until=NOW.date() + timedelta(days)
    )


@pytest.mark.parametrize("case", BREAKS, ids=str)
def test_what_breaks_a_rule_is_found(case: Case) -> None:
    """Each spelling of a breach is found, and refuses unless nothing can be told yet."""
    report = judged(case)
    found = [finding for finding in report.findings if finding.rule == case.rule]

    assert found
    assert {finding.severity for finding in found} == {"advisory" if case.advisory else "mandatory"}
    assert bool([f for f in report.refusals if f.rule == case.rule]) is not case.advisory
    assert all(finding.text and finding.remedy.endswith(".") for finding in found)


@pytest.mark.parametrize("case", KEEPS, ids=str)
def test_what_keeps_the_rules_is_not_found(case: Case) -> None:
    """What looks like a breach and is none passes."""
    assert [f for f in judged(case).findings if f.rule == case.rule] == []


def test_each_rule_is_broken_and_kept() -> None:
    """There are a breach of each rule and what keeps it among the cases, a check, and a row."""
    assert {case.rule for case in BREAKS} == set(rows.RULES)
    assert {case.rule for case in KEEPS} == set(rows.RULES)
    assert {*RESOURCE_CHECKS, *STACK_CHECKS} == set(rows.RULES)
    assert len(set(rows.RULE_IDS)) == len(rows.RULES)


@pytest.mark.parametrize("case", BREAKS, ids=str)
def test_a_waived_breach_refuses_nothing(case: Case) -> None:
    """A waiver of the rule keeps the finding and takes its refusal, on its last day, too."""
    report = judged(case, waiver(case.rule.id, days=0))
    found = [finding for finding in report.findings if finding.rule == case.rule]

    assert found
    assert all(finding.waived and finding.waived.reason == "seen by me" for finding in found)
    assert case.rule not in {finding.rule for finding in report.refusals}
    assert report.idle == ()


def test_a_waiver_of_one_resource_is_for_no_other() -> None:
    """A waiver that names a resource, `*` allowed, waives no other."""
    open_rule = firewall(sourceRanges=["0.0.0.0/0"])

    for name, refused in (("r", False), ("*", False), ("other-*", True)):
        report = evaluate([open_rule], FACTS, [waiver("no-open-ingress", name)], NOW)
        assert bool(report.refusals) is refused
    assert report.idle == ("tpuflex:waivers[0] (no-open-ingress) waives nothing: remove it",)


def test_a_waiver_of_another_rule_waives_nothing() -> None:
    """A waiver is for its rule alone."""
    report = evaluate([slice_(externalIps=True)], FACTS, [waiver("no-open-ingress")], NOW)

    assert [finding.rule for finding in report.refusals] == [rows.EXTERNAL_ADDRESS]


def test_an_expired_waiver_is_an_error() -> None:
    """A waiver is an error by its key from the day after its last one."""
    over, last = waiver("no-open-ingress", days=-1), waiver("no-basic-roles", days=0)

    (problem,) = not_current([last, over], NOW)

    assert problem.key == "tpuflex:waivers[1].until"
    assert problem.problem == (
        "the waiver of no-open-ingress has expired: its last day was 2026-11-21"
    )
    assert over.until == date(2026, 11, 21)


def test_a_waiver_ends_within_a_year() -> None:
    """What is accepted is looked at again: a last day that is further ahead is an error."""
    year, more = waiver("no-open-ingress", days=366), waiver("no-basic-roles", days=367)

    (problem,) = not_current([year, more], NOW)

    assert problem.key == "tpuflex:waivers[1].until"
    assert "more than a year ahead" in problem.problem
    assert problem.remedy == f"Write {year.until} at the latest."


def test_what_refuses_comes_first() -> None:
    """Findings are in the order: refused, undecided, waived."""
    resources = [
        slice_(externalIps=True, maxRunDuration="2y"),
        firewall(sourceRanges="04da6b54-80e4-46f7-96ec-b56ff0331ba9"),
    ]
    report = evaluate(resources, FACTS, [waiver("run-duration")], NOW)

    assert [(f.rule.id, f.refuses) for f in report.findings] == [
        ("no-external-address", True),
        ("no-open-ingress", False),
        ("run-duration", False),
    ]


def test_no_finding_holds_a_secret() -> None:
    """A finding about a secret names its place and not its value."""
    token = "hf_" + "s3cretS3cret" * 3
    report = evaluate([slice_(metadata={"env": token})], FACTS, (), NOW)

    assert [finding.rule for finding in report.refusals] == [rows.SECRET_REFERENCE]
    assert "s3cret" not in str(report.to_json())
    assert "s3cret" not in "".join(map(str, report.findings))
