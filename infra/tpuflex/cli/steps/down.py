"""The steps of `tpuflex down`: list, ask for consent, destroy, prove that nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from tpuflex.cli.stack_run import StackRun
from tpuflex.cli.steps.ours import what_is_ours
from tpuflex.engine.events import EnginePlan
from tpuflex.engine.state import known_ids
from tpuflex.errors import ConflictError, EngineError, NotFoundError
from tpuflex.operate.status import slice_status
from tpuflex.operate.teardown import (
    Keeper,
    Kept,
    foreign_lines,
    kept,
    prove_empty,
    refuse_foreign,
    refuse_unknown,
)
from tpuflex.planning.cost import run_cost
from tpuflex.request.outcomes import PROTECTED

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.gcp.inventory import Inventory


def run_down(invocation: Invocation, cloud: Cloud, *, dry_run: bool) -> None:
    """Destroy the stack of ``cloud`` and prove that nothing of it is left.

    Raises:
        ConflictError: the slice is ACTIVE, and its deletion protection is on.
        IncompleteTeardownError: something is left, or could not be listed; or the slice is there
            and not in the state, in which case nothing was deleted.
        TpuflexError: the engine failed.
    """
    output, stack = invocation.output, cloud.stack
    stack_run = StackRun(invocation, cloud)
    has_state = stack_run.engine.exists()
    deployment = stack_run.engine.deployment() if has_state else {}
    mine = what_is_ours(cloud, deployment)
    not_deleted = kept(mine.deployment.get("resources") or ())
    protected = any(each.keeper is Keeper.PROTECT for each in not_deleted)
    if not dry_run:
        _refuse_protected(not_deleted)
    plan = EnginePlan(())
    if has_state:
        plan = stack_run.engine.preview_destroy(keep_protected=protected)
        plan = EnginePlan(tuple(step for step in plan.steps if step.urn not in mine.foreign))
    before = mine.inventory(cloud)
    refuse_unknown(before, known_ids(mine.deployment))
    show_planned(invocation, cloud, plan, before)
    for line in mine.foreign_lines():
        output.result(line)
    for each in not_deleted:
        output.result(f"Not deleted: {each}")
    if dry_run:
        output.document({"stack": stack.name, "destroyed": False, **_document(plan, before)})
        return
    if plan.changes or before.ours:
        if not invocation.yes:
            output.confirm(f"Type the stack's name ({stack.name}) to go ahead", expected=stack.name)
        if mine.foreign:
            stack_run.engine.replace(mine.deployment)
        if has_state:
            has_state = _destroyed(stack_run, plan, not_deleted, output.progress)
    left = prove_empty(
        lambda: mine.inventory(cloud),
        now=cloud.timing.monotonic,
        sleep=cloud.sleep,
        project=stack.settings.project,
        kept=not_deleted,
    )
    if has_state and not protected:
        with suppress(NotFoundError):
            stack_run.engine.remove()
    refuse_foreign(left)
    output.document({"stack": stack.name, "destroyed": True, **_document(plan, left)})
    if plan.changes or before.items:
        kinds = dict.fromkeys(item.kind for item in before.items)
        if kinds:
            output.result("Inventory now: " + ", ".join(f"{kind} 0" for kind in kinds))
        output.result(f"Nothing is left of stack {stack.name}: every service was asked.")


def _destroyed(
    stack_run: StackRun, plan: EnginePlan, not_deleted: tuple[Kept, ...], say: Callable[[str], None]
) -> bool:
    """Destroy; False if another run has removed the stack in the meantime.

    Raises:
        TpuflexError: the engine failed, and nothing is kept that explains it. (A network that a
            kept slice uses cannot be deleted either; both are listed as left.)
    """
    protected = any(each.keeper is Keeper.PROTECT for each in not_deleted)
    try:
        try:
            stack_run.destroy(plan, keep_protected=protected)
        except EngineError as error:
            if not error.stale:
                raise
            # pulumi-gcp does not take a bucket that is gone for deleted.
            say(f"{error.message}\nIt is gone already: reading the state again.")
            stack_run.refresh()
            stack_run.destroy(plan, keep_protected=protected)
    except NotFoundError:
        say("Another `tpuflex down` has removed the stack in the meantime.")
        return False
    except EngineError as error:
        if not not_deleted:
            raise
        say(error.message)
    return True


def _refuse_protected(not_deleted: tuple[Kept, ...]) -> None:
    """Stop before anything is deleted: the provider would refuse to delete the slice only after
    other resources are gone."""
    for each in not_deleted:
        if each.keeper is Keeper.DELETION_PROTECTION:
            raise ConflictError(
                f"{each.id} is ACTIVE and {PROTECTED.text}: nothing was deleted",
                hint=f"To delete it: {each.remedy}, then run `tpuflex down` again.",
            )


def show_planned(invocation: Invocation, cloud: Cloud, plan: EnginePlan, before: Inventory) -> None:
    """List what will be destroyed, and what it has cost."""
    output, stack = invocation.output, cloud.stack
    for line in foreign_lines(before):
        output.result(line)
    if not plan.changes and not before.ours:
        output.result(f"Stack {stack.name} is not up: there is nothing to destroy.")
        return
    output.heading(f"To be destroyed: stack {stack.name}")
    output.table(
        # The long column last: on a narrow terminal only that one wraps.
        ("KIND", "LOCATION", "STATE", "NAME"),
        [(item.kind, item.location, item.detail, item.name) for item in before.ours],
    )
    output.facts((("cost so far", _cost(cloud, invocation.now())),))
    output.result()


def _cost(cloud: Cloud, now: datetime) -> str:
    stack = cloud.stack
    if stack.embedded:
        return "nothing: the embedded cloud is free"
    per_hour = run_cost(stack.settings).per_hour
    try:
        status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    except NotFoundError:
        return ""
    spent = status.cost(per_hour, now)
    return "unknown" if spent is None else f"${spent}, and ${per_hour} per hour while it runs"


def _document(plan: EnginePlan, inventory: Inventory) -> dict[str, object]:
    return {
        "resources": [
            {"operation": step.operation, "type": step.type, "name": step.name}
            for step in plan.resources
        ],
        "inventory": [
            {
                "kind": item.kind,
                "name": item.name,
                "location": item.location,
                "detail": item.detail,
                "foreign": item.foreign or None,
            }
            for item in inventory.items
        ],
        "not_looked_at": list(inventory.unseen),
    }
