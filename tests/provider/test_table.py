"""The refresh table, row by row: what read, plan and delete make of each condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pulumi_plugin.values import Properties
from tests.provider.fakes import (
    INPUTS,
    NAME,
    NODE,
    Answer,
    Cloud,
    FakeTime,
    Sent,
    args,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tpuflex.errors import AccessError, ApiError, TpuflexError
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.diff import resource_diff
from tpuflex.provider.operations import delete_resource, update
from tpuflex.provider.read import read
from tpuflex.queued_resource.check import input_properties
from tpuflex.queued_resource.outcomes import TABLE, Condition, PreviewAction

KNOWN: Properties = input_properties(args())
BORN = "2026-11-21T08:00:00.123456789Z"
THEIRS = args(labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
#: Long before a run that was asked for at BORN could be over, on the tests' clock.
STATE: Properties = {**KNOWN, "name": NAME, "createTime": BORN, "lifecycle": "active"}
#: The tests' clock begins at this time.
EARLY = FakeTime().timing().wall()


@dataclass(frozen=True)
class Case:
    """What the cloud holds in one condition."""

    condition: Condition
    request: Answer
    node: Answer
    lifecycle: str | None
    notice: str = ""


def _recent(state: str, **more: Any) -> Answer:
    """A queued resource that was requested just now."""
    found = queued(state, **more)
    return {**found, "createTime": "2027-01-15T08:00:00Z"}


CASES = [
    Case(Condition.WAITING, queued("WAITING_FOR_RESOURCES"), missing(NODE), "waiting"),
    Case(Condition.WAITING, queued("ON_HOLD"), missing(NODE), "waiting"),
    Case(Condition.PROVISIONING, queued("PROVISIONING"), missing(NODE), "provisioning"),
    Case(Condition.ACTIVE, queued("ACTIVE"), node(), "active"),
    Case(Condition.ENDED, queued("SUSPENDED"), missing(NODE), "ended", "the run is over"),
    Case(
        Condition.FAILED,
        queued("FAILED", failedData={"error": {"code": 8, "message": "no more capacity"}}),
        missing(NODE),
        "failed",
        "no more capacity (cause: stock-out)",
    ),
    Case(Condition.NODE_MISSING, queued("ACTIVE"), missing(NODE), "lost", "its node was lost"),
    Case(
        Condition.NODE_MISSING,
        _recent("SUSPENDED", stateInitiator="USER"),
        missing(NODE),
        "lost",
        "its node was lost",
    ),
    Case(Condition.ORPHANED, missing(), node(), "lost", "its queued resource was deleted"),
    Case(Condition.DELETING, queued("DELETING"), node("DELETING"), "deleting", "somebody is"),
    Case(Condition.GONE, missing(), missing(NODE), None, "taken out of the state"),
    Case(
        Condition.FOREIGN, queued("ACTIVE", THEIRS), node(of=THEIRS), None, "belongs to stack prod"
    ),
]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.condition}-{case.lifecycle}")


def cloud(case: Case) -> Cloud:
    return Cloud(request=sequence(case.request), node=sequence(case.node))


def state(case: Case) -> Properties:
    """A state of another birth, so that a foreign one is no namesake of ours."""
    return {**STATE, "createTime": "2026-11-20T00:00:00Z"} if case.lifecycle is None else STATE


@each
def test_read_tells_it_apart(case: Case) -> None:
    """A refresh shows the condition, says what matters, and drops exactly what is not ours."""
    call, script, said = scripted(cloud(case))

    found = read(call, NAME, KNOWN, state(case))

    assert (found.outputs["lifecycle"] if found else None) == case.lifecycle
    assert case.notice in said.text
    assert bool(said.text) == bool(case.notice)
    assert {request.method for request in script.sent} == {"GET"}


@each
def test_plan_is_what_the_table_says(case: Case) -> None:
    """After the refresh, a preview of unchanged inputs plans what the row says."""
    call, _, _ = scripted(cloud(case))
    found = read(call, NAME, KNOWN, state(case))
    expected = TABLE[case.condition].action
    if found is None:
        assert expected is PreviewAction.CREATE
        return

    planned = resource_diff(found.inputs, KNOWN, found.outputs, EARLY).diff

    unchanged = PreviewAction.UPDATE if planned.changes else PreviewAction.NOTHING
    kind = PreviewAction.REPLACE if planned.replaces else unchanged
    assert kind is expected


@each
def test_delete_leaves_nothing_of_ours(case: Case) -> None:
    """From every condition a deletion ends well, touching what is ours and nothing else."""
    ours = case.lifecycle is not None
    there = [case.request, case.request] if ours and not _is_missing(case.request) else []
    nodes = [case.node] * 2 if ours and not _is_missing(case.node) else []
    rest: list[Answer] = [missing()] if ours else [case.request]
    answers = Cloud(
        request=sequence(*there, *rest),
        node=sequence(*nodes, missing(NODE) if ours else case.node),
        operation=sequence({"name": "operations/2", "done": False}),
    )
    call, script, _ = scripted(answers)

    delete_resource(call, NAME, KNOWN, state(case), timeout=0)

    deletes = [request.path for request in script.sent if request.method == "DELETE"]
    if case.condition in (Condition.GONE, Condition.FOREIGN, Condition.DELETING):
        assert deletes == []
    else:
        assert deletes == [NODE if case.condition is Condition.ORPHANED else NAME]


def _is_missing(answer: Answer) -> bool:
    return isinstance(answer, TpuflexError)


@pytest.mark.parametrize("error", [AccessError("403"), ApiError("down", status=503)])
def test_read_that_fails_takes_nothing_out_of_the_state(error: TpuflexError) -> None:
    """Only a 404, twice, means gone; anything else is an error."""
    call, _, _ = scripted(Cloud(request=sequence(error)))

    with pytest.raises(type(error)):
        read(call, NAME, KNOWN, STATE)


def test_request_with_changed_owner_label_is_still_the_one_that_was_made() -> None:
    """Labels can be edited; the time of birth cannot: the state does not lose what it made."""
    answers = Cloud(request=sequence(queued("ACTIVE", THEIRS)), node=sequence(node(of=THEIRS)))
    call, _, _ = scripted(answers)

    assert read(call, NAME, KNOWN, STATE) is not None


def test_run_that_ended_stays_in_the_state_without_its_leftover() -> None:
    """Once a run is known to have ended, a missing leftover does not cause a new purchase."""
    call, _, _ = scripted(Cloud())
    ended = {**STATE, "lifecycle": "ended", "state": "SUSPENDED", "expireTime": "2026-11-21T12:05Z"}

    found = read(call, NAME, KNOWN, ended)

    assert found is not None
    assert found.outputs["lifecycle"] == "ended"
    assert found.outputs["state"] == "NOT_FOUND"
    assert found.outputs["expireTime"] == "2026-11-21T12:05Z"
    assert not resource_diff(found.inputs, KNOWN, found.outputs, EARLY).diff.replaces
    again = read(call, NAME, KNOWN, found.outputs)
    assert again is not None
    assert again.outputs == found.outputs


def test_run_whose_time_is_over_counts_as_ended_when_it_is_gone() -> None:
    """Also when no refresh came between the end of the run and the loss of its leftover."""
    call, _, _ = scripted(Cloud())
    over = {**STATE, "expireTime": "2026-11-21T12:05:00Z"}
    ahead = {**STATE, "expireTime": "2099-01-01T00:00:00Z"}

    found = read(call, NAME, KNOWN, over)

    assert found is not None
    assert found.outputs["lifecycle"] == "ended"
    assert read(call, NAME, KNOWN, ahead) is None


@pytest.mark.parametrize(("on_run_end", "deletes"), [("keep", 0), ("delete", 1)])
def test_leftover_of_a_run_is_cleaned_up_when_asked(on_run_end: str, deletes: int) -> None:
    """`on_run_end: delete` removes the leftover; either way nothing new is requested, and the
    update fails, because there is no slice."""
    wanted = {**KNOWN, "onRunEnd": on_run_end}
    ended = {**STATE, "lifecycle": "ended", "state": "SUSPENDED"}
    answers = Cloud(
        request=sequence(*[queued("SUSPENDED")] * (1 + deletes), *[missing()] * deletes),
        operation=sequence({"name": "operations/2", "done": False}),
    )
    call, script, _ = scripted(answers)

    with pytest.raises(UnreadyError, match="is over and nothing is bought again") as over:
        update(call, NAME, KNOWN, wanted, ended, timeout=0)

    assert ("to clean up" in over.value.message) is (on_run_end == "keep")
    assert over.value.snapshot.lifecycle.value == "ended"
    assert over.value.snapshot.gone is (on_run_end == "delete")
    assert script.count("DELETE") == deletes
    assert script.count("POST") == 0


@pytest.mark.parametrize("gone", [False, True])
def test_the_end_of_a_run_can_be_accepted(gone: bool) -> None:
    """`on_run_end: accept` succeeds, changes nothing in the cloud and keeps the state's `ended`,
    whether there is a leftover or not."""
    ended = {**STATE, "lifecycle": "ended", "state": "SUSPENDED"}
    call, script, _ = scripted(Cloud(request=sequence(missing() if gone else queued("SUSPENDED"))))

    seen = update(call, NAME, KNOWN, {**KNOWN, "onRunEnd": "accept"}, ended, timeout=0)

    assert (seen.lifecycle.value, seen.gone) == ("ended", gone)
    assert {sent.method for sent in script.sent} == {"GET"}


def test_a_run_that_is_over_keeps_its_times() -> None:
    """The cloud forgets with the node when a run began and ended; the state does not."""
    times = {"activeTime": "2026-11-21T08:05:00Z", "expireTime": "2026-11-21T12:05:00Z"}
    made = str(queued("SUSPENDED")["createTime"])
    recorded = {**STATE, **times, "createTime": made}
    call, _, _ = scripted(Cloud(request=sequence(queued("SUSPENDED"))))

    found = read(call, NAME, KNOWN, recorded)
    assert found is not None
    assert found.outputs["lifecycle"] == "ended"
    assert {key: found.outputs[key] for key in times} == times

    other = read(call, NAME, KNOWN, {**recorded, "createTime": "2026-11-20T08:00:00Z"})
    assert other is None or other.outputs["expireTime"] is None


@pytest.mark.parametrize("on_run_end", ["keep", "delete"])
def test_what_lost_a_race_is_not_forgotten_after_the_run(on_run_end: str) -> None:
    """A second request that ended, too, stays in the state, or is deleted with the first."""
    loser = NAME.replace("us-east5-a", "us-east5-b")
    assert loser != NAME
    wanted = {**KNOWN, "onRunEnd": on_run_end}
    ended: Properties = {**STATE, "lifecycle": "ended", "requests": [NAME, loser]}
    there = {NAME, loser}

    def answer(sent: Sent) -> Answer:
        if sent.method == "DELETE":
            there.discard(sent.path)
            return {"name": "operations/2", "done": False}
        if sent.path in there:
            return {**queued("SUSPENDED"), "name": sent.path}
        return missing(sent.path)

    call, script, _ = scripted(answer)

    with pytest.raises(UnreadyError) as over:
        update(call, NAME, KNOWN, wanted, ended, timeout=0)

    deleted = {sent.path for sent in script.sent if sent.method == "DELETE"}
    assert deleted == ({NAME, loser} if on_run_end == "delete" else set())
    kept = [str(name) for name in (over.value.snapshot.name, *over.value.snapshot.also)]
    assert kept == ([NAME] if on_run_end == "delete" else [NAME, loser])


def test_import_of_a_stranger_shows_whose_it_is() -> None:
    """An import takes what is there: the labels tell the program whose it was."""
    answers = Cloud(request=sequence(queued("ACTIVE", THEIRS)), node=sequence(node(of=THEIRS)))
    call, _, _ = scripted(answers)

    found = read(call, NAME, {}, {})

    assert found is not None
    labels = found.inputs["labels"]
    assert isinstance(labels, dict)
    assert labels["tpuflex-owner"] == "ffff"
    assert INPUTS["labels"]["tpuflex-owner"] != "ffff"
