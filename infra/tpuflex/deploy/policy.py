"""The rules of policy over a plan: what `preview` shows, and what `up` refuses."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.errors import PolicyError, SettingsError
from tpuflex.inventory.other_runs import other_runs
from tpuflex.planning.cost import OtherRuns
from tpuflex.policy.evaluate import evaluate, not_current
from tpuflex.policy.planned import Planned
from tpuflex.policy.stack import StackFacts

if TYPE_CHECKING:
    from datetime import datetime

    from tpuflex.engine.events import EnginePlan
    from tpuflex.policy.violations import PolicyReport
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

#: Operations of the engine after which the resource is not there.
_GONE = frozenset({"delete", "delete-replaced", "discard", "discard-replaced"})


def planned_resources(plan: EnginePlan) -> tuple[Planned, ...]:
    """Every resource of ``plan`` as it will be, changed or not."""
    return tuple(
        Planned(step.type, step.name, step.inputs, step.urn, step.operation == "read")
        for step in plan.steps
        if step.operation not in _GONE
    )


def require_present_waivers(stack: Stack, now: datetime) -> None:
    """Refuse waivers whose last day is over ``now``.

    Raises:
        SettingsError: there is one.
    """
    if problems := not_current(stack.settings.waivers, now):
        raise SettingsError(stack.file.name, problems)


def judge(cloud: Connection, plan: EnginePlan) -> PolicyReport:
    """What the rules find in ``plan`` and in the stack."""
    settings = cloud.stack.settings
    facts = StackFacts.of(settings, _other_runs(cloud))
    return evaluate(planned_resources(plan), facts, settings.waivers, cloud.now())


def require_allowed(report: PolicyReport) -> None:
    """Refuse a plan that breaks a mandatory rule without a waiver.

    Raises:
        PolicyError: it does.
    """
    if refusals := report.refusals:
        count = "1 rule is broken" if len(refusals) == 1 else f"{len(refusals)} rules are broken"
        lines = "\n".join(f"  {finding}" for finding in refusals)
        raise PolicyError(
            f"Policy refuses this plan, {count}:\n{lines}",
            hint="Nothing was changed. To accept a breach, write it under tpuflex:waivers in the"
            " stack file, with rule, reason and until.",
        )


def _other_runs(cloud: Connection) -> OtherRuns | None:
    """The other runs of the project, if their cost is asked about; None on the embedded cloud,
    where everything is free."""
    settings = cloud.stack.settings
    if settings.budget.per_project_usd is None:
        return None
    if settings.cloud == "embedded":
        return OtherRuns(Decimal(0))
    return other_runs(
        cloud.tpu,
        settings.catalog,
        settings.project,
        settings.slice.zones,
        cloud.stack.names.owner,
    )
