"""Create, update and delete, on plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from pydantic import JsonValue

from pulumi_plugin.values import Properties
from tpuflex.advice import Advice
from tpuflex.codes import Code
from tpuflex.duration import google_seconds, parse_duration
from tpuflex.errors import (
    ConflictError,
    InterruptedByUser,
    TpuflexError,
)
from tpuflex.naming import generation_id, generation_of
from tpuflex.provider.call import Call, Deadlines, UnreadyError
from tpuflex.provider.delete import Removal, delete_all
from tpuflex.provider.drain import Drain
from tpuflex.provider.generations import PASSED_OVER, requests_of
from tpuflex.provider.handover import HandOver
from tpuflex.provider.patch import patch
from tpuflex.provider.place import refuse_foreign
from tpuflex.provider.race import obtain
from tpuflex.provider.read import labels_of, names_of
from tpuflex.provider.serving_hosts import answering, serves
from tpuflex.provider.zone_attempts import ZoneAttempt
from tpuflex.queued_resource.check import parse
from tpuflex.queued_resource.fields import DEFAULTS, RequestArgs
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.outcomes import (
    PROTECTED,
    RUN_OVER_CLEANED,
    RUN_OVER_LEFTOVER,
    UNPROTECT,
)
from tpuflex.queued_resource.outputs import predecessor, recorded_lifecycle
from tpuflex.queued_resource.ownership import NO_RECORDS, Records
from tpuflex.queued_resource.snapshot import Snapshot, parse_time
from tpuflex.queued_resource.states import Lifecycle

JsonObject = dict[str, JsonValue]


def create(
    call: Call,
    inputs: Properties,
    *,
    timeout: float,
    before: Collection[RequestName] = (),
) -> Snapshot:
    """Place the request, or adopt the one of an interrupted run, and wait until it is active; where
    it takes over from a slice that serves, until it serves itself.

    Args:
        call: the engine call.
        inputs: checked inputs.
        timeout: seconds for all of it; 0 for the deadlines of the inputs alone.
        before: the requests of what it replaces.

    Raises:
        UnreadyError: the request exists, or may exist, and must be kept in the state.
        TpuflexError: nothing was placed.
    """
    args = parse(inputs)
    hand_over = HandOver.begin(call, args, before)
    with hand_over.kept():
        seen = obtain(call, args, Deadlines.of(args, timeout))
        try:
            seen = _patched(call, args, {}, seen, timeout)
        except UnreadyError:
            raise
        except (TpuflexError, InterruptedByUser) as error:
            # An adopted request that runs, and is billed, must not be lost because a patch was
            # refused.
            raise UnreadyError(
                error.message, snapshot=seen, hint=error.hint, code=error.code
            ) from error
        return hand_over.finish(seen, recorded=False)


def update(
    call: Call,
    id_: str,
    old: Properties,
    new: Properties,
    outputs: Properties,
    *,
    timeout: float,
) -> Snapshot:
    """Keep waiting if it is not active yet, or does not serve yet although it is to take over;
    delete the losers of the race, patch its nodes.

    Args:
        call: the engine call.
        id_: full name of the queued resource.
        old: inputs as they were last applied.
        new: checked inputs.
        outputs: its outputs in the state.
        timeout: seconds for all of it; 0 for the deadlines of the inputs alone.

    Raises:
        UnreadyError: it is still not active, or its run is over.
        TpuflexError: it is not ours, or could not be changed.
    """
    args = parse(new)
    known, records = names_of(id_, old, outputs), Records.of(id_, outputs)
    if recorded_lifecycle(outputs) is Lifecycle.ENDED:
        left = _left(call, args, known, records)
        if args.on_run_end == "accept":
            return _ended(call, known, left)  # the plan has said so
        raise _after_the_run(call, args, known, records, left)
    if len(args.zones) == 1:
        seen = call.look_twice(known[0])
        if not seen.gone:
            refuse_foreign(args, seen, records)
    hand_over = HandOver(call, args, predecessor(outputs))
    with hand_over.kept():
        seen = obtain(call, args, Deadlines.of(args, timeout), known=known, records=records)
        seen = _patched(call, args, old, seen, timeout)
        return hand_over.finish(seen, recorded=True)


def delete_resource(
    call: Call,
    id_: str,
    inputs: Properties,
    outputs: Properties,
    *,
    timeout: float,
    successor: Properties | None = None,
) -> None:
    """Delete every request of the resource, with its nodes, and wait until all are gone.

    Args:
        call: the engine call.
        id_: full name of the queued resource.
        inputs: inputs in the state, whose owner label must be the one in the cloud.
        outputs: its outputs in the state.
        timeout: seconds; 0 for the deadline of the inputs.
        successor: inputs of what has taken over from it, if known.

    Raises:
        ConflictError: it is protected, belongs to someone else, or is not gone in time.
        AccessError: a permission is missing.
    """
    names = names_of(id_, inputs, outputs)
    labels, records = labels_of(inputs), Records.of(id_, outputs)
    if not answering(call, predecessor(outputs)):  # else it is not what serves
        refuse_deletion(call, inputs, names, labels, records, successor)
    asked = google_seconds(inputs.get("deleteTimeout"))
    limit = timeout or asked or parse_duration(DEFAULTS["deleteTimeout"]).total_seconds()
    deadline = call.timing.monotonic() + limit
    created = str(outputs.get("createTime") or "")
    drain = google_seconds(inputs.get("drainTimeout", DEFAULTS["drainTimeout"])) or 0.0
    removals = [
        Removal(
            call,
            name,
            labels,
            deadline,
            created if str(name) == id_ else "",
            records=records,
            drain=Drain(call, name, min(drain, limit / 2)),
        )
        for name in names
    ]
    with call.waits:
        delete_all(removals)


def _after_the_run(
    call: Call,
    args: RequestArgs,
    known: list[RequestName],
    records: Records,
    left: list[Snapshot],
) -> UnreadyError:
    """The run is over and no other was requested: at most the leftover is deleted. Either way there
    is no slice, and an `up` that succeeded would claim that there is one."""
    cleaned = f"{known[0]}: {RUN_OVER_CLEANED}"
    message, hint = f"{known[0]}: {RUN_OVER_LEFTOVER}" if left else cleaned, Advice("")
    code: Code | None = Code.RUN_OVER
    if args.on_run_end == "delete" and left:
        call.report("the run is over: deleting what it left, which still uses quota")
        deadline = call.timing.monotonic() + Deadlines.of(args, 0).deletion
        try:
            delete_all(
                [
                    Removal(call, s.name, args.labels, deadline, s.created, records=records)
                    for s in left
                ]
            )
            left, message = [], cleaned
        except (TpuflexError, InterruptedByUser) as error:
            message, hint, code = error.message, error.hint, error.code
    return UnreadyError(message, snapshot=_ended(call, known, left), hint=hint, code=code)


def _ended(call: Call, known: list[RequestName], left: list[Snapshot]) -> Snapshot:
    """The run that is over, of which ``left`` is left."""
    over = Snapshot(known[0], at=call.timing.wall(), known_ended=True)
    seen, *others = left or [over]
    return replace(seen, also=tuple(other.name for other in others))


def _left(
    call: Call, args: RequestArgs, known: list[RequestName], records: Records
) -> list[Snapshot]:
    """The leftovers of a run, in all of its zones."""
    looks = [call.look_twice(name) for name in known]
    return [
        seen
        for seen in looks
        if not seen.gone
        and seen.belongs_to(args.labels, known=records.know(seen.name, seen.created))
    ]


def _patched(
    call: Call, args: RequestArgs, old: Properties, seen: Snapshot, timeout: float
) -> Snapshot:
    there = ZoneAttempt.in_zone(args, seen.name.zone).args
    limit = min(timeout or 600.0, 600.0)
    return patch(call, there, old, seen, deadline=call.timing.monotonic() + limit)


def refuse_deletion(
    call: Call,
    inputs: Properties,
    names: Iterable[RequestName],
    labels: dict[str, str],
    records: Records = NO_RECORDS,
    successor: Properties | None = None,
) -> None:
    """Check that the resource may be deleted: if it is not ACTIVE, or if another generation, or
    ``successor``, has taken over from it. The endpoint is protected, not each of its runs."""
    if inputs.get("deletionProtection") is not True:
        return
    every, other = [*names], successor or {}
    for name in every:
        seen = call.look(name)
        known = records.know(name, seen.created)
        if seen.lifecycle is not Lifecycle.ACTIVE or not seen.belongs_to(labels, known=known):
            continue
        served = any(
            _takes_over(call, each, seen, labels) for each in _generations(call, inputs, every)
        )
        named = [call.look(next_) for next_ in requests_of(other) - {*every} if not served]
        if not served and not any(
            _takes_over(call, each, seen, labels_of(other)) for each in named
        ):
            raise ConflictError(
                f"{name} is ACTIVE and {PROTECTED.text}: it is not deleted",
                hint=UNPROTECT,
                code=Code.PROTECTED,
            )


def _takes_over(call: Call, new: Snapshot, seen: Snapshot, labels: dict[str, str]) -> bool:
    """Whether ``new`` serves in the place of ``seen``. What is older a state has let go of; and
    what answers is replaced by nothing that does not serve."""
    made, before = parse_time(new.created), parse_time(seen.created)
    newer = made is None or before is None or made >= before
    if not newer or new.lifecycle is not Lifecycle.ACTIVE or not new.belongs_to(labels):
        return False
    return bool(answering(call, [new.name], counts=serves)) or not answering(call, [seen.name])


def _generations(
    call: Call, inputs: Properties, names: Iterable[RequestName]
) -> Iterable[Snapshot]:
    """The next generations of each of ``names``, up to the first that is not there: names that
    are taken are passed over."""
    prefix = inputs.get("queuedResourceIdPrefix")
    for name in names:
        series = prefix if isinstance(prefix, str) else name.id.rpartition("-g")[0]
        generation = generation_of(series, name.id)
        if generation is None:
            continue
        for next_ in range(generation + 1, generation + 1 + PASSED_OVER):
            seen = call.look(replace(name, id=generation_id(series, next_), nodes=()))
            if seen.gone:
                break
            yield seen
