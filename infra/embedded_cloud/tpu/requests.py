"""What the handlers of the TPU API share: reading the place, writing a page of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject
from embedded_cloud.paging import page
from embedded_cloud.routing import Call, Reply
from embedded_cloud.tpu.records import Place

T = TypeVar("T")

_DEFAULT_PAGE = 100
_MAX_PAGE = 1000


def place_of(call: Call) -> Place:
    """The project and zone in the path."""
    return Place(call.params["project"], call.params["zone"])


def page_reply(
    call: Call,
    field: str,
    found: Sequence[T],
    key: Callable[[T], str],
    show: Callable[[T], JsonObject],
) -> Reply:
    """One page of a list, by ``pageSize`` and ``pageToken``."""
    size = _page_size(call.query)
    try:
        shown, token = page(
            sorted(found, key=key), key=key, size=size, token=call.query.get("pageToken")
        )
    except ValueError:
        raise invalid_argument("Invalid page token.") from None
    body: JsonObject = {field: [show(entry) for entry in shown]} if shown else {}
    if token:
        body["nextPageToken"] = token
    return Reply(body=body)


def _page_size(query: Mapping[str, str]) -> int:
    size = int(query.get("pageSize", "0"))
    if size < 0:
        raise invalid_argument("page_size must not be negative.")
    return min(size or _DEFAULT_PAGE, _MAX_PAGE)
