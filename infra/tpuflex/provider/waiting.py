"""Waiting for capacity: until ACTIVE, the deadline, a failure or a cancellation."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.errors import (
    AccessError,
    ApiError,
    InterruptedByUser,
    NotFoundError,
    QuotaError,
    TpuflexError,
)
from tpuflex.gcp.queued_resources import RequestName
from tpuflex.gcp.tpu_models import Operation, Status
from tpuflex.lifecycle import Cause, Lifecycle, classify, is_settled, remedy
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.elapsed import elapsed
from tpuflex.provider.observation import Observation

#: Seconds between polls: short at first, because capacity may be there at once, then ever longer.
_SHORTEST_POLL = 0.5
_LONGEST_POLL = 30.0
_POLL_GROWTH = 0.1
#: Seconds without a line after which one is written anyway.
_HEARTBEAT = 60.0
#: For so long after the request was accepted, a 404 means "not yet" (eventual consistency).
_NOT_YET = 60.0
#: Refusals in a row after which the permission counts as gone rather than in flux.
_REFUSALS = 3
GO_ON = "It stays in the queue and in the state: run `pulumi up` again to go on waiting."


@dataclass
class _Wait:
    """One wait and its memory."""

    call: Call
    name: RequestName
    started: float
    deadline: float
    operation: str
    seen: Observation
    said: str = ""
    said_at: float = 0.0
    refusals: int = 0
    missing_since: float | None = None
    failure: Status | None = None


def wait_until_active(
    call: Call, name: RequestName, operation: Operation | None, *, deadline: float
) -> Observation:
    """Wait until the hosts of ``name`` run.

    Args:
        call: what is at hand.
        name: the queued resource.
        operation: its create operation, if this run placed it.
        deadline: on the monotonic clock.

    Raises:
        UnreadyError: it is not active, and will not be, or not within this call; says why.
        AccessError, QuotaError, ApiError: the request was rejected and does not exist.
    """
    now = call.timing.monotonic()
    wait = _Wait(
        call=call,
        name=name,
        started=now,
        deadline=deadline,
        operation=operation.name if operation is not None else "",
        seen=Observation(name, None, None),
        said_at=now,
    )
    while True:
        _poll(wait)
        if wait.seen.lifecycle is Lifecycle.ACTIVE:
            call.report(f"{wait.seen.sentence()} (after {elapsed(_age(wait))})")
            return wait.seen
        _raise_if_settled(wait)
        _tell(wait)
        _sleep(wait)


def _poll(wait: _Wait) -> None:
    """One round of questions. An answer that does not come never fails the wait."""
    try:
        if wait.operation:
            wait.failure = _operation_failure(wait)
        wait.seen = wait.call.look(wait.name)
    except InterruptedByUser as error:
        raise _interrupted(wait) from error
    except AccessError as error:
        wait.refusals += 1
        if wait.refusals >= _REFUSALS:
            raise UnreadyError(error.message, observation=wait.seen, hint=error.hint) from error
    except ApiError as error:
        wait.call.report(
            f"no answer about {wait.name} ({error.message}); asking again", passing=True
        )
    else:
        wait.refusals = 0
        if wait.failure is not None:
            _raise_rejected(wait, wait.failure)


def _operation_failure(wait: _Wait) -> Status | None:
    """How the create operation failed; None if it did not, is not over, or was forgotten."""
    found = wait.call.client.get_operation(wait.operation)
    if found is not None and not found.done:
        return None
    wait.operation = ""  # the queued resource tells the rest
    return found.error if found is not None else None


def _raise_rejected(wait: _Wait, failure: Status) -> None:
    if wait.seen.gone:
        raise _rejection(wait.name, failure)
    if not is_settled(wait.seen.state):
        raise _unready(wait, f"{wait.name} was rejected: {failure.message}", failure)


def _raise_if_settled(wait: _Wait) -> None:
    seen = wait.seen
    if seen.queued_resource is None:
        _raise_if_missing(wait)
        return
    wait.missing_since = None
    if seen.lifecycle is Lifecycle.LOST:
        raise UnreadyError(
            f"{wait.name} is ACTIVE but its node is gone",
            observation=seen,
            hint="Run `pulumi up` again: it replaces it.",
        )
    if seen.state == "FAILED":
        data = seen.queued_resource.state.failed_data
        failure = data.error if data is not None else Status(message="no reason was given")
        raise _unready(wait, f"{wait.name} FAILED: {failure.message}", failure)
    if seen.state == "SUSPENDED":
        raise UnreadyError(
            f"the run of {wait.name} is over (SUSPENDED); its hosts are gone",
            observation=seen,
            hint="For a new run: `pulumi up --replace URN`, or `pulumi destroy` and `pulumi up`.",
        )
    if seen.state == "DELETING":
        raise UnreadyError(
            f"{wait.name} is being deleted by someone else",
            observation=seen,
            hint="Run `pulumi up` again: it waits until it is gone and asks anew.",
        )


def _raise_if_missing(wait: _Wait) -> None:
    now = wait.call.timing.monotonic()
    if wait.missing_since is None:
        wait.missing_since = now
    if now - wait.missing_since > _NOT_YET:
        raise UnreadyError(
            f"{wait.name} was accepted but cannot be found",
            observation=wait.seen,
            hint="Someone may have deleted it. Run `pulumi up` again.",
        )


def _tell(wait: _Wait) -> None:
    """A line when the state changes, and a sign of life every minute."""
    now = wait.call.timing.monotonic()
    sentence = wait.seen.sentence() if wait.seen.queued_resource else "sent; not listed yet"
    if sentence != wait.said:
        after = f" (after {elapsed(_age(wait))})" if wait.said else ""
        wait.call.report(f"{sentence}{after}")
    elif now - wait.said_at >= _HEARTBEAT:
        left = elapsed(wait.deadline - now)
        wait.call.report(f"{sentence} ({elapsed(_age(wait))} so far, {left} left)", passing=True)
    else:
        return
    wait.said, wait.said_at = sentence, now


def _sleep(wait: _Wait) -> None:
    timing = wait.call.timing
    left = wait.deadline - timing.monotonic()
    if left <= 0:
        raise UnreadyError(
            f"{wait.name} is not active after {elapsed(_age(wait))}: {wait.seen.sentence()}",
            observation=wait.seen,
            hint=GO_ON,
        )
    base = min(_LONGEST_POLL, max(_SHORTEST_POLL, _age(wait) * _POLL_GROWTH))
    if timing.pause(min(left, base * (0.8 + 0.4 * timing.jitter()))):
        raise _interrupted(wait)


def _age(wait: _Wait) -> float:
    return wait.call.timing.monotonic() - wait.started


def _interrupted(wait: _Wait) -> UnreadyError:
    return UnreadyError(
        f"stopped waiting for {wait.name}: {wait.seen.sentence()}",
        observation=wait.seen,
        hint=GO_ON,
    )


def _unready(wait: _Wait, message: str, failure: Status) -> UnreadyError:
    cause = classify(failure.code, failure.message)
    return UnreadyError(
        f"{message} (cause: {cause})",
        observation=wait.seen,
        hint=f"{remedy(cause)} `pulumi up` replaces it, `pulumi destroy` removes it.",
    )


def _rejection(name: RequestName, failure: Status) -> TpuflexError:
    cause = classify(failure.code, failure.message)
    message = f"{name} was rejected (code {failure.code}): {failure.message}"
    if cause is Cause.QUOTA:
        return QuotaError(message, hint=remedy(cause))
    if cause is Cause.PERMISSION:
        return AccessError(message, hint=remedy(cause))
    if failure.code == 5:
        return NotFoundError(message)
    return ApiError(message, hint=remedy(cause))
