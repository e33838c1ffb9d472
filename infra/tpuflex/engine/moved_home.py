"""What a plan would make under a name that another of the stack's resources still has there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError
from tpuflex.inventory.kinds import SUBNETWORK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.engine.events import EnginePlan


def require_home_can_move(plan: EnginePlan) -> None:
    """Refuse a plan in which the home of a stack changes places with another of its regions: the
    subnetworks have one name, and Google refuses the second one of a region when the slice that
    served, and its network, are deleted already.

    Raises:
        ConflictError: it does.
    """
    found = [step for step in plan.resources if step.type == SUBNETWORK.type]
    had = {_place(step.before): step for step in found if step.before}
    for step in found:
        other = had.get(_place(step.inputs))
        if step.operation in ("create", "replace") and other and other.urn != step.urn:
            home = next((each for each in found if each.operation == "replace"), other)
            old, new = (str(each.get("region", "")) for each in (home.before, home.inputs))
            raise ConflictError(
                f"The stack's home would move from {old} to {new} in one step with other regions:"
                f" in {step.inputs.get('region')} it would have two subnetworks of one name for a"
                " moment, which Google refuses. Nothing was changed.",
                hint=f"One `up` each, with the zones and tpuflex:network.subnetwork_cidrs of: {old}"
                f" alone, then {new} alone, then all regions.",
            )


def _place(properties: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(properties.get(key) for key in ("project", "region", "name"))
