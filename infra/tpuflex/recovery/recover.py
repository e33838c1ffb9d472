"""Bring a stack's state back in line with the cloud after a run that was killed.

A killed run leaves pending operations, whose outcome the engine never learnt. Names are
deterministic, so the cloud can be asked: a resource that exists and belongs to the stack is
imported under its id and read through its plugin; an operation whose resource does not exist is
cleared. The same is done for resources that the program would create and the cloud already has,
because the gcp plugin would fail with 409, and for queued resources that the state has lost.

Safe to be killed itself: an operation stays pending until its resource is complete in the state.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.engine.events import name_of
from tpuflex.engine.state import (
    Stored,
    doubles,
    is_cloud,
    is_reminder,
    live_resource,
    missing_parents,
    pending,
    resources,
    with_pending,
)
from tpuflex.errors import AccessError, ApiError, EngineError, TpuflexError
from tpuflex.files.trusted import open_lock
from tpuflex.inventory.kinds import of_type
from tpuflex.queued_resource.outputs import recorded_lifecycle
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.recovery.import_state import (
    STILL_BEING_DELETED,
    Context,
    RecoverableStack,
    RememberedStack,
    being_deleted,
    complete,
    import_resources,
    write_back,
)
from tpuflex.recovery.look import Look, LookResult, Presence
from tpuflex.recovery.missing import missing, with_missing
from tpuflex.recovery.program import ProgramComparison
from tpuflex.recovery.report import Recovery, counted, replaced

if TYPE_CHECKING:
    from tpuflex.google.timing import Timing


def recover(
    stack: RecoverableStack,
    look: Look,
    say: Callable[[str], None],
    *,
    timing: Timing,
    first: Callable[[Context], None] | None = None,
) -> Recovery:
    """Settle everything that a killed run has left behind.

    Args:
        stack: the stack; its lock must be free.
        look: looks into the cloud.
        say: takes a line of progress.
        timing: clocks and pauses, for what is being deleted.
        first: what is done before: :class:`tpuflex.recovery.take_over.TakeOver`.

    Raises:
        TpuflexError: the pending operations could not be settled; nothing was lost, and they
            are still pending.
    """
    report = Recovery()
    context = Context(RememberedStack(stack), look, say, timing, report)
    if first is not None:
        first(context)
    _forget_doubles(context)
    creations: list[Stored] = []
    try:
        creations = _import_missing(context)
    except (AccessError, ApiError) as error:
        report.unfinished = error
    _settle_pending(context, creations)
    try:
        ProgramComparison(context).import_existing()
    except TpuflexError as error:
        report.unfinished = error
    return report


def _forget_doubles(context: Context) -> None:
    """Take out of the state what says that something is to be deleted with which it goes on."""
    deployment = context.stack.deployment()
    found = doubles(deployment)
    if not found:
        return
    kept = [one for one in resources(deployment) if one not in found]
    context.stack.replace({**deployment, "resources": kept})
    for one in found:
        detail = f"{one['id']} is not to be deleted: the state goes on with it"
        context.report.cleared(one, "deleting", detail)


def _import_missing(context: Context) -> list[Stored]:
    """Have the state know of all that the cloud has of its queued resources; gives what is still
    to be imported, as pending creations."""
    deployment = context.stack.deployment()
    series = missing(deployment, context.look)
    deployment = with_missing(deployment, series)
    reread = [each.resource for each in series if each.other_requests]
    if reread or any(each.earlier for each in series):
        context.stack.replace(deployment)
        import_resources(context, deployment, [], reread)
    for each in series:
        for request in each.other_requests:
            context.report.adopted(each.resource, "updating", request)
        for entry in each.earlier:
            context.report.adopted(each.resource, "creating", replaced(entry))
    return [each.latest for each in series if each.latest is not None]


def _settle_pending(context: Context, creations: Sequence[Stored]) -> None:
    """Settle the pending operations, and ``creations`` as if they were pending too."""
    deployment = with_pending(context.stack.deployment(), creations)
    operations = pending(deployment)
    imported: list[Stored] = []
    reread: list[tuple[Stored, str]] = []
    if operations:
        context.say(f"{counted(operations, 'pending operation')}: looking at the cloud …")
    for operation in operations:
        resource, kind = operation["resource"], operation["type"]
        if kind == "creating":
            imported += _begun_creation(context, resource, deployment)
        elif live_resource(deployment, resource["urn"]) is None:
            context.report.cleared(resource, kind, "the state no longer has it")
        else:
            reread.append((resource, kind))
    touched = {one["urn"] for one in (*imported, *(resource for resource, _ in reread))}
    doubtful = _doubtful(deployment, context)
    reread += [(one, "") for one in doubtful if one["urn"] not in touched]
    if not operations and not reread:
        return
    state = import_resources(context, deployment, imported, [resource for resource, _ in reread])
    for resource in imported:
        now = complete(state.deployment, resource["urn"])
        if now is None:
            context.report.cleared(resource, "creating", "the cloud does not have it")
        elif being_deleted(now):
            context.report.left_pending(resource, "creating", STILL_BEING_DELETED)
        else:
            context.report.adopted(resource, "creating", str(now["id"]))
    for resource, kind in reread:
        now = live_resource(state.deployment, resource["urn"])
        if now is None:
            context.report.cleared(resource, kind, "it is gone")
        elif being_deleted(now):
            context.report.left_pending(resource, kind, STILL_BEING_DELETED)
        else:
            context.report.cleared(resource, kind, "it is in the cloud, and was read again")
    # What an earlier recovery had begun to import from the program alone has none yet.
    write_back(context, state, {one["urn"] for one in imported if not one.get("dependencies")})


def _doubtful(deployment: Stored, context: Context) -> list[Stored]:
    """What the state has and the cloud has not, or not for long: its deletion was begun, and what
    was to wait for its end was killed. The engine keeps no operation of it when it was only the
    plugin that died. What may not be looked at is told, and stays as it is."""
    doubtful = []
    for resource in resources(deployment):
        ended = recorded_lifecycle(resource.get("outputs") or {}) is Lifecycle.ENDED
        if not is_cloud(resource) or of_type(resource["type"]) is None:
            continue
        if ended or is_reminder(resource):
            continue
        seen = context.look(resource["type"], resource.get("inputs") or {})
        if seen.error is not None:
            why = f"{name_of(resource['urn'])} was not looked at: {seen.error.message}"
            context.say(f"  warning  {why}")
        if seen.presence is Presence.ABSENT or seen.being_deleted:
            doubtful.append(resource)
    return doubtful


def _begun_creation(context: Context, resource: Stored, deployment: Stored) -> list[Stored]:
    """The entry of a resource whose create was begun, if the cloud (perhaps) has it."""
    report = context.report
    if not is_cloud(resource):
        report.cleared(resource, "creating", "it is nothing in the cloud")
        return []
    seen = context.look(resource["type"], resource.get("inputs") or {})
    if seen.presence is Presence.UNKNOWN and resource.get("id") and not seen.id:
        # The create had ended with this id; only its entry in the state was missing.
        seen = LookResult(Presence.ASK_PLUGIN, resource["id"])
    if seen.presence is Presence.ABSENT:
        report.cleared(resource, "creating", "the cloud does not have it")
    elif seen.presence is Presence.FOREIGN:
        report.cleared(resource, "creating", f"{seen.id} is not ours: {seen.detail}")
    elif seen.presence is Presence.UNKNOWN:
        report.left_pending(resource, "creating", seen.detail)
    elif missing_parents(resource, deployment):
        detail = "the state does not have its parent or its provider"
        report.left_pending(resource, "creating", detail)
    else:
        return [{"inputs": {}, **resource, "id": seen.id}]
    return []


@contextmanager
def recovery_lock(
    directory: Path, project: str, stack: str, command: str = "tpuflex recover"
) -> Iterator[None]:
    """While inside, no other recovery of that stack begins.

    The engine's lock is taken and given back by each of its runs, and a recovery makes several: two
    of them would write over each other's state. The kernel frees this lock when its holder ends,
    also by kill -9.

    Args:
        directory: of the file backend; of another backend, where this project keeps its files.
        project: Pulumi project name.
        stack: stack name.
        command: what recovers, for the error.

    Raises:
        EngineError: another one is under way.
    """
    folder = directory / ".pulumi"
    folder.mkdir(parents=True, exist_ok=True)
    with open_lock(folder / f"tpuflex-recover.{project}.{stack}.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = file.read(20).decode("ascii", "replace").strip()
            who = f" (process {holder})" if holder else ""
            raise EngineError(
                f"Another `{command}` is running on stack {stack}{who}.",
                hint="Wait for it to end, or press Ctrl-C there.",
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield
