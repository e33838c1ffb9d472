"""What the program would create and the cloud already has: taken into the state.

It comes about when a create took effect but its answer was lost, or when a state was lost. The
queued resource's own create would adopt it; the gcp plugin's fails with 409, for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tpuflex.engine.recovery.import_state import (
    STILL_GOING,
    Means,
    going,
    linked,
    read_in,
    whole,
)
from tpuflex.engine.recovery.look import Answer, Finding
from tpuflex.engine.recovery.missing import by_id, joined_zones
from tpuflex.engine.recovery.report import Outcome, Recovery
from tpuflex.engine.state import (
    PROVIDER_TYPE,
    Stored,
    adopted,
    begun,
    provider_urn,
    resources,
    settled,
    with_pending,
    without_pending,
)
from tpuflex.gcp.kinds import Inputs, of_type, unknown
from tpuflex.naming import QUEUED_RESOURCE

if TYPE_CHECKING:
    from tpuflex.engine.events import Step

#: Rounds at most. Each makes more names known: networks, then what lies in them, then what
#: refers to that.
_ROUNDS = 6

Found = list[tuple["Step", Finding]]


def from_program(means: Means, found: Recovery, new_id: Callable[[], str]) -> None:
    """Take in what the program would create and the cloud already has.

    Raises:
        TpuflexError: the program or the engine failed.
    """
    means.say("Comparing the program with the cloud …")
    vain: set[str] = set()
    progress = False
    for _ in range(_ROUNDS):
        creations = [step for step in means.stack.preview().steps if step.operation == "create"]
        there = [(s, f) for s, f in _there(creations, means, vain) if s.urn not in vain]
        # Whether a role or an API is there only its plugin can tell, and its create does not
        # mind: not worth a round before something is found that would be in the way.
        if not there or not (progress or any(f.answer is Answer.OURS for _, f in there)):
            return
        before = len(found.settled)
        _take(means, there, creations, found, new_id, vain)
        progress = len(found.settled) > before


def _there(creations: list[Step], means: Means, vain: set[str]) -> Found:
    """What of ``creations`` is (perhaps) there. What is asked for in full comes first and alone:
    taking it in makes more known."""
    there: Found = []
    for step in creations:
        if of_type(step.type) is None or not step.custom or step.urn in vain:
            continue
        for inputs, finding in _looked(step, means):
            if finding.answer in (Answer.OURS, Answer.ASK_PLUGIN):
                there.append((replace(step, inputs=inputs), finding))
            elif finding.answer is Answer.FOREIGN:
                vain.add(step.urn)
                means.say(f"  warning  {finding.id} is taken and not ours: {finding.detail}")
    return [pair for pair in there if not unknown(pair[0].inputs)] or there


def _looked(step: Step, means: Means) -> list[tuple[Inputs, Finding]]:
    """What there is of what ``step`` creates, with the inputs that it was asked for with. Of a
    queued resource that is each generation: whoever has no state begins to count anew."""
    if step.type != QUEUED_RESOURCE:
        return [(step.inputs, means.look(step.type, step.inputs))]
    series = by_id(means.look.generations(step.inputs))
    if not series:
        return [(step.inputs, means.look(step.type, step.inputs))]
    zones = tuple(map(str, cast("list[object]", step.inputs["zones"])))
    return [
        ({**step.inputs, "queuedResourceId": id_, "zones": joined_zones(zones, found)}, found[0])
        for id_, found in series.items()
    ]


def _take(
    means: Means,
    there: Found,
    creations: list[Step],
    found: Recovery,
    new_id: Callable[[], str],
    vain: set[str],
) -> None:
    latest = {step.urn: finding.id for step, finding in there}
    newcomers = [_newcomer(s, f.id) for s, f in there if latest[s.urn] == f.id]
    replaced = [_replaced(s, f.id) for s, f in there if latest[s.urn] != f.id]
    deployment = means.stack.deployment()
    frame = _frame([*replaced, *newcomers], creations, deployment, new_id)
    framed = adopted(deployment, [*frame, *replaced])
    # Pending until it was read: should this run be killed, the next one goes on.
    deployment = with_pending(framed, [begun(one) for one in newcomers])
    deployment = read_in(means, deployment, newcomers, [])
    for one in replaced:
        detail = f"{one['id']}, which was replaced: the next `up` deletes it"
        found.note(one, "", Outcome.ADOPTED, detail)
    for newcomer in newcomers:
        now = whole(deployment, newcomer)
        if now is None:
            vain.add(newcomer["urn"])
        elif going(now):
            found.note(newcomer, "creating", Outcome.LEFT, STILL_GOING)
        else:
            found.note(newcomer, "", Outcome.ADOPTED, str(now["id"]))
    asked = {one["urn"]: one["inputs"] for one in newcomers if one["inputs"]}
    # Those of earlier rounds, too: what they refer to may have come only now.
    adoptions = [item for item in found.settled if item.outcome is Outcome.ADOPTED]
    taken = {item.urn for item in adoptions if not item.operation}
    known = linked(settled(deployment, asked), taken)
    means.stack.replace(without_pending(known, {item.urn for item in found.left}))


def _newcomer(step: Step, id_: str) -> Stored:
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


def _replaced(step: Step, id_: str) -> Stored:
    """The entry of an earlier generation, which is only there to be deleted."""
    known = {key: value for key, value in step.inputs.items() if not unknown(value)}
    return {**_newcomer(step, id_), "inputs": known}


def _frame(
    newcomers: list[Stored],
    creations: Iterable[Step],
    deployment: Stored,
    new_id: Callable[[], str],
) -> list[Stored]:
    """Entries for the components and providers that ``newcomers`` stand under and the state
    does not have; each newcomer is made to name its provider by the provider's id."""
    planned = {step.urn: step for step in creations}
    known = {resource["urn"] for resource in resources(deployment)}
    made: dict[str, Stored] = {}

    def ensure(urn: str) -> None:
        step = planned.get(urn)
        if step is None or urn in known or urn in made:
            return
        ensure(step.parent)
        entry: Stored = {"urn": urn, "custom": False, "type": step.type}
        if step.parent:
            entry["parent"] = step.parent
        if step.type.startswith(PROVIDER_TYPE):
            inputs = {**step.inputs}
            entry |= {"custom": True, "id": new_id(), "inputs": inputs, "outputs": inputs}
        made[urn] = entry

    for newcomer in newcomers:
        ensure(newcomer["parent"])
        provider = provider_urn(newcomer)
        ensure(provider)
        if provider in made:
            newcomer["provider"] = f"{provider}::{made[provider]['id']}"
    return list(made.values())
