"""Adopt or create a queued resource: afterwards exactly one of its name exists, and it carries the
program's owner labels.

Names are deterministic, so a second attempt finds what an interrupted one has created.
"""

from __future__ import annotations

from enum import Enum, auto

from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InterruptedByUser,
    NotFoundError,
)
from tpuflex.naming import LABEL_SPEC, QUEUED_RESOURCE
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.delete import delete
from tpuflex.queued_resource.body import request_body, request_name, spec_hash
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import Operation
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.ownership import NO_RECORDS, Records, remedy
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import is_settled

#: How often the answer may be "already exists" for a name that then cannot be found.
_CONFLICTS = 3
_CONFLICT_PAUSE = 2.0


class Verdict(Enum):
    """What to do about the request that has our name."""

    CREATE = auto()
    ADOPT = auto()
    CLEAR = auto()
    REFUSE_FOREIGN = auto()
    REFUSE_DIFFERENT = auto()


def verdict(args: RequestArgs, seen: Snapshot, records: Records = NO_RECORDS) -> Verdict:
    """Decide what to do. Nothing is touched that does not carry our owner labels, or of which the
    state has none of ``records``."""
    if seen.gone:
        return Verdict.CREATE
    if not seen.belongs_to(args.labels, known=records.know(seen.name, seen.created)):
        return Verdict.REFUSE_FOREIGN
    if seen.queued_resource is None or is_settled(seen.state):
        return Verdict.CLEAR  # a leftover of ours: an orphaned node, ended, failed or deleting
    if seen.labels.get(LABEL_SPEC) == spec_hash(args):
        return Verdict.ADOPT
    return Verdict.REFUSE_DIFFERENT


def place(call: Call, args: RequestArgs, *, deadline: float) -> Operation | None:
    """Make sure that the request exists.

    Args:
        call: the engine call.
        args: the validated inputs.
        deadline: on the monotonic clock; limits the wait for a leftover to be deleted.

    Returns:
        The create operation to be watched, or None if a request was adopted.

    Raises:
        AlreadyExistsError: the name is taken by something else, which is named.
        AccessError, QuotaError, ApiError: the API refuses.
        UnreadyError: it is unknown whether the request was placed.
        InterruptedByUser: the engine cancelled before anything was placed.
    """
    name = request_name(args)
    request_id = call.new_id()
    for conflict in range(_CONFLICTS):
        seen = call.look(name)
        judged = verdict(args, seen)
        if judged is Verdict.ADOPT:
            call.report(adopted(seen), warning=True)
            return None
        if judged in (Verdict.REFUSE_FOREIGN, Verdict.REFUSE_DIFFERENT):
            raise refusal(args, seen, judged)
        if judged is Verdict.CLEAR:
            call.report(f"clearing a leftover of an earlier run, {seen.describe()}")
            delete(call, name, args.labels, deadline=deadline)
        call.pause(0)
        try:
            return _post(call, args, request_id)
        except AlreadyExistsError:
            if conflict == _CONFLICTS - 1:
                raise
            call.pause(_CONFLICT_PAUSE)
    raise AssertionError("unreachable")


def adopted(seen: Snapshot, where: str = "", *, known: bool = False) -> str:
    """What to say of a request that was there already, with the time at which it was made: a user
    who did not expect it should see that it is not a new one."""
    made = f"made at {seen.created}, " if seen.created and not known else ""
    return f"found the request of an earlier run, {made}{where}{seen.describe()}"


def withdraw(call: Call, name: RequestName) -> bool:
    """Withdraw a request that is still waiting; False if it no longer is.

    Without ``force`` Google itself decides between withdrawing and granting: a request that was
    granted a moment ago is refused, and kept.
    """
    try:
        call.client.delete_queued_resource(name, request_id=call.new_id(), force=False)
    except NotFoundError:
        return True
    except ConflictError:
        return False
    return True


def refuse_foreign(args: RequestArgs, seen: Snapshot, records: Records) -> None:
    """Check that the request found is ours.

    Raises:
        AlreadyExistsError: it carries other owner labels, or none, and is none of ``records``.
    """
    if not seen.belongs_to(args.labels, known=records.know(seen.name, seen.created)):
        raise refusal(args, seen, Verdict.REFUSE_FOREIGN)


def _post(call: Call, args: RequestArgs, request_id: str) -> Operation | None:
    name = request_name(args)
    call.report(f"requesting {args.accelerator_type} in {name.zone}", passing=True)
    try:
        return call.client.create_queued_resource(name, request_body(args), request_id=request_id)
    except InterruptedByUser as error:
        # The attempt before the interruption may have succeeded: it must stay in the state.
        raise _uncertain(Snapshot(name)) from error
    except NotFoundError as error:
        raise ApiError(
            error.message, status=404, reason="NOT_FOUND", hint="Check project and zone."
        ) from error
    except ApiError as error:
        if isinstance(error, AlreadyExistsError) or not (error.status == 0 or error.status >= 500):
            raise
        return _after_lost_answer(call, args, error)


def _after_lost_answer(call: Call, args: RequestArgs, error: ApiError) -> Operation | None:
    """The answer to the POST was lost: find out whether it took effect."""
    name = request_name(args)
    try:
        seen = call.look(name)
    except (AccessError, ApiError, InterruptedByUser):
        # A refused look says nothing about what was placed.
        raise _uncertain(Snapshot(name)) from error
    if verdict(args, seen) in (Verdict.ADOPT, Verdict.CLEAR):
        return None  # it took effect (and may have failed since): the name was free before
    if seen.gone:
        # Not visible yet is not the same as absent: it may still appear.
        raise _uncertain(seen) from error
    raise error


def _uncertain(seen: Snapshot) -> UnreadyError:
    return UnreadyError(
        f"it is not known whether {seen.name} was placed",
        snapshot=seen,
        hint="Run `pulumi up` again: it finds out and goes on.",
    )


def refusal(args: RequestArgs, seen: Snapshot, judged: Verdict) -> AlreadyExistsError:
    """The error for a request under our name that must not be touched."""
    if judged is Verdict.REFUSE_FOREIGN:
        return AlreadyExistsError(
            f"{seen.name} belongs to {seen.owner}",
            hint=remedy(args.labels, seen.name, seen.labels),
            code=Code.NAME_TAKEN,
        )
    return AlreadyExistsError(
        f"{seen.name} is ours, but it was requested with other settings ({seen.state})",
        hint=(
            "Nothing was changed. Take it into the state with"
            f" `pulumi import {QUEUED_RESOURCE} NAME {seen.name}`, or delete it."
        ),
    )
