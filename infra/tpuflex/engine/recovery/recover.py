"""Bring a stack's state back in line with the cloud after a run that was killed.

A killed run leaves operations pending: the engine had begun them and never learnt how they
ended. Names are deterministic, so the cloud can be asked: what exists and is ours is taken into
the state under its id and read through its plugin, what does not exist is cleared. The same is
done for what the program would create and the cloud already has, because the gcp plugin's
create of it would fail with 409; and for whatever the cloud has of a queued resource and the
state does not know.

Safe to be killed itself: an operation stays pending until what it made is whole in the state.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from tpuflex.engine.recovery.import_state import (
    STILL_GOING,
    Means,
    RecoverableStack,
    RememberedStack,
    Say,
    going,
    linked,
    read_in,
    whole,
)
from tpuflex.engine.recovery.look import Answer, Finding, Look
from tpuflex.engine.recovery.missing import unknown, with_unknown
from tpuflex.engine.recovery.program import from_program
from tpuflex.engine.recovery.report import Outcome, Recovery, counted
from tpuflex.engine.state import (
    Stored,
    is_cloud,
    is_reminder,
    lacking,
    living,
    pending,
    resources,
    settled,
    with_pending,
    without_pending,
)
from tpuflex.errors import ApiError, TpuflexError
from tpuflex.gcp.kinds import of_type
from tpuflex.request.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.gcp.timing import Timing


def recover(
    stack: RecoverableStack,
    look: Look,
    say: Say,
    *,
    timing: Timing,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> Recovery:
    """Settle everything that a killed run left behind.

    Args:
        stack: the stack; its lock must be free.
        look: looks into the cloud.
        say: takes a line of progress.
        timing: clocks and pauses, for what is on its way out.
        new_id: makes the id of a provider that has to be put into the state.

    Raises:
        TpuflexError: the pending operations could not be settled; nothing was lost, and they
            are still pending.
    """
    found = Recovery()
    stack = RememberedStack(stack)
    means = Means(stack, look, say, timing)
    try:
        made = _take_unknown(means, found)
    except ApiError as error:
        made, found.unfinished = [], error
    settle_pending(means, found, made)
    try:
        from_program(means, found, new_id)
    except TpuflexError as error:
        found.unfinished = error
    return found


def settle_pending(means: Means, found: Recovery, more: list[Stored]) -> None:
    """Settle the pending operations, and ``more`` of them, and note in ``found`` what became of
    each."""
    deployment = with_pending(means.stack.deployment(), more)
    operations = pending(deployment)
    newcomers: list[Stored] = []
    reread: list[Stored] = []
    if operations:
        means.say(f"{counted(operations, 'pending operation')}: looking at the cloud …")
    for operation in operations:
        resource, kind = operation["resource"], operation["type"]
        if kind == "creating":
            newcomers += _creation(resource, deployment, means.look, found)
        elif living(deployment, resource["urn"]) is None:
            found.note(resource, kind, Outcome.CLEARED, "the state no longer has it")
        else:
            reread.append(operation)
    read = [*newcomers, *(operation["resource"] for operation in reread)]
    touched = {one["urn"] for one in read}
    gone = [one for one in _doubtful(deployment, means.look) if one["urn"] not in touched]
    if not operations and not gone:
        return
    seen = [*(operation["resource"] for operation in reread), *gone]
    deployment = read_in(means, deployment, newcomers, seen)
    for newcomer in newcomers:
        _note_newcomer(newcomer, deployment, found)
    for operation in reread:
        _note_reread(operation["resource"], operation["type"], deployment, found)
    for resource in gone:
        _note_reread(resource, "", deployment, found)
    asked = {one["urn"]: one["inputs"] for one in newcomers if one["inputs"]}
    left = {item.urn for item in found.left}
    # What an earlier recovery had begun to take in from the program alone has none yet.
    lonely = {one["urn"] for one in newcomers if not one.get("dependencies")}
    known = linked(settled(deployment, asked), lonely)
    means.stack.replace(without_pending(known, left))


def _doubtful(deployment: Stored, look: Look) -> list[Stored]:
    """What the state has and the cloud has not, or not for long: its deletion was begun, and who
    was to wait for its end was killed. The engine keeps no operation of it when it was only the
    plugin that died."""
    found = []
    for resource in resources(deployment):
        ended = (resource.get("outputs") or {}).get("lifecycle") == Lifecycle.ENDED.value
        if not is_cloud(resource) or of_type(resource["type"]) is None:
            continue
        if ended or is_reminder(resource):
            continue
        finding = look(resource["type"], resource.get("inputs") or {})
        if finding.answer is Answer.ABSENT or finding.going:
            found.append(resource)
    return found


def _take_unknown(means: Means, found: Recovery) -> list[Stored]:
    """Have the state know of all that the cloud has of its queued resources; gives what is still
    to be taken in, as pending creations."""
    deployment = means.stack.deployment()
    series = unknown(deployment, means.look)
    deployment = with_unknown(deployment, series)
    strayed = [each.resource for each in series if each.strays]
    if strayed or any(each.earlier for each in series):
        means.stack.replace(deployment)
        read_in(means, deployment, [], strayed)
    for each in series:
        for stray in each.strays:
            found.note(each.resource, "updating", Outcome.ADOPTED, stray)
        for entry in each.earlier:
            detail = f"{entry['id']}, which was replaced: the next `up` deletes it"
            found.note(each.resource, "creating", Outcome.ADOPTED, detail)
    return [each.latest for each in series if each.latest is not None]


def _note_newcomer(newcomer: Stored, deployment: Stored, found: Recovery) -> None:
    now = whole(deployment, newcomer)
    if now is None:
        found.note(newcomer, "creating", Outcome.CLEARED, "the cloud does not have it")
    elif going(now):
        found.note(newcomer, "creating", Outcome.LEFT, STILL_GOING)
    else:
        found.note(newcomer, "creating", Outcome.ADOPTED, str(now["id"]))


def _note_reread(resource: Stored, kind: str, deployment: Stored, found: Recovery) -> None:
    now = living(deployment, resource["urn"])
    if now is None:
        found.note(resource, kind, Outcome.CLEARED, "it is gone")
    elif going(now):
        found.note(resource, kind, Outcome.LEFT, STILL_GOING)
    else:
        found.note(resource, kind, Outcome.CLEARED, "it is in the cloud, and was read again")


def _creation(resource: Stored, deployment: Stored, look: Look, found: Recovery) -> list[Stored]:
    """The entry of a resource whose create was begun, if the cloud (perhaps) has it."""

    def note(outcome: Outcome, detail: str) -> list[Stored]:
        found.note(resource, "creating", outcome, detail)
        return []

    if not is_cloud(resource):
        return note(Outcome.CLEARED, "it is nothing in the cloud")
    finding = look(resource["type"], resource.get("inputs") or {})
    if finding.answer is Answer.UNKNOWN and resource.get("id") and not finding.id:
        # The create had ended with this id; only its entry in the state was missing.
        finding = Finding(Answer.ASK_PLUGIN, resource["id"])
    match finding.answer:
        case Answer.ABSENT:
            return note(Outcome.CLEARED, "the cloud does not have it")
        case Answer.FOREIGN:
            return note(Outcome.CLEARED, f"{finding.id} is not ours: {finding.detail}")
        case Answer.UNKNOWN:
            return note(Outcome.LEFT, finding.detail)
    if lacking(resource, deployment):
        return note(Outcome.LEFT, "the state does not have its parent or its provider")
    return [{"inputs": {}, **resource, "id": finding.id}]
