"""Lists that Google's APIs answer with: their pages, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tpuflex.google.timing import DEFAULT_BUDGET

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tpuflex.google.transport import Api, JsonObject


def pages(
    api: Api, path: str, query: Mapping[str, str] | None = None, *, budget: float = DEFAULT_BUDGET
) -> Iterator[JsonObject]:
    """Every page of the list at ``path``."""
    token = ""
    while True:
        paging = {"pageToken": token} if token else {}
        page = api.call("GET", path, query={**(query or {}), **paging}, budget=budget)
        yield page
        token = str(page.get("nextPageToken") or "")
        if not token:
            return


def entries(page: JsonObject, key: str) -> list[JsonValue]:
    """The list under ``key``; empty if there is none."""
    listed = page.get(key)
    return listed if isinstance(listed, list) else []


def objects(page: JsonObject, key: str) -> Iterator[JsonObject]:
    """The objects of the list under ``key``."""
    return (entry for entry in entries(page, key) if isinstance(entry, dict))
