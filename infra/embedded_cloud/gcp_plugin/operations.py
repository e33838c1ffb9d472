"""Long-running operations: wait until the API says that one is done."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.gcp_plugin.rest import Rest
from embedded_cloud.gcp_plugin.waiting import Waiter
from embedded_cloud.json_types import JsonObject, child, children, text
from tpuflex.errors import ApiError

#: Waits for the operation that the answer to a change describes; the last argument says what
#: is being done, such as ``Creating Network``.
Wait = Callable[[Rest, JsonObject, Waiter, str], None]


def compute_operation(rest: Rest, operation: JsonObject, waiter: Waiter, doing: str) -> None:
    """Poll a Compute Engine operation until its status is DONE.

    Raises:
        ApiError: the operation ended with an error.
    """
    path = _compute_path(operation)
    pauses = waiter.pauses(doing)
    while text(operation, "status") != "DONE":
        next(pauses)
        operation = rest.call("GET", path, waiter)
    errors = children(child(operation, "error"), "errors")
    if errors:
        said = "; ".join(f"{text(one, 'code')}: {text(one, 'message')}" for one in errors)
        raise ApiError(f"Error waiting for {doing}: {said}", reason=text(errors[0], "code"))


def serviceusage_operation(rest: Rest, operation: JsonObject, waiter: Waiter, doing: str) -> None:
    """Poll a Service Usage operation until it is done.

    Raises:
        ApiError: the operation ended with an error.
    """
    pauses = waiter.pauses(doing)
    while not operation.get("done"):
        next(pauses)
        operation = rest.call("GET", f"/v1/{text(operation, 'name')}", waiter)
    error = child(operation, "error")
    if error:
        raise ApiError(f"Error waiting for {doing}: {text(error, 'message')}")


def at_once(rest: Rest, operation: JsonObject, waiter: Waiter, doing: str) -> None:
    """The API is synchronous: there is nothing to wait for."""


def _compute_path(operation: JsonObject) -> str:
    # The operation's own link is the one thing that says project and region alike; only its
    # path is used, the host stays the embedded cloud.
    link = text(operation, "selfLink")
    return "/compute/v1/" + link[link.find("projects/") :]
