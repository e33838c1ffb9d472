"""Changes of Compute Engine: each is answered by an operation, which is waited for.

https://cloud.google.com/compute/docs/reference/rest/v1/zoneOperations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pulumi_plugin.printable import printable
from tpuflex.errors import ApiError, CapacityError, QuotaError
from tpuflex.gcp.paging import objects

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api, JsonObject

#: Seconds that one change may take, and between two looks.
_PATIENCE, _POLL = 300.0, 2.0
_SAID = 300
#: What Compute Engine says when a zone has no machine to give
#: (https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability).
_NO_ROOM = ("ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")
_QUOTA = ("QUOTA_EXCEEDED", "RESOURCE_QUOTA_EXCEEDED")


def finish(
    operation: JsonObject, api: Api, *, now: Callable[[], float], sleep: Callable[[float], object]
) -> None:
    """Wait until ``operation`` is over.

    Args:
        operation: as the change was answered.
        api: client of Compute Engine.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.

    Raises:
        CapacityError: the zone has no machine to give.
        QuotaError: a quota is used up.
        ApiError: it failed, or takes longer than five minutes.
    """
    deadline = now() + _PATIENCE
    while operation.get("status") != "DONE":
        if now() >= deadline:
            raise ApiError(f"operation {printable(str(operation.get('name')))} does not end")
        sleep(_POLL)
        operation = api.call("GET", _path(operation))
    error = operation.get("error")
    if isinstance(error, dict):
        raise _failure(error)


def _path(operation: JsonObject) -> str:
    """Its path below the client's own address: a link names whatever host its writer likes."""
    _, found, rest = urlsplit(str(operation.get("selfLink"))).path.partition("/projects/")
    if not found:
        raise ApiError("Compute Engine names no operation to wait for")
    return f"/compute/v1/projects/{rest}"


def _failure(error: JsonObject) -> ApiError | CapacityError | QuotaError:
    first = next(objects(error, "errors"), {})
    code = str(first.get("code") or "")
    text = printable(str(first.get("message") or code)[:_SAID])
    if code in _NO_ROOM:
        return CapacityError(text)
    if code in _QUOTA:
        return QuotaError(text)
    status = 404 if code == "RESOURCE_NOT_FOUND" else 0
    return ApiError(text, status=status, reason=printable(code[:_SAID]))
