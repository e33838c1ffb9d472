"""The steps of `tpuflex down`: list, ask for consent, destroy, prove that nothing is left."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.purge import (
    nothing_text,
    planned_copies,
    planned_purge,
    purge,
    purge_text,
)
from tpuflex.deploy.teardown import Planned, StackTeardown
from tpuflex.deploy.teardown_proof import Kept, foreign_lines
from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError, TpuflexError
from tpuflex.operate.slice import slice_status
from tpuflex.planning.cost import cost_in
from tpuflex.queued_resource.outcomes import PROTECTED
from tpuflex.weights.stack_weights import StackWeights, is_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuflex.cli.invocation import Invocation
    from tpuflex.inventory.inventory import Inventory
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output
    from tpuflex.weights.removal import Removal


def run_down(
    invocation: Invocation, cloud: Connection, *, dry_run: bool, purge_weights: bool = False
) -> None:
    """Destroy the stack of ``cloud`` and prove that nothing of it is left.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        dry_run: whether only what would be destroyed is shown.
        purge_weights: whether the weights go, too, that outlive the stack.

    Raises:
        ConflictError: the slice is ACTIVE, and its deletion protection is on; or the weights that
            are to go may be of use to others.
        IncompleteTeardownError: something is left, or could not be listed; or the slice is there
            and not in the state, in which case nothing was deleted.
        TpuflexError: the engine failed.
    """
    output, stack = invocation.output, cloud.stack
    teardown = StackTeardown(invocation, cloud)
    planned = teardown.look()
    if planned.serving is not None and not dry_run:
        raise protected(planned.serving)
    before, home = planned.before, StackWeights(cloud)
    doomed = planned_purge(home, planned.served) if purge_weights else None
    copies = planned_copies(home, planned.served) if purge_weights else ()
    show_planned(invocation, cloud, planned)
    if doomed is not None:
        output.result(purge_text(home, doomed))
    elif purge_weights:
        output.result(nothing_text(home))
    for there, copy in copies:
        output.result(purge_text(there, copy))
    if dry_run:
        shown: dict[str, object] = {
            "to_destroy": [item.to_json() for item in planned.to_destroy],
            "purged_weights": None if doomed is None else doomed.to_json(),
        }
        if copies:
            shown["purged_copies"] = _copies(copies)
        document = {"stack": stack.name, "destroyed": False, **_document(planned, before), **shown}
        output.document(document)
        return
    if not (planned.nothing and doomed is None and not copies) and not invocation.yes:
        output.confirm_name("stack's name", stack.name)
    places = (*(() if doomed is None else ((home, doomed),)), *copies)
    left = teardown.carry_out(planned)
    _show_left(output, planned, stack.name)
    purged, failed = _purged(places)
    kept = teardown.kept(planned)
    done = {"stack": stack.name, "destroyed": True, **_document(planned, left)}
    if is_shared(stack):
        done["kept_weights"] = kept.weights
        here = [removal.to_json() for there, removal in purged if there is home]
        done["purged_weights"] = here[0] if here else None
    if removed := [each for each in purged if each[0] is not home]:
        done["purged_copies"] = _copies(removed)
    output.document(done)
    for there, removal in purged:
        output.result(f"Removed: gs://{there.bucket}/{removal.prefix}.")
    if kept.line:
        output.result(kept.line)
    if failed is not None:
        raise failed


def _purged(
    doomed: Iterable[tuple[StackWeights, Removal]],
) -> tuple[list[tuple[StackWeights, Removal]], TpuflexError | None]:
    """Remove the sets of weights that are ``doomed``: those that are gone, and what kept the rest.
    The stack is gone by then, which is to be told all the same."""
    purged: list[tuple[StackWeights, Removal]] = []
    try:
        for there, planned in doomed:
            purged.append((there, purge(there, planned)))
    except TpuflexError as error:
        return purged, error
    return purged, None


def _copies(of: Sequence[tuple[StackWeights, Removal]]) -> list[dict[str, object]]:
    """Sets in further regions, for ``--json``."""
    return [{"bucket": there.bucket, **removal.to_json()} for there, removal in of]


def _show_left(output: Output, planned: Planned, name: str) -> None:
    """Say that the stack is gone; before its weights go, which may be refused."""
    items = planned.before.items
    if not planned.plan.changes and not items:
        return
    if kinds := dict.fromkeys(item.kind for item in items):
        output.result("Inventory now: " + ", ".join(f"{kind} 0" for kind in kinds))
    output.result(f"Nothing is left of stack {name}: every service was asked.")


def protected(serving: Kept) -> ConflictError:
    """The error for a slice that serves and is protected. It is raised before anything is deleted:
    the provider would refuse only after other resources are gone."""
    return ConflictError(
        f"{serving.id} is ACTIVE and {PROTECTED.text}: nothing was deleted",
        hint=Advice("To delete it: {remedy}, then run `{down}` again.", remedy=serving.remedy),
    )


def show_planned(invocation: Invocation, cloud: Connection, planned: Planned) -> None:
    """List what will be destroyed, what not, and what it has cost."""
    output, stack = invocation.output, cloud.stack
    for line in foreign_lines(planned.before):
        output.result(line)
    if planned.nothing:
        output.result(f"Stack {stack.name} is not up: there is nothing to destroy.")
    else:
        output.heading(f"To be destroyed: stack {stack.name}")
        output.table(
            # The long column last: on a narrow terminal only that one wraps.
            ("KIND", "LOCATION", "STATE", "NAME"),
            [(item.kind, item.location, item.detail, item.name) for item in planned.to_destroy],
        )
        for line in planned.unseen_lines(stack.settings.project):
            output.result(line)
        output.facts((("cost so far", _cost(cloud, cloud.now())),))
        output.result()
    for line in planned.kept_lines():
        output.result(line)


def _cost(cloud: Connection, now: datetime) -> str:
    stack = cloud.stack
    if stack.embedded:
        return "nothing: the embedded cloud is free"
    try:
        status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    except NotFoundError:
        return ""
    except (AccessError, ApiError):
        return "unknown"  # it may not be read; what is to be destroyed says so
    per_hour = cost_in(stack.settings, status.zone).per_hour
    spent = status.cost(per_hour, now)
    return "unknown" if spent is None else f"${spent}, and ${per_hour} per hour while it runs"


def _document(planned: Planned, inventory: Inventory) -> dict[str, object]:
    return {
        "resources": [
            {"operation": step.operation, "type": step.type, "name": step.name}
            for step in planned.plan.resources
        ],
        "inventory": [item.to_json() for item in inventory.items],
        "kept": list(inventory.kept),
        "not_looked_at": list(inventory.unseen),
        "not_compared": planned.mine.uncompared_lines(),
    }
