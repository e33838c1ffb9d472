"""What the program would create and the cloud already has: imported into the state.

This happens when a create took effect but its answer was lost, or when a state was lost. The
queued resource's own create would adopt it; the gcp plugin's fails with 409, for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from tpuflex.engine.state import (
    PROVIDER_TYPE,
    Stored,
    adopted,
    pending_creation,
    provider_urn,
    resources,
    with_pending,
)
from tpuflex.errors import AccessError, ApiError, ServiceDisabledError
from tpuflex.inventory.kinds import Inputs, of_type
from tpuflex.inventory.resource_ids import unknown
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.recovery.import_state import (
    STILL_BEING_DELETED,
    Context,
    being_deleted,
    complete,
    import_resources,
    write_back,
)
from tpuflex.recovery.look import LookResult, Presence
from tpuflex.recovery.missing import by_id, joined_zones
from tpuflex.recovery.report import Settlement, replaced

if TYPE_CHECKING:
    from tpuflex.engine.events import Step

#: Rounds at most. Each makes more names known: networks, then what lies in them, then what
#: refers to that.
_ROUNDS = 6

Existing = list[tuple["Step", LookResult]]


class ProgramComparison:
    """The comparison of the program with the cloud.

    Args:
        context: what the recovery works with.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: URNs that are not ours, or that their plugin did not find.
        self._skipped: set[str] = set()

    def import_existing(self) -> None:
        """Import what the program would create and the cloud already has.

        Raises:
            TpuflexError: the program or the engine failed.
        """
        context = self._context
        context.say("Comparing the program with the cloud …")
        progress = False
        for _ in range(_ROUNDS):
            steps = context.stack.preview().steps
            creations = [step for step in steps if step.operation == "create"]
            existing = self._existing(creations)
            # Whether a role or an API is there only its plugin can tell, and its create does not
            # mind: not worth a round before something is found that would be in the way.
            ours = any(seen.presence is Presence.OURS for _, seen in existing)
            if not existing or not (progress or ours):
                return
            before = len(context.report.settled)
            self.import_found(existing, creations)
            progress = len(context.report.settled) > before

    def _existing(self, creations: list[Step]) -> Existing:
        """What of ``creations`` is (perhaps) there. What is asked for in full comes first and
        alone: importing it makes more known."""
        existing: Existing = []
        for step in creations:
            if not step.custom or of_type(step.type) is None or step.urn in self._skipped:
                continue
            for inputs, seen in self._looked(step):
                if seen.presence in (Presence.OURS, Presence.ASK_PLUGIN):
                    existing.append((replace(step, inputs=inputs), seen))
                elif seen.presence is Presence.FOREIGN:
                    self._skipped.add(step.urn)
                    self._context.report.foreign.append(
                        f"{seen.id} is taken and not ours: {seen.detail}"
                    )
                elif seen.error and not isinstance(seen.error, ServiceDisabledError):
                    # Of an API that is not enabled the program has nothing that works.
                    self._context.report.not_looked_at[step.urn] = seen.error
        existing = [(step, seen) for step, seen in existing if step.urn not in self._skipped]
        return [pair for pair in existing if not unknown(pair[0].inputs)] or existing

    def _looked(self, step: Step) -> list[tuple[Inputs, LookResult]]:
        """What there is of what ``step`` creates, with the inputs that it was asked for with. Of
        a queued resource that is each generation: without a state, counting starts again."""
        look = self._context.look
        try:
            series = by_id(look.generations(step.inputs)) if step.type == QUEUED_RESOURCE else {}
        except (AccessError, ApiError) as error:  # it may be there; what it needs is looked for
            return [(step.inputs, LookResult(Presence.UNKNOWN, error=error))]
        if not series:
            return [(step.inputs, look(step.type, step.inputs))]
        zones = tuple(map(str, cast("list[object]", step.inputs["zones"])))
        return [
            ({**step.inputs, "queuedResourceId": id_, "zones": joined_zones(zones, seen)}, seen[0])
            for id_, seen in series.items()
        ]

    def import_found(self, existing: Existing, creations: list[Step]) -> None:
        """Import what was found of ``creations``, with the components and providers that it
        needs."""
        context = self._context
        latest = {step.urn: seen.id for step, seen in existing}
        imported = [_entry(s, f.id) for s, f in existing if latest[s.urn] == f.id]
        earlier = [_earlier_entry(s, f.id) for s, f in existing if latest[s.urn] != f.id]
        deployment = context.stack.deployment()
        frame = _frame([*earlier, *imported], creations, deployment)
        imported = [_with_provider(one, frame) for one in imported]
        earlier = [_with_provider(one, frame) for one in earlier]
        framed = adopted(deployment, [*frame.values(), *earlier])
        # Pending until it was read: should this run be killed, the next one goes on.
        deployment = with_pending(framed, [pending_creation(one) for one in imported])
        state = import_resources(context, deployment, imported, [])
        for one in earlier:
            context.report.adopted(one, "", replaced(one))
        for one in imported:
            now = complete(state.deployment, one["urn"])
            if now is None:
                self._skipped.add(one["urn"])
            elif being_deleted(now):
                context.report.left_pending(one, "creating", STILL_BEING_DELETED)
            else:
                context.report.adopted(one, "", str(now["id"]))
        # Those of earlier rounds, too: what they refer to may have come only now.
        adoptions = [i for i in context.report.settled if i.settlement is Settlement.ADOPTED]
        write_back(context, state, {item.urn for item in adoptions if not item.operation})


def _entry(step: Step, id_: str) -> Stored:
    """The entry of something that the program would create and the cloud has."""
    return {
        "urn": step.urn,
        "custom": True,
        "id": id_,
        "type": step.type,
        # What is only known in part is read from the cloud instead.
        "inputs": {} if unknown(step.inputs) else {**step.inputs},
        "parent": step.parent,
        "provider": step.provider,
    }


def _earlier_entry(step: Step, id_: str) -> Stored:
    """The entry of an earlier generation, which is only there to be deleted."""
    known = {key: value for key, value in step.inputs.items() if not unknown(value)}
    return {**_entry(step, id_), "inputs": known}


def _frame(
    imported: Iterable[Stored],
    creations: Iterable[Step],
    deployment: Stored,
) -> dict[str, Stored]:
    """Entries, by URN, for the components and providers that ``imported`` stand under and the
    state does not have."""
    planned = {step.urn: step for step in creations}
    present = {resource["urn"] for resource in resources(deployment)}
    made: dict[str, Stored] = {}

    def ensure(urn: str) -> None:
        step = planned.get(urn)
        if step is None or urn in present or urn in made:
            return
        ensure(step.parent)
        entry: Stored = {"urn": urn, "custom": False, "type": step.type}
        if step.inputs and not unknown(step.inputs):
            entry["inputs"] = {**step.inputs}
        if step.parent:
            entry["parent"] = step.parent
        if step.type.startswith(PROVIDER_TYPE):
            inputs = {**step.inputs}
            entry |= {"custom": True, "id": str(uuid4()), "inputs": inputs, "outputs": inputs}
        made[urn] = entry

    for resource in imported:
        ensure(resource["parent"])
        ensure(provider_urn(resource))
    return made


def _with_provider(resource: Stored, frame: Mapping[str, Stored]) -> Stored:
    """``resource`` naming its provider by the provider's id, if that is in ``frame``."""
    provider = provider_urn(resource)
    if provider not in frame:
        return resource
    return {**resource, "provider": f"{provider}::{frame[provider]['id']}"}
