"""The steps of `tpuflex down`: list, consent, destroy, prove."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from tpuflex.cli.deployment import Deployment
from tpuflex.engine.run import Plan
from tpuflex.errors import NotFoundError
from tpuflex.operate.status import slice_status
from tpuflex.operate.teardown import prove_empty
from tpuflex.planning.cost import run_cost

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.gcp.inventory import Inventory


def take_down(invocation: Invocation, cloud: Cloud, *, dry_run: bool) -> None:
    """Destroy the stack of ``cloud`` and prove that nothing of it is left.

    Raises:
        IncompleteTeardownError: something is left, or could not be looked at.
        TpuflexError: the engine failed.
    """
    output, stack = invocation.output, cloud.stack
    deployment = Deployment(invocation, cloud)
    known = deployment.engine.exists()
    plan = deployment.engine.preview_destroy() if known else Plan(())
    found = cloud.inventory()
    show_condemned(invocation, cloud, plan, found)
    if dry_run:
        output.document({"stack": stack.name, "destroyed": False, **_document(plan, found)})
        return
    if plan.changes or found.items:
        if not invocation.yes:
            output.confirm(f"Type the stack's name ({stack.name}) to go ahead", expected=stack.name)
        if known:
            deployment.destroy(plan)
    left = prove_empty(
        cloud.inventory, now=time.monotonic, sleep=time.sleep, project=stack.settings.project
    )
    if known:
        deployment.engine.remove()
    output.document({"stack": stack.name, "destroyed": True, **_document(plan, left)})
    if plan.changes or found.items:
        output.result(f"Nothing is left of stack {stack.name}: every service was asked.")


def show_condemned(invocation: Invocation, cloud: Cloud, plan: Plan, found: Inventory) -> None:
    """List what will be destroyed, and what it has cost."""
    output, stack = invocation.output, cloud.stack
    if not plan.changes and not found.items:
        output.result(f"Stack {stack.name} is not up: there is nothing to destroy.")
        return
    output.heading(f"To be destroyed: stack {stack.name}")
    output.table(
        ("KIND", "NAME", "LOCATION", "STATE"),
        [(item.kind, item.name, item.location, item.detail) for item in found.items],
    )
    output.facts((("cost so far", _cost(cloud, invocation.now())),))
    output.result()


def _cost(cloud: Cloud, now: datetime) -> str:
    stack = cloud.stack
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
