"""What `tpuflex up` does with a slice whose boot has failed: keeps it, or deletes it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import (
    AccessError,
    FailedBootError,
    InterruptedByUser,
    NotFoundError,
    TpuflexError,
)
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.slice import slice_status
from tpuflex.queued_resource.outcomes import BOOT_FAILED_DELETED, BOOT_FAILED_KEPT

if TYPE_CHECKING:
    from tpuflex.deploy.stack_run import StackRun
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection


#: How often the deletion is attempted, and seconds in between: every one of them is billed.
_ATTEMPTS, _PAUSE = 3, 30.0


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
    return FailedBootError(failure.message, hint=hint)


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
    return FailedBootError(failure.message, hint=hint)


def _kept(failure: FailedBootError, why: str) -> FailedBootError:
    return FailedBootError(
        failure.message, hint=Advice.lines(f"{BOOT_FAILED_KEPT.text}{why}", failure.hint)
    )


def _why_kept(
    cloud: Connection, stack_run: StackRun, status: SliceStatus, before: SliceStatus | None
) -> str:
    """Why the slice is kept although the stack file says to delete it; empty if it is deleted."""
    seen = cloud.seen_states.of(cloud.stack.name)
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
