"""The steps of `tpuflex down`: list, consent, destroy, prove."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from tpuflex.catalog.cost import run_cost
from tpuflex.cli.stack_run import Deployment
from tpuflex.engine.plan import Plan
from tpuflex.errors import ConflictError, EngineError, NotFoundError
from tpuflex.operate.keeping import Keeper, Kept, kept
from tpuflex.operate.status import slice_status
from tpuflex.operate.teardown import prove_empty
from tpuflex.request.outcomes import PROTECTED

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.gcp.inventory import Inventory


def take_down(invocation: Invocation, cloud: Cloud, *, dry_run: bool) -> None:
    """Destroy the stack of ``cloud`` and prove that nothing of it is left.

    Raises:
        ConflictError: the slice serves, and its deletion protection is on.
        IncompleteTeardownError: something is left, or could not be looked at.
        TpuflexError: the engine failed.
    """
    output, stack = invocation.output, cloud.stack
    deployment = Deployment(invocation, cloud)
    known = deployment.engine.exists()
    spared = kept(deployment.engine.resources()) if known else ()
    protected = any(each.keeper is Keeper.PROTECT for each in spared)
    if not dry_run:
        _refuse_protected(spared)
    plan = deployment.engine.preview_destroy(spare_protected=protected) if known else Plan(())
    found = cloud.inventory()
    show_condemned(invocation, cloud, plan, found)
    for each in spared:
        output.result(f"Not deleted: {each}")
    if dry_run:
        output.document({"stack": stack.name, "destroyed": False, **_document(plan, found)})
        return
    if plan.changes or found.items:
        if not invocation.yes:
            output.confirm(f"Type the stack's name ({stack.name}) to go ahead", expected=stack.name)
        if known:
            known = _destroyed(deployment, plan, spared, output.progress)
    left = prove_empty(
        cloud.inventory,
        now=cloud.timing.monotonic,
        sleep=cloud.sleep,
        project=stack.settings.project,
        kept=spared,
    )
    if known and not protected:
        with suppress(NotFoundError):
            deployment.engine.remove()
    output.document({"stack": stack.name, "destroyed": True, **_document(plan, left)})
    if plan.changes or found.items:
        kinds = dict.fromkeys(item.kind for item in found.items)
        if kinds:
            output.result("Inventory now: " + ", ".join(f"{kind} 0" for kind in kinds))
        output.result(f"Nothing is left of stack {stack.name}: every service was asked.")


def _destroyed(
    deployment: Deployment, plan: Plan, spared: tuple[Kept, ...], say: Callable[[str], None]
) -> bool:
    """Destroy; False if somebody else has, and removed the stack, since it was looked at.

    Raises:
        TpuflexError: the engine failed; not for what is in the way of what is kept: a network
            that a slice still uses cannot be deleted, and is listed with it as left.
    """
    protected = any(each.keeper is Keeper.PROTECT for each in spared)
    try:
        deployment.destroy(plan, spare_protected=protected)
    except NotFoundError:
        say("Another `tpuflex down` has removed the stack meanwhile.")
        return False
    except EngineError as error:
        if not spared:
            raise
        say(error.message)
    return True


def _refuse_protected(spared: tuple[Kept, ...]) -> None:
    """Stop before anything is deleted: the provider would refuse the slice only after what
    depends on nothing has gone."""
    for each in spared:
        if each.keeper is Keeper.DELETION_PROTECTION:
            raise ConflictError(
                f"{each.id} is ACTIVE and {PROTECTED.text}: nothing was deleted",
                hint=f"To delete it: {each.remedy}, then run `tpuflex down` again.",
            )


def show_condemned(invocation: Invocation, cloud: Cloud, plan: Plan, found: Inventory) -> None:
    """List what will be destroyed, and what it has cost."""
    output, stack = invocation.output, cloud.stack
    if not plan.changes and not found.items:
        output.result(f"Stack {stack.name} is not up: there is nothing to destroy.")
        return
    output.heading(f"To be destroyed: stack {stack.name}")
    output.table(
        # The long column last: on a narrow terminal it alone is broken.
        ("KIND", "LOCATION", "STATE", "NAME"),
        [(item.kind, item.location, item.detail, item.name) for item in found.items],
    )
    output.facts((("cost so far", _cost(cloud, invocation.now())),))
    output.result()


def _cost(cloud: Cloud, now: datetime) -> str:
    stack = cloud.stack
    if stack.embedded:
        return "nothing: the embedded cloud is free"
    per_hour = run_cost(stack.settings).per_hour
    try:
        status = slice_status(stack.settings, stack.names, cloud.tpu)
    except NotFoundError:
        return ""
    spent = status.cost(per_hour, now)
    return "unknown" if spent is None else f"${spent}, and ${per_hour} per hour while it runs"


def _document(plan: Plan, inventory: Inventory) -> dict[str, object]:
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
            }
            for item in inventory.items
        ],
        "not_looked_at": list(inventory.unseen),
    }
