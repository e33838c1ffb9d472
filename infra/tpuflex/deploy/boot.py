"""The part of `tpuflex up` after the engine: wait until the host serves, and keep or delete a slice
whose boot has failed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from tpuflex import gcloud_commands
from tpuflex.advice import Advice
from tpuflex.errors import (
    AccessError,
    BootError,
    CapacityError,
    EmulatorError,
    FailedBootError,
    InterruptedByUser,
    NotFoundError,
    TpuflexError,
)
from tpuflex.google.queued_resources import observe_host
from tpuflex.host.boot_wait import AGAIN, BootDeadlines, BootWait, FreshlyServing
from tpuflex.host.report import HostReport
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.endpoint_status import health
from tpuflex.operate.host_log import emulated_log
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.queued_resource.outcomes import BOOT_FAILED_DELETED, BOOT_FAILED_KEPT
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.progress import (
    BootBegan,
    BootEnded,
    BootGoesOn,
    BootReported,
    BootUnread,
    Report,
    silent,
)

if TYPE_CHECKING:
    from tpuflex.deploy.stack_run import StackRun
    from tpuflex.operate.health import Health
    from tpuflex.stack.connection import Connection

#: Seconds between two questions for a host's report. Google allows ten a minute
#: (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes#limitations).
_POLL_SECONDS = 10.0
#: The same on the embedded cloud, whose hosts boot in seconds.
_EMBEDDED_POLL_SECONDS = 0.25
#: How often the deletion is attempted, and seconds in between: every one of them is billed.
_ATTEMPTS, _PAUSE = 3, 30.0


def wait_ready(
    cloud: Connection, report: Report = silent, *, before: HostReport | None = None
) -> tuple[SliceStatus, Health | None]:
    """Wait until the host has served a completion, telling its phases. One that had before is asked
    for another one: what came of it is the second value.

    Args:
        cloud: the stack's cloud.
        report: receives the phases.
        before: what the host said before it was made to boot again: of that boot nothing counts.

    Raises:
        NotFoundError, ConflictError: of one that was READY, the API key was deleted.
        AccessError: and it refuses the key; or as below.
        BootError: and it does not answer; or as below.
        CapacityError: the request is still waiting.
        FailedBootError: the host failed, or says nothing.
        BootError: the host took longer than ``timeouts.ready``, or its run is over.
        AccessError, ApiError: whether it serves cannot be read.
    """
    status = _running(cloud)
    serves = status.host is not None and status.host.serves_at(cloud.now().timestamp())
    if before is None and serves:
        return status, _answers(cloud, status, report)
    timeouts = cloud.stack.settings.slice.timeouts
    log = host_log(cloud, status)
    report(BootBegan())
    try:

        def observe() -> HostReport | None:
            report(BootGoesOn())
            found = observe_host(status.node, cloud.tpu)
            is_old = before is not None and found is not None and found.began == before.began
            return None if is_old else found

        wait = BootWait(
            observe,
            look=lambda: _running(cloud),
            deadlines=BootDeadlines(
                first_report=timeouts.first_report.total_seconds(),
                ready=timeouts.ready.total_seconds(),
                poll=poll_seconds(cloud),
            ),
            now=cloud.timing.monotonic,
            sleep=cloud.sleep,
            changed=lambda said: report(BootReported(said)),
            refused=lambda why: report(BootUnread(why)),
            log=log,
            serves=attrgetter("serves")
            if before is not None
            else FreshlyServing(
                cloud.timing.monotonic,
                Advice("The host's log: {log}\n{again}", log=log, again=AGAIN),
            ),
        )
        try:
            ready = wait.run()
        except KeyboardInterrupt as error:
            raise InterruptedByUser(
                "Stopped waiting; the slice is running and its host goes on booting.",
                hint=Advice(
                    "`{up}` goes on waiting, `{status}` shows the state, `{down}` ends it."
                ),
            ) from error
    finally:
        report(BootEnded())
    status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    return replace(status, host=ready), None


def _answers(cloud: Connection, status: SliceStatus, report: Report) -> Health:
    """What comes of asking a host that says READY. That it cannot be asked from here is none of its
    faults.

    Raises:
        TpuflexError: it does not answer, or not with the stack's key.
    """
    found = health(cloud, status, report)
    if found.problem is not None:
        raise found.problem
    return found


def poll_seconds(cloud: Connection) -> float:
    """Seconds between two questions for what a host reports."""
    quick = cloud.stack.embedded and not cloud.stack.rehearsed
    return _EMBEDDED_POLL_SECONDS if quick else _POLL_SECONDS


def _running(cloud: Connection) -> SliceStatus:
    """The slice, which has hosts.

    Raises:
        NotFoundError: there is none.
        CapacityError, BootError: it has no hosts.
    """
    status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    require_active(status)
    return status


def require_active(status: SliceStatus) -> None:
    """Check that there are hosts to wait for.

    Raises:
        CapacityError: the request is still waiting.
        BootError: there are no hosts, and the user has to act.
    """
    text = f"{status.queued_resource} in {status.zone} is {status.state}: {status.sentence}."
    if status.lifecycle in (Lifecycle.WAITING, Lifecycle.PROVISIONING):
        raise CapacityError(text, hint=status.advice.sentence())
    if status.lifecycle is not Lifecycle.ACTIVE:
        raise BootError(text, hint=status.advice.sentence())


def host_log(cloud: Connection, status: SliceStatus) -> Advice:
    """Where to read the host's log: a file, or the command that shows it."""
    if cloud.stack.embedded:
        path = None
        with suppress(EmulatorError):  # it is only said where the log is, should the boot fail
            path = emulated_log(cloud, status.node)
        return Advice.of(str(path)) if path else Advice("`{logs}`")
    command = gcloud_commands.host_log(status.node, lines=50)
    return Advice("`{logs}`, or {command} {described}", command=command, described=command.hint)


def slice_before(cloud: Connection) -> SliceStatus | None:
    """The slice as it is before the engine runs, by which one that is made or granted now is told
    from one that may have served; None if there is none, or a failed one is kept anyway."""
    if cloud.stack.settings.slice.on_boot_failure == "keep":
        return None
    try:
        return slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    except NotFoundError:
        return None


def after_failed_boot(
    cloud: Connection,
    stack_run: StackRun,
    failure: FailedBootError,
    before: SliceStatus | None,
) -> TpuflexError:
    """Do what ``tpuflex:slice.on_boot_failure`` says.

    Args:
        cloud: the stack's cloud.
        stack_run: the engine on the stack.
        failure: why the boot failed.
        before: what :func:`slice_before` found.

    Returns:
        The error to end with: ``failure``, and what was done about the slice.
    """
    stack = cloud.stack
    if stack.settings.slice.on_boot_failure == "keep":
        return failure
    try:
        status = slice_status(stack.settings, stack.names, cloud.tpu)
        if why_not := _why_kept(cloud, stack_run, status, before):
            return _kept(failure, f": {why_not}.")
        stack_run.report(failure.message)
        stack_run.report(
            f"Deleting {status.queued_resource} in {status.zone}, and nothing else, as"
            " tpuflex:slice.on_boot_failure says …"
        )
        delete_slice(cloud, stack_run)
    except TpuflexError as error:
        return _not_deleted(failure, error)
    hint = Advice(
        "{text}\n`{logs}` shows the end of its log, if it wrote one.", text=BOOT_FAILED_DELETED.text
    )
    return FailedBootError(failure.message, hint=hint, section=failure.section)


def delete_slice(cloud: Connection, stack_run: StackRun) -> None:
    """Delete the slice; again if that fails for a reason that may pass. What passes within one
    deletion the provider has waited for: here an engine has died, another one holds the state, or
    the slice was not gone at the deadline.

    Raises:
        TpuflexError: it could not be deleted.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            stack_run.destroy_slice()
        except (AccessError, InterruptedByUser):
            raise
        except TpuflexError as error:
            if attempt == _ATTEMPTS:
                raise
            stack_run.report(f"It could not be deleted: {error.message}")
            stack_run.report(f"Trying again in {_PAUSE:g} s ({attempt} of {_ATTEMPTS - 1}) …")
            if cloud.timing.pause(_PAUSE):
                raise
        else:
            return


def _not_deleted(failure: FailedBootError, error: TpuflexError) -> FailedBootError:
    """The error where deleting it failed: that it is billed and what ends that come first, then the
    place of the host's log. The hint of ``error`` speaks of a `down`, which nobody ran, and that of
    ``failure`` of an `up` that waits; neither says who deletes it now."""
    hint = Advice(
        "{text}, because that failed: {message}\n"
        "`{down}` deletes it; a later `{up}` does not: it ran before that.\n"
        "{known}",
        text=BOOT_FAILED_KEPT.text,
        message=error.message,
        known=failure.known,
    )
    return FailedBootError(failure.message, hint=hint, section=failure.section)


def _kept(failure: FailedBootError, why: str) -> FailedBootError:
    hint = Advice.lines(f"{BOOT_FAILED_KEPT.text}{why}", failure.hint)
    return FailedBootError(failure.message, hint=hint, section=failure.section)


def _why_kept(
    cloud: Connection, stack_run: StackRun, status: SliceStatus, before: SliceStatus | None
) -> str:
    """Why the slice is kept although the stack file says to delete it; empty if it is deleted."""
    seen = cloud.known_state_ids.of(cloud.stack.name)
    if status.state_id not in seen:
        return f"another state has made it ({status.state_id or 'one without an id'})"
    held = {
        resource.get("id")
        for resource in stack_run.engine.resources()
        if resource.get("type") == QUEUED_RESOURCE
    }
    if held != {status.request}:
        return f"the state has {', '.join(map(str, held)) or 'none'}, and not {status.request}"
    if before is not None and not status.granted_since(before):
        return "it ran before this `up`, and may have served"
    return ""
