"""The rules as policies of pulumi-policy: two each, because some breaches refuse nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from tpuflex.errors import SettingsError
from tpuflex.policy.planned import Planned
from tpuflex.policy.rows import Rule, Severity
from tpuflex.policy.violations import Violation
from tpuflex.policy_pack.judge import SINGLE, WHOLE_PLAN, Judge, plain
from tpuflex.settings.load import load_pulumi_config
from tpuflex.settings.model import NAMESPACE

_LEVELS: dict[Severity, EnforcementLevel] = {
    "mandatory": EnforcementLevel.MANDATORY,
    "advisory": EnforcementLevel.ADVISORY,
}


def policies(judge: Callable[[], Judge]) -> list[Policy]:
    """Every policy of the pack.

    Args:
        judge: gives the judge of the stack, once the engine has said which one that is.
    """
    made: list[Policy] = []
    for severity in _LEVELS:
        made += [_single(rule, severity, judge) for rule in SINGLE]
        made += [_whole(rule, severity, judge) for rule in WHOLE_PLAN]
    return [*made, *_about_settings(judge)]


@cache
def stack_judge() -> Judge:
    """The judge of the stack that the engine works on; a stack without a key of tpuflex has
    neither waivers nor budgets."""
    now = datetime.now(UTC)
    if not any(key.startswith(NAMESPACE) for key in {**get_config_env(), **CONFIG.get()}):
        return Judge(now)
    try:
        return Judge.of(load_pulumi_config(pulumi.Config(NAMESPACE.rstrip(":"))), now)
    except SettingsError as error:
        return Judge.without(error, now)


def _single(rule: Rule, severity: Severity, judge: Callable[[], Judge]) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        _report(judge().of_resource(rule, _planned(args)), severity, lambda text, _: report(text))

    return ResourceValidationPolicy(
        _name(rule, severity), rule.requires, validate, _LEVELS[severity], url=rule.see or None
    )


def _whole(rule: Rule, severity: Severity, judge: Callable[[], Judge]) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        urns = {each.name: each.urn for each in args.resources}
        found = judge().of_plan(rule, [_planned(each) for each in args.resources])
        _report(found, severity, lambda text, name: report(text, urns.get(name)))

    return StackValidationPolicy(
        _name(rule, severity), rule.requires, validate, _LEVELS[severity], url=rule.see or None
    )


def _about_settings(judge: Callable[[], Judge]) -> list[Policy]:
    def waivers(args: StackValidationArgs, report: ReportViolation) -> None:
        del args
        for problem in judge().problems:
            report(str(problem))

    def settings(args: StackValidationArgs, report: ReportViolation) -> None:
        del args
        if text := judge().unread:
            report(text)

    return [
        StackValidationPolicy(
            "waivers", "No waiver has expired.", waivers, EnforcementLevel.MANDATORY
        ),
        StackValidationPolicy(
            "settings",
            "The pack can read the stack's settings.",
            settings,
            EnforcementLevel.ADVISORY,
        ),
    ]


def _planned(resource: ResourceValidationArgs) -> Planned:
    """A resource as pulumi-policy describes it, alone or among all."""
    inputs = plain(resource.props, UnknownValueError)
    return Planned(resource.resource_type, resource.name, inputs, resource.urn)


def _report(
    findings: Iterable[Violation], severity: Severity, report: Callable[[str, str], None]
) -> None:
    for finding in findings:
        if finding.severity == severity:
            report(f"{finding.text}. {finding.remedy}", finding.resource)


def _name(rule: Rule, severity: Severity) -> str:
    return rule.id if severity == rule.severity else f"{rule.id}-{severity}"
