"""The state table of generations, walked: each row is reached, and is what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from pulumi_plugin.values import Properties
from tests.provider.fakes import INPUTS, NAME
from tpuflex.errors import ConflictError
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.generations import Generations
from tpuflex.provider.stages import TABLE, Action, Event, Row, Stage
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import Snapshot

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
OTHER = URN.replace("::slice", "::other")
HERE = RequestName.parse(NAME)
EARLIER, NEXT = (RequestName.parse(NAME.replace("-g1", each)) for each in ("-g0", "-g2"))
INPUTS_HERE: Properties = dict(INPUTS)


def unready(run: Generations, name: RequestName, serving: RequestName) -> None:
    """The creation of ``name``, which is to take over from ``serving``, fails."""
    with suppress(UnreadyError), run.awaiting():
        raise UnreadyError("", snapshot=Snapshot(name, takes_over_from=(serving,)))


def kept(run: Generations) -> None:
    """An `up` checks the inputs and compares them."""
    run.checked(URN, INPUTS_HERE)
    run.diffed(URN, NAME, replaces=False, permitted=False)


def deleted(run: Generations) -> RequestName | None:
    """The engine deletes it, and that succeeds."""
    first = run.delete(URN, HERE)
    run.deleted(URN, HERE)
    return first


#: How each event comes about. What a generation that boots ends with is in test_handover.py.
EVENTS: Mapping[Event, Callable[[Generations], object]] = {
    Event.CHECK: lambda run: run.checked(URN, {}),
    Event.PREVIEW: lambda run: run.preview(URN, INPUTS_HERE),
    Event.PREVIEW_ELSEWHERE: lambda run: run.preview(OTHER, INPUTS_HERE),
    Event.CREATE: lambda run: run.create(URN, INPUTS_HERE),
    Event.CREATE_ELSEWHERE: lambda run: run.create(OTHER, INPUTS_HERE),
    Event.READY: lambda run: run.ready(URN, HERE),
    Event.UNREADY: lambda run: unready(run, HERE, EARLIER),
    Event.NEXT_READY: lambda run: run.ready(URN, NEXT),
    Event.NEXT_UNREADY: lambda run: unready(run, NEXT, HERE),
    Event.READ: lambda run: run.read(URN, HERE),
    Event.READ_ELSEWHERE: lambda run: run.read(OTHER, HERE),
    Event.GONE: lambda run: run.gone(URN, HERE),
    Event.KEPT: kept,
    Event.DELETE: deleted,
    Event.NEXT_RUN: lambda run: run.begin(),
}
#: The events by which a stage is reached.
WAYS: Mapping[Stage, tuple[Event, ...]] = {
    Stage.FREE: (),
    Stage.PLANNED: (Event.PREVIEW,),
    Stage.REQUESTED: (Event.CREATE,),
    Stage.HELD: (Event.READ,),
    Stage.CURRENT: (Event.READ, Event.KEPT),
    Stage.REPLACED: (Event.READ, Event.NEXT_READY),
    Stage.NEEDED: (Event.READ, Event.NEXT_UNREADY),
    Stage.PLANNED_ELSEWHERE: (Event.PREVIEW_ELSEWHERE,),
    Stage.REQUESTED_ELSEWHERE: (Event.CREATE_ELSEWHERE,),
    Stage.HELD_ELSEWHERE: (Event.READ_ELSEWHERE,),
}
REFUSALS = {
    Action.REFUSE_SAME_NAME: "is to be replaced by one of the same name",
    Action.REFUSE_SHARED: "cannot share it",
    Action.REFUSE_CURRENT: f"is what {URN} goes on with",
    Action.REFUSE_NEEDED: f"serves, and {NEXT}, which was to take over from it, does not",
}
ROWS = [(stage, row) for row in TABLE for stage in row.before]
WALKED = [(stage, row) for stage, row in ROWS if stage in WAYS and row.event in EVENTS]


@pytest.mark.parametrize(
    ("stage", "row"), WALKED, ids=[f"{stage}-{row.event.name}" for stage, row in WALKED]
)
def test_a_row_is_what_happens(stage: Stage, row: Row) -> None:
    """From the stage that it begins in, the event leads to the action and to the next stage."""
    run = Generations()
    for event in WAYS[stage]:
        EVENTS[event](run)
    assert run.stage(URN, HERE) is stage

    answer: object = None
    if row.action in REFUSALS:
        with pytest.raises(ConflictError, match=REFUSALS[row.action]) as refused:
            EVENTS[row.event](run)
        assert refused.value.code is row.code
    else:
        answer = EVENTS[row.event](run)

    assert run.stage(URN, HERE) is (row.after or stage)
    if row.event is Event.DELETE:
        assert answer == (NEXT if row.action is Action.DELETE_LATER else None)
    if row.action is Action.KEEP_BOTH:
        assert run.stage(URN, EARLIER) is Stage.NEEDED


def test_every_stage_is_reached() -> None:
    """From a name that nobody has, the rows lead to all stages; each row is the only one for its
    stage and event, and is walked above if it is not about a boot."""
    reached, before = {Stage.FREE}, set[Stage]()
    while reached != before:
        before = {*reached}
        reached |= {row.after for stage, row in ROWS if stage in before and row.after is not None}

    assert reached == {*Stage}
    assert len({(stage, row.event) for stage, row in ROWS}) == len(ROWS)
    assert {row.event for row in TABLE} == {*Event}
    assert {row.action for row in TABLE} == {*Action}
    skipped = [(stage, row.event) for stage, row in ROWS if (stage, row) not in WALKED]
    assert {event for stage, event in skipped if stage is not Stage.BOOTS} == {Event.RUNS}
