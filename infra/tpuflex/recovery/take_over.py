"""Taking over what another state has made, at its owner's explicit request: the state id that it
carries is imported into this state, so that nothing in the cloud has to be relabelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.engine.state import Stored, resources, state_ids
from tpuflex.errors import EngineError
from tpuflex.naming import LABEL_STATE, STATE_ID, state_in
from tpuflex.recovery.import_state import Context
from tpuflex.recovery.look import LookResult, Presence
from tpuflex.recovery.owners import Taken
from tpuflex.recovery.program import ProgramComparison

if TYPE_CHECKING:
    from tpuflex.engine.events import Step

#: What of the steps of a program exists already.
FindTaken = Callable[[Sequence["Step"]], Sequence[Taken]]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The word to take over.

    Attributes:
        find: looks for what the program would create.
        owner: the stack's owner marker.
    """

    find: FindTaken
    owner: str

    def __call__(self, context: Context) -> None:
        """Give the state the id that the resources of the owner carry in the cloud.

        Args:
            context: what the recovery works with.

        Raises:
            EngineError: they carry several ids, or this state has made something with another one.
        """
        deployment = context.stack.deployment()
        steps = context.stack.preview().steps
        found = [each for each in self.find(steps) if each.marker.owner == self.owner]
        own = state_ids(deployment)
        ids = {each.marker.state_id for each in found if each.marker.state_id} - own
        if not ids:
            return
        in_use = {id_ for id_ in own if _marks(deployment, id_)}
        if len(ids) > 1 or in_use:
            raise _several(found, in_use)
        (id_,) = ids
        if own:
            _replace(context, deployment, id_)
        else:
            _import(context, steps, id_)


def _import(context: Context, steps: Sequence[Step], id_: str) -> None:
    creations = [step for step in steps if step.operation == "create"]
    found = [(step, LookResult(Presence.OURS, id_)) for step in creations if step.type == STATE_ID]
    ProgramComparison(context).import_found(found, creations)


def _marks(deployment: Stored, id_: str) -> bool:
    """Whether anything in ``deployment`` was made with the state id ``id_``."""
    for resource in resources(deployment):
        inputs = resource.get("inputs") or {}
        labels = inputs.get("labels")
        if isinstance(labels, dict) and labels.get(LABEL_STATE) == id_:
            return True
        if state_in(str(inputs.get("description") or "")) == id_:
            return True
    return False


def _replace(context: Context, deployment: Stored, id_: str) -> None:
    """Put ``id_`` in the place of an id that marks nothing: that of an `up` that was refused."""

    def renamed(resource: Stored) -> Stored:
        if resource["type"] != STATE_ID:
            return resource
        context.report.adopted(resource, "", id_)
        return {**resource, "id": id_, "outputs": {"value": id_}}

    changed = [renamed(resource) for resource in resources(deployment)]
    context.stack.replace({**deployment, "resources": changed})


def _several(found: Sequence[Taken], in_use: set[str]) -> EngineError:
    lines = "\n".join(f"  {each}" for each in found)
    here = f" This state has made others with the id {', '.join(sorted(in_use))}." if in_use else ""
    return EngineError(
        f"Not taken over: what is there was not made by one state.{here}\n{lines}",
        hint="Nothing was changed. Decide which of them to keep, and delete the others by hand.",
    )
