"""What one call of the engine works with: requests to the cloud, and waits for its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from embedded_cloud.core.json_types import JsonObject, child, children, text
from embedded_cloud.gcp_plugin.rest import Rest, Waiter
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from tpuflex.errors import ApiError

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class CloudCall:
    """One call of the engine.

    Attributes:
        rest: the cloud.
        settings: those of the provider that is called.
        waiter: how long the call may take, and whether it was cancelled.
    """

    rest: Rest
    settings: ProviderSettings
    waiter: Waiter

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """The cloud's answer, see :meth:`Rest.call`."""
        return self.rest.call(method, path, self.waiter, query=query, body=body)


#: Waits for the operation that the answer to a change describes; the last argument says what
#: is being done, such as ``Creating Network``.
Wait = Callable[[CloudCall, JsonObject, str], None]


def compute_operation(call: CloudCall, operation: JsonObject, doing: str) -> None:
    """Poll a Compute Engine operation until its status is DONE.

    Raises:
        ApiError: the operation ended with an error.
    """
    # Its own link tells project and region; the host stays the embedded cloud.
    link = text(operation, "selfLink")
    path = "/compute/v1/" + link[link.find("projects/") :]
    pauses = call.waiter.pauses(doing)
    while text(operation, "status") != "DONE":
        next(pauses)
        operation = call.request("GET", path)
    errors = children(child(operation, "error"), "errors")
    if errors:
        reasons = "; ".join(f"{text(one, 'code')}: {text(one, 'message')}" for one in errors)
        raise ApiError(f"Error waiting for {doing}: {reasons}", reason=text(errors[0], "code"))


def serviceusage_operation(call: CloudCall, operation: JsonObject, doing: str) -> None:
    """Poll a Service Usage operation until it is done.

    Raises:
        ApiError: the operation ended with an error.
    """
    pauses = call.waiter.pauses(doing)
    while not operation.get("done"):
        next(pauses)
        operation = call.request("GET", f"/v1/{text(operation, 'name')}")
    error = child(operation, "error")
    if error:
        raise ApiError(f"Error waiting for {doing}: {text(error, 'message')}")


def at_once(call: CloudCall, operation: JsonObject, doing: str) -> None:
    """The API is synchronous: there is nothing to wait for."""


@contextmanager
def failing_with(prefix: str) -> Iterator[None]:
    """Put ``prefix`` in front of the message of an :class:`ApiError` in the block."""
    try:
        yield
    except ApiError as error:
        raise ApiError(
            f"{prefix}: {error.message}",
            status=error.status,
            reason=error.reason,
            method=error.method,
            url=error.url,
            hint=error.hint,
        ) from error


def unless_gone(prefix: str, request: Callable[[], _Answer]) -> _Answer | None:
    """The answer to ``request``; ``None`` when there is no such resource.

    Raises:
        ApiError: any other failure, with ``prefix`` in front of its message.
    """
    with failing_with(prefix):
        try:
            return request()
        except ApiError as error:
            if error.status == 404:
                return None
            raise
