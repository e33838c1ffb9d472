"""Deletion: over only when queued resource and node are both gone."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.errors import (
    AccessError,
    ApiError,
    ConflictError,
    InterruptedByUser,
    NotFoundError,
)
from tpuflex.gcp.queued_resources import RequestName
from tpuflex.provider.call import Call
from tpuflex.provider.elapsed import elapsed
from tpuflex.provider.observation import Observation

_SHORTEST_POLL = 0.5
_LONGEST_POLL = 30.0
_POLL_GROWTH = 0.1
_HEARTBEAT = 60.0
_REFUSALS = 3
_GO_ON = "It stays in the state: run the same command again."


@dataclass
class _Deletion:
    """One deletion and its memory."""

    call: Call
    name: RequestName
    labels: dict[str, str]
    started: float
    deadline: float
    operation: str = ""
    said: str = ""
    said_at: float = 0.0
    refusals: int = 0


def delete(call: Call, name: RequestName, labels: dict[str, str], *, deadline: float) -> None:
    """Delete ``name`` with its node and wait until both are gone.

    Args:
        call: what is at hand.
        name: the queued resource.
        labels: labels that say whose it is; what carries another owner is left alone.
        deadline: on the monotonic clock.

    Raises:
        ConflictError: it belongs to someone else, or is not gone at the deadline.
        AccessError: a permission is missing.
        InterruptedByUser: the engine cancelled; the deletion may go on in the cloud.
    """
    now = call.timing.monotonic()
    run = _Deletion(call, name, labels, started=now, deadline=deadline, said_at=now)
    while True:
        try:
            seen = _look(run)
            if seen is not None and seen.gone:
                return
            if seen is not None:
                _step(run, seen)
            run.refusals = 0
        except AccessError:
            run.refusals += 1
            if run.refusals >= _REFUSALS:
                raise
        except InterruptedByUser as error:
            raise InterruptedByUser(f"stopped while deleting {name}", hint=_GO_ON) from error
        _sleep(run)


def _look(run: _Deletion) -> Observation | None:
    """What is there, looked for twice if nothing is; None if the API cannot be reached."""
    try:
        return run.call.look_twice(run.name)
    except ApiError as error:
        run.call.report(f"no answer about {run.name} ({error.message})", passing=True)
        return None


def _step(run: _Deletion, seen: Observation) -> None:
    if not seen.belongs_to(run.labels):
        raise ConflictError(
            f"{run.name} belongs to {seen.owner} and was left alone",
            hint="Remove it from this state with `pulumi state delete URN`.",
        )
    if _in_progress(run, seen):
        _tell(run, seen, "")
        return
    try:
        if seen.queued_resource is not None:
            answer = run.call.client.delete_queued_resource(
                run.name, request_id=run.call.new_id(), force=True
            )
        else:
            answer = run.call.client.delete_node(run.name.node)
        run.operation = answer.name
        _tell(run, seen, "deleting")
    except NotFoundError:
        return
    except (ConflictError, ApiError) as error:
        if 400 <= error.status < 500 and not isinstance(error, ConflictError):
            raise
        # PROVISIONING cannot be deleted, for up to two hours: ask again until it can.
        _tell(run, seen, "cannot be deleted yet")


def _in_progress(run: _Deletion, seen: Observation) -> bool:
    """Whether a deletion is under way, so that asking again would only be refused."""
    if run.operation:
        operation = _operation(run)
        if operation is None or operation:
            run.operation = ""
        else:
            return True
    if seen.queued_resource is not None:
        return seen.state == "DELETING"
    return seen.node is not None and seen.node.state == "DELETING"


def _operation(run: _Deletion) -> bool | None:
    """Whether our delete operation is done; None if Google has forgotten it."""
    try:
        found = run.call.client.get_operation(run.operation)
    except ApiError:
        return False
    return found.done if found is not None else None


def _tell(run: _Deletion, seen: Observation, note: str) -> None:
    now = run.call.timing.monotonic()
    if seen.queued_resource is not None:
        sentence = seen.sentence()
    else:
        sentence = (
            f"the queued resource is gone, its node is {seen.node.state if seen.node else ''}"
        )
    line = f"{note}: {sentence}" if note else sentence
    if line != run.said:
        run.call.report(line)
    elif now - run.said_at >= _HEARTBEAT:
        run.call.report(f"{line} ({elapsed(now - run.started)} so far)", passing=True)
    else:
        return
    run.said, run.said_at = line, now


def _sleep(run: _Deletion) -> None:
    timing = run.call.timing
    now = timing.monotonic()
    if now >= run.deadline:
        raise ConflictError(
            f"{run.name} is not gone after {elapsed(now - run.started)} ({run.said})",
            hint=_GO_ON,
        )
    base = min(_LONGEST_POLL, max(_SHORTEST_POLL, (now - run.started) * _POLL_GROWTH))
    if timing.pause(min(run.deadline - now, base * (0.8 + 0.4 * timing.jitter()))):
        raise InterruptedByUser(f"stopped while deleting {run.name}", hint=_GO_ON)
