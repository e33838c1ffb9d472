"""Create, read, update and delete, on plain values."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from tpuflex.errors import NotFoundError
from tpuflex.gcp.queued_resources import RequestName
from tpuflex.lifecycle import Lifecycle
from tpuflex.provider.arguments import parse
from tpuflex.provider.call import Call
from tpuflex.provider.codec import Properties
from tpuflex.provider.deletion import delete
from tpuflex.provider.observation import Observation, observed_inputs
from tpuflex.provider.patching import patch
from tpuflex.provider.placement import place, refuse_foreign
from tpuflex.provider.request import request_name
from tpuflex.provider.waiting import wait_until_active

JsonObject = dict[str, JsonValue]

#: Seconds that a call may take when the program sets no `custom_timeouts`.
CREATE_TIMEOUT = 24 * 3600.0
DELETE_TIMEOUT = 3 * 3600.0

_NOTICES = {
    Lifecycle.ENDED: (
        "the run is over and the hosts are gone; the leftover still uses quota. For a new run:"
        " `pulumi up --replace URN`; to clean up: `pulumi destroy`."
    ),
    Lifecycle.FAILED: "the request failed; `pulumi up` replaces it.",
    Lifecycle.LOST: "something was deleted outside of Pulumi; `pulumi up` replaces it.",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a read found.

    Attributes:
        inputs: the inputs as the cloud has them.
        seen: the look itself.
    """

    inputs: Properties
    seen: Observation


def create(call: Call, inputs: Properties, *, timeout: float) -> Observation:
    """Place the request, or adopt the one of an interrupted run, and wait until it is active.

    Args:
        call: what is at hand.
        inputs: checked inputs.
        timeout: seconds; 0 for the default of 24 hours.

    Raises:
        UnreadyError: the request exists, or may exist, and must be kept in the state.
        TpuflexError: nothing was placed.
    """
    args = parse(inputs)
    deadline = call.timing.monotonic() + (timeout or CREATE_TIMEOUT)
    operation = place(call, args, deadline=deadline)
    seen = wait_until_active(call, request_name(args), operation, deadline=deadline)
    return patch(call, args, {}, seen, deadline=deadline)


def read(call: Call, id_: str, inputs: Properties) -> Found | None:
    """What the cloud has under ``id_``; None if nothing is left.

    Args:
        call: what is at hand.
        id_: full name of the queued resource.
        inputs: inputs in the state; empty when it is imported.
    """
    seen = call.look_twice(RequestName.parse(id_))
    if seen.gone:
        return None
    notice = _NOTICES.get(seen.lifecycle)
    if notice is not None:
        call.report(f"{seen.sentence()}: {notice}", warning=True)
    return Found(observed_inputs(inputs, seen), seen)


def update(
    call: Call, old: Properties, new: Properties, stands: Lifecycle | None, *, timeout: float
) -> Observation:
    """Go on waiting if it is not active yet, then patch the node.

    Args:
        call: what is at hand.
        old: inputs as they were last applied.
        new: checked inputs.
        stands: where the resource stood according to the state.
        timeout: seconds; 0 for the default of 24 hours.

    Raises:
        UnreadyError: it is still not active.
        NotFoundError: it was active once and is gone.
    """
    args = parse(new)
    name = request_name(args)
    deadline = call.timing.monotonic() + (timeout or CREATE_TIMEOUT)
    seen = call.look_twice(name)
    operation = None
    if seen.gone:
        if stands not in (Lifecycle.WAITING, Lifecycle.PROVISIONING):
            raise NotFoundError(f"{name} is gone", hint="Run: pulumi refresh")
        # What we were waiting for was deleted, or never arrived: ask for it anew.
        operation = place(call, args, deadline=deadline)
    else:
        refuse_foreign(args, seen)
    seen = wait_until_active(call, name, operation, deadline=deadline)
    return patch(call, args, old, seen, deadline=deadline)


def delete_resource(call: Call, id_: str, inputs: Properties, *, timeout: float) -> None:
    """Delete queued resource and node and wait until both are gone.

    Args:
        call: what is at hand.
        id_: full name of the queued resource.
        inputs: inputs in the state, whose owner label must be the one in the cloud.
        timeout: seconds; 0 for the default of 3 hours.
    """
    labels = inputs.get("labels")
    marks = {k: str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}
    deadline = call.timing.monotonic() + (timeout or DELETE_TIMEOUT)
    delete(call, RequestName.parse(id_), marks, deadline=deadline)
