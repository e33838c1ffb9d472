"""Read: what became of the resource, told apart as the refresh table has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pulumi_plugin.values import Properties
from tpuflex.errors import TpuflexError
from tpuflex.provider.call import Call
from tpuflex.provider.watch import failure_of
from tpuflex.request.causes import classify
from tpuflex.request.name import RequestName
from tpuflex.request.nodes import ids_of
from tpuflex.request.outcomes import TABLE, Condition, PreviewAction
from tpuflex.request.snapshot import Snapshot, observed_inputs, outputs
from tpuflex.request.states import Lifecycle

#: The further along, the more it is the resource; the rest are requests that lost.
_RANK = (
    Lifecycle.ACTIVE,
    Lifecycle.PROVISIONING,
    Lifecycle.WAITING,
    Lifecycle.ENDED,
    Lifecycle.FAILED,
    Lifecycle.LOST,
    Lifecycle.DELETING,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What a read found.

    Attributes:
        inputs: the inputs as the cloud has them.
        outputs: output properties.
        seen: the look itself.
    """

    inputs: Properties
    outputs: Properties
    seen: Snapshot


def read(call: Call, id_: str, inputs: Properties, known: Properties) -> Found | None:
    """What the cloud has of the resource; None if nothing of ours is left.

    Args:
        call: what is at hand.
        id_: full name of the queued resource.
        inputs: inputs in the state; empty when it is imported.
        known: outputs in the state; empty when it is imported.

    Raises:
        TpuflexError: the API refuses, or cannot be reached: then nothing is known, and nothing
            is taken out of the state.
    """
    labels = labels_of(inputs)
    created = str(known.get("createTime") or "")
    found, strangers = [], False
    for name in names_of(id_, inputs, known):
        seen = call.look_twice(name)
        stands = seen.condition(labels if inputs else seen.labels, created)
        if stands is Condition.FOREIGN:
            text = TABLE[stands].refresh.text
            call.report(f"{name} belongs to {seen.owner} now: {text}", warning=True)
            strangers = True
        elif stands is not Condition.GONE:
            found.append((seen, stands))
    if not found:
        kept = _nothing(call, id_, inputs, known)
        if kept is None and inputs and not strangers:
            call.report(f"{id_}: {TABLE[Condition.GONE].refresh.text}", warning=True)
        return kept
    found.sort(key=lambda each: _RANK.index(each[0].lifecycle))
    (first, stands), *rest = found
    seen = replace(first, also=tuple(other.name for other, _ in rest))
    if (notice := _notice(seen, stands)) is not None:
        call.report(notice, warning=True)
    given = observed_inputs(inputs, seen)
    return Found(given, outputs(given, seen, inputs), seen)


def names_of(id_: str, inputs: Properties, known: Properties) -> list[RequestName]:
    """Every request that the resource has, or may have: the one that the state shows first, then
    those that it remembers, then those whose names follow from the inputs."""
    nodes = node_ids_of(inputs, known)
    shown = replace(RequestName.parse(id_), nodes=nodes)
    remembered = known.get("requests")
    names = [shown]
    for text in remembered if isinstance(remembered, list) else []:
        try:
            names.append(replace(RequestName.parse(str(text)), nodes=nodes))
        except TpuflexError:
            continue
    zones = inputs.get("zones")
    if isinstance(zones, list) and len(zones) > 1:
        names += [replace(shown, zone=zone) for zone in zones if isinstance(zone, str)]
    return list(dict.fromkeys(names))


def node_ids_of(inputs: Properties, known: Properties) -> tuple[str, ...]:
    """Ids of the nodes: as the state remembers them, or as they follow from the inputs; empty
    if neither says anything."""
    remembered = known.get("nodes")
    ids = [
        node["id"]
        for node in (remembered if isinstance(remembered, list) else [])
        if isinstance(node, dict)
    ]
    if ids:
        return tuple(str(id_) for id_ in ids)
    id_ = inputs.get("queuedResourceId")
    return ids_of(id_, inputs.get("multiNode")) if isinstance(id_, str) else ()


def labels_of(inputs: Properties) -> dict[str, str]:
    """The labels among ``inputs``, which say whose it is."""
    labels = inputs.get("labels")
    return {k: str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}


def _nothing(call: Call, id_: str, inputs: Properties, known: Properties) -> Found | None:
    """Nothing is left. A run that was over stays over: taken out of the state, it would be
    bought again unasked."""
    ended = known.get("lifecycle") == Lifecycle.ENDED.value
    if not inputs or not (ended or _over(known, call.timing.wall())):
        return None
    name = replace(RequestName.parse(id_), nodes=node_ids_of(inputs, known))
    seen = Snapshot(name, at=call.timing.wall(), known_ended=True)
    return Found(inputs, {**known, **inputs, **_traces(outputs(inputs, seen))}, seen)


def _traces(empty: Properties) -> Properties:
    """What is known to be no more; the times of the run that was stay as they were."""
    kept = ("createTime", "activeTime", "expireTime", "specHash")
    return {key: value for key, value in empty.items() if key not in kept}


def _over(known: Properties, now: float) -> bool:
    expires = known.get("expireTime")
    try:
        return isinstance(expires, str) and datetime.fromisoformat(expires).timestamp() <= now
    except ValueError:
        return False


def _notice(seen: Snapshot, stands: Condition) -> str | None:
    """What somebody who runs a refresh should know."""
    row = TABLE[stands]
    if stands is Condition.FAILED:
        failure = failure_of(seen)
        cause = classify(failure.code, failure.message)
        return f"FAILED: {failure.message} (cause: {cause}): {row.refresh.text}"
    if stands is Condition.ENDED:
        said = seen.describe()
        return said if row.refresh.text in said else f"{said}: {row.refresh.text}"
    if stands is Condition.ORPHANED and not seen.nodes.several:
        return f"{seen.state}: {row.refresh.text}"
    if row.action is PreviewAction.REPLACE:
        told = "`up` replaces it" if seen.nodes.several else row.refresh.text
        return f"{seen.describe()}: {told}"
    return None
