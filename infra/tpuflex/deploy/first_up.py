"""A first `up`, before it makes anything: are the names free, or does another state hold them?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tpuflex.engine.state import known_ids
from tpuflex.errors import AlreadyExistsError
from tpuflex.inventory.kinds import BUCKET
from tpuflex.inventory.unlisted import reasons
from tpuflex.naming import STATE_ID
from tpuflex.queued_resource.outcomes import OTHER_STATE
from tpuflex.recovery.owners import Taken, names
from tpuflex.recovery.report import counted

if TYPE_CHECKING:
    from tpuflex.deploy.stack_run import StackRun
    from tpuflex.engine.events import EnginePlan
    from tpuflex.stack.connection import Connection

_NOT_OURS = "Nothing was changed. Delete it if it is nobody's, or take another stack name."


def require_free_names(
    cloud: Connection, stack_run: StackRun, plan: EnginePlan, say: Callable[[str], None]
) -> None:
    """Check that nothing exists of what a new state would create, and say what could not be looked
    at.

    Only a first `up` asks: a state that has its id made (or took over) what it knows.

    Raises:
        AlreadyExistsError: another state has made it, or somebody else; says who.
    """
    if not any(step.type == STATE_ID and step.operation == "create" for step in plan.steps):
        return
    there = names(cloud.apis(), plan.steps)
    for line in reasons(there.unseen):
        say(f"  warning  nobody could look whether these names are free: {line}")
    found = there.taken
    if found:
        # What a killed run has begun is not somebody else's.
        known = known_ids(stack_run.engine.deployment())
        found = tuple(each for each in found if each.id not in known)
    if found:
        if any(each.kind == BUCKET.name for each in found):
            cloud.is_there(cloud.made_bucket)  # one in another project has a way out of its own
        raise refusal(cloud, found)


def refusal(cloud: Connection, found: Sequence[Taken]) -> AlreadyExistsError:
    """The error for what was ``found`` under the stack's names and its state does not know."""
    stack = cloud.stack
    lines = "\n".join(sorted(f"  {each}" for each in found))
    ours = any(each.marker.owner == stack.names.owner for each in found)
    return AlreadyExistsError(
        f"{counted(found, 'resource')} of stack {stack.name} of project {stack.project.name}"
        f" already in Google Cloud project {stack.settings.project}, and not in this state:\n"
        + lines,
        hint=OTHER_STATE if ours else _NOT_OURS,
    )
