"""Read: what became of the resource, by the conditions of the refresh table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pulumi_plugin.values import Properties
from tpuflex.errors import TpuflexError
from tpuflex.provider.call import Call
from tpuflex.provider.serving_hosts import possibly_answering
from tpuflex.queued_resource.causes import explained
from tpuflex.queued_resource.name import RequestName, ids_of
from tpuflex.queued_resource.outcomes import TABLE, Condition, PreviewAction
from tpuflex.queued_resource.outputs import (
    observed_inputs,
    outputs,
    predecessor,
    recorded_lifecycle,
    remaining,
    with_run_times,
)
from tpuflex.queued_resource.ownership import Records
from tpuflex.queued_resource.snapshot import NO_REASON, Snapshot, ranked
from tpuflex.queued_resource.states import Lifecycle


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result of a read.

    Attributes:
        inputs: the inputs as the cloud has them.
        outputs: output properties.
        seen: the look itself.
    """

    inputs: Properties
    outputs: Properties
    seen: Snapshot


def read(call: Call, id_: str, inputs: Properties, recorded: Properties) -> ReadResult | None:
    """The resource as the cloud has it; None if nothing of ours is left.

    Args:
        call: the engine call.
        id_: full name of the queued resource.
        inputs: inputs in the state; empty when it is imported.
        recorded: outputs in the state; empty when it is imported.

    Raises:
        TpuflexError: the API refuses, or cannot be reached. Nothing is removed from the state
            then.
    """
    labels, records = labels_of(inputs), Records.of(id_, recorded)
    created = str(recorded.get("createTime") or "")
    ours: dict[RequestName, Condition] = {}
    snapshots, foreign = [], False
    for name in names_of(id_, inputs, recorded):
        seen = call.look_twice(name)
        known = records.know(name, seen.created)
        condition = seen.condition(labels if inputs else seen.labels, created, known=known)
        if condition is Condition.FOREIGN:
            text = TABLE[condition].refresh.text
            call.report(f"{name} belongs to {seen.owner} now: {text}", warning=True)
            foreign = True
        elif condition is not Condition.GONE:
            ours[seen.name] = condition
            snapshots.append(seen)
    if not snapshots:
        kept = _nothing(call, id_, inputs, recorded)
        if kept is None and inputs and not foreign:
            call.report(f"{id_}: {TABLE[Condition.GONE].refresh.text}", warning=True)
        return kept
    first, *rest = ranked(snapshots)
    also = tuple(other.name for other in rest)
    serving = possibly_answering(call, predecessor(recorded))
    seen = replace(first, also=also, takes_over_from=serving)
    if (notice := _notice(seen, ours[seen.name])) is not None:
        call.report(notice, warning=True)
    given = observed_inputs(inputs, seen)
    found = with_run_times(outputs(given, seen, inputs), recorded)
    return ReadResult(given, found, seen)


def names_of(id_: str, inputs: Properties, recorded: Properties) -> list[RequestName]:
    """Every request that the resource has, or may have: first the one that the state shows, then
    the others that it records, then those whose names follow from the inputs."""
    nodes = node_ids_of(inputs, recorded)
    shown = replace(RequestName.parse(id_), nodes=nodes)
    requests = recorded.get("requests")
    names = [shown]
    for text in requests if isinstance(requests, list) else []:
        try:
            names.append(replace(RequestName.parse(str(text)), nodes=nodes))
        except TpuflexError:
            continue
    zones = inputs.get("zones")
    if isinstance(zones, list) and len(zones) > 1:
        names += [replace(shown, zone=zone) for zone in zones if isinstance(zone, str)]
    return list(dict.fromkeys(names))


def node_ids_of(inputs: Properties, recorded: Properties) -> tuple[str, ...]:
    """Ids of the nodes: as the state records them, or as they follow from the inputs; empty if
    neither says anything."""
    nodes = recorded.get("nodes")
    ids = [
        node["id"] for node in (nodes if isinstance(nodes, list) else []) if isinstance(node, dict)
    ]
    if ids:
        return tuple(str(id_) for id_ in ids)
    id_ = inputs.get("queuedResourceId")
    return ids_of(id_, inputs.get("multiNode")) if isinstance(id_, str) else ()


def labels_of(inputs: Properties) -> dict[str, str]:
    """The labels among ``inputs``, which identify the owner."""
    labels = inputs.get("labels")
    return {k: str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}


def _nothing(call: Call, id_: str, inputs: Properties, recorded: Properties) -> ReadResult | None:
    """The result when nothing is left. A run that had ended stays in the state as ended: if it were
    removed, the next `up` would buy another one unasked. What was to take over from one that serves
    stays as lost: the next `up` makes another one, which takes over from that."""
    left = remaining(recorded, call.timing.wall())
    ended = recorded_lifecycle(recorded) is Lifecycle.ENDED or (left is not None and left <= 0)
    serving = possibly_answering(call, predecessor(recorded))
    if not inputs or not (ended or serving):
        return None
    name = replace(RequestName.parse(id_), nodes=node_ids_of(inputs, recorded))
    now = call.timing.wall()
    seen = Snapshot(name, at=now, known_ended=ended, takes_over_from=serving)
    if serving:
        names = ", ".join(map(str, serving))
        call.report(
            f"{id_} is gone; {names} serves, and `up` makes another successor", warning=True
        )
    return ReadResult(inputs, {**recorded, **inputs, **_traces(outputs(inputs, seen))}, seen)


def _traces(empty: Properties) -> Properties:
    """The outputs that are cleared; the times of the run that ended stay as they were."""
    kept = ("createTime", "activeTime", "expireTime", "specHash")
    return {key: value for key, value in empty.items() if key not in kept}


def _notice(seen: Snapshot, condition: Condition) -> str | None:
    """What the user who runs a refresh should know, if anything."""
    row = TABLE[condition]
    if condition is Condition.FAILED:
        failure = seen.failure or NO_REASON
        return f"FAILED: {explained(failure.message, seen.cause)}: {row.refresh.text}"
    if condition is Condition.ENDED:
        # SUSPENDED itself means that the run is over; on the way there it has to be added.
        over = seen.state == "SUSPENDED"
        return seen.describe() if over else f"{seen.describe()}: {row.refresh.text}"
    if condition is Condition.ORPHANED and not seen.nodes.several:
        return f"{seen.state}: {row.refresh.text}"
    if row.action is PreviewAction.REPLACE:
        told = "`up` replaces it" if seen.nodes.several else row.refresh.text
        return f"{seen.describe()}: {told}"
    return None
