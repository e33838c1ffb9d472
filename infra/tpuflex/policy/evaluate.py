"""All rules over all planned resources, and over the stack; and the waivers of the stack file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from tpuflex.catalog.zones import region_of
from tpuflex.errors import Finding
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy import (
    identity_rules,
    network_rules,
    rows,
    slice_rules,
    storage_rules,
)
from tpuflex.policy.planned import Planned, many, unknown
from tpuflex.policy.rows import Rule
from tpuflex.policy.stack import StackFacts
from tpuflex.policy.violations import Breach, PolicyReport, Violation, WaivedBy
from tpuflex.settings.policy_section import Waiver

_CHEAPER = "Ask for fewer chips or a shorter max_run_duration, or raise {}."
_PRICE = (
    "Write the price into catalog.yaml, with its source, or remove {}: a cap that cannot be"
    " compared is no cap."
)
_RUN, _PROJECT = "tpuflex:budget.per_run_usd", "tpuflex:budget.per_project_usd"


def run_over_budget(facts: StackFacts) -> Iterator[Breach]:
    """A run that costs more than its cap."""
    cap = facts.per_run_usd
    if cap is None:
        return
    if facts.run_usd is None:
        yield Breach(f"no price is known for the run, and {_RUN} is ${cap}", _PRICE.format(_RUN))
    elif facts.run_usd > cap:
        yield Breach(
            f"a run costs up to ${facts.run_usd}, and {_RUN} is ${cap}", _CHEAPER.format(_RUN)
        )


def project_over_budget(facts: StackFacts) -> Iterator[Breach]:
    """Runs that together cost more than the project's cap."""
    cap = facts.per_project_usd
    if cap is None:
        return
    if facts.run_usd is None:
        yield Breach(
            f"no price is known for the run, and {_PROJECT} is ${cap}", _PRICE.format(_PROJECT)
        )
        return
    others = facts.other_runs
    known = facts.run_usd + (others.usd if others is not None else 0)
    if known > cap:
        count = others.count if others is not None else 0
        beside = (
            f" with the {count} other{'s' if count != 1 else ''} of the project" if count else ""
        )
        yield Breach(
            f"the run{beside} costs up to ${known}, and {_PROJECT} is ${cap}",
            f"Take another slice down first (`tpuflex status`). {_CHEAPER.format(_PROJECT)}",
        )
        return
    missing = others.unknown if others is not None else ("nothing here asked for the other runs",)
    for what in missing:
        yield Breach(
            f"what the project's other runs cost is not all known: {what}",
            f"Look at them before you rely on {_PROJECT}.",
            advisory=True,
        )


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may ask beside the resource that it looks at.

    Attributes:
        facts: the stack.
        regions: the regions of the planned slices.
        now: the present moment, with its time zone.
    """

    facts: StackFacts
    regions: Collection[str]
    now: datetime

    @classmethod
    def of(cls, planned: Iterable[Planned], facts: StackFacts, now: datetime) -> Context:
        """The context of ``planned``."""
        zones = [
            str(zone)
            for each in planned
            if each.type == QUEUED_RESOURCE
            for zone in many(each.inputs.get("zones"))
            if not unknown(zone)
        ]
        return cls(facts, frozenset(map(region_of, zones)), now)


ResourceCheck = Callable[[Planned, Context], Iterator[Breach]]
StackCheck = Callable[[StackFacts], Iterator[Breach]]


def _alone(check: Callable[[Planned], Iterator[Breach]]) -> ResourceCheck:
    return lambda planned, _context: check(planned)


#: What each rule looks at: every planned resource, or the stack.
RESOURCE_CHECKS: Mapping[Rule, ResourceCheck] = {
    rows.RUN_DURATION: lambda planned, context: slice_rules.endless_runs(planned, context.now),
    rows.EXTERNAL_ADDRESS: _alone(network_rules.external_addresses),
    rows.OPEN_INGRESS: _alone(network_rules.open_ingress),
    rows.FIREWALL_TARGETS: _alone(network_rules.missing_targets),
    rows.OWN_ACCOUNT: _alone(identity_rules.shared_account),
    rows.BASIC_ROLES: _alone(identity_rules.basic_roles),
    rows.PUBLIC_GRANT: _alone(identity_rules.public_grants),
    rows.ACCOUNT_KEY: _alone(identity_rules.account_keys),
    rows.PRIVATE_BUCKET: _alone(storage_rules.public_buckets),
    rows.UNIFORM_BUCKET: _alone(storage_rules.object_acls),
    rows.BUCKET_REGION: lambda planned, context: storage_rules.far_buckets(
        planned, context.regions
    ),
    rows.SECRET_REFERENCE: _alone(storage_rules.secret_values),
    rows.PINNED_IMAGE: lambda planned, context: slice_rules.unpinned_images(planned, context.facts),
    rows.IMAGE_FLOOR: lambda planned, context: slice_rules.old_images(planned, context.facts),
    rows.OWNER_MARKER: _alone(slice_rules.unmarked),
}
STACK_CHECKS: Mapping[Rule, StackCheck] = {
    rows.RUN_BUDGET: run_over_budget,
    rows.PROJECT_BUDGET: project_over_budget,
}


def evaluate(
    planned: Sequence[Planned], facts: StackFacts, waivers: Sequence[Waiver], now: datetime
) -> PolicyReport:
    """What the rules find, with the waivers applied.

    Args:
        planned: every resource as it will be, changed or not.
        facts: the stack.
        waivers: those of the stack file; none of them may be expired.
        now: the present moment, with its time zone.
    """
    context = Context.of(planned, facts, now)
    found = [waived(finding, waivers) for finding in _findings(planned, context)]
    idle = (
        f"tpuflex:waivers[{number}] ({waiver.rule}) waives nothing: remove it"
        for number, waiver in enumerate(waivers)
        if not any(_fits(waiver, finding) for finding in found)
    )
    return PolicyReport.of(found, idle)


def of_resource(rule: Rule, planned: Planned, context: Context) -> Iterator[Violation]:
    """What ``rule``, one of :data:`RESOURCE_CHECKS`, finds about one resource."""
    for breach in RESOURCE_CHECKS[rule](planned, context):
        yield _finding(rule, breach, planned)


def _findings(planned: Sequence[Planned], context: Context) -> Iterator[Violation]:
    """What the rules find, in their order."""
    for rule in rows.RULES:
        if rule in RESOURCE_CHECKS:
            for each in planned:
                yield from of_resource(rule, each, context)
        else:
            for breach in STACK_CHECKS[rule](context.facts):
                yield _finding(rule, breach)


def waived(finding: Violation, waivers: Iterable[Waiver]) -> Violation:
    """``finding`` with the first waiver that is for it."""
    for waiver in waivers:
        if _fits(waiver, finding):
            return replace(finding, waived=WaivedBy(waiver.reason, waiver.until))
    return finding


#: How far ahead the last day of a waiver may be: what is accepted is looked at once a year.
LONGEST_WAIVER = timedelta(days=366)


def not_current(waivers: Iterable[Waiver], now: datetime) -> tuple[Finding, ...]:
    """The waivers whose last day is over, or too far ahead, as problems of the stack file."""
    found: list[Finding] = []
    today = now.date()
    latest = today + LONGEST_WAIVER
    for number, waiver in enumerate(waivers):
        key = f"tpuflex:waivers[{number}].until"
        if waiver.until < today:
            problem = f"the waiver of {waiver.rule} has expired: its last day was {waiver.until}"
            remedy = "Mend what it waives and remove it, or write a new reason and a later date."
            found.append(Finding(key, problem, remedy))
        elif waiver.until > latest:
            problem = f"{waiver.until} is more than a year ahead, so nobody looks at it again"
            found.append(Finding(key, problem, f"Write {latest} at the latest."))
    return tuple(found)


def _fits(waiver: Waiver, finding: Violation) -> bool:
    named = waiver.resource is None or fnmatchcase(finding.resource, waiver.resource)
    return waiver.rule == finding.rule.id and named


def _finding(rule: Rule, breach: Breach, planned: Planned | None = None) -> Violation:
    return Violation(
        rule,
        breach.text,
        breach.remedy,
        resource=planned.name if planned else "",
        type=planned.type if planned else "",
        severity="advisory" if breach.advisory else rule.severity,
    )
