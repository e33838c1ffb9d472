"""Lists of Google's APIs: page by page, object by object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from tpuflex.gcp.transport import Api, JsonObject

#: In the place of a zone: all of them. gcloud lists TPUs so (``--zone=-``), but the reference of
#: the REST API does not mention it. So it only ever adds to what is listed zone by zone, and a
#: refusal, or a zone that is unreachable, means no more than that nothing was added.
ANY_ZONE = "-"


def zone_of(entry: JsonObject) -> str:
    """The zone in an entry's full name, ``projects/P/locations/Z/…``; empty if it has none."""
    return (str(entry.get("name")).split("/") + [""] * 4)[3]


def pages(api: Api, path: str, query: Mapping[str, str] | None = None) -> Iterator[JsonObject]:
    """Every page of the list at ``path``."""
    token = ""
    while True:
        paging = {"pageToken": token} if token else {}
        page = api.call("GET", path, query={**(query or {}), **paging})
        yield page
        token = str(page.get("nextPageToken") or "")
        if not token:
            return


def entries(page: JsonObject, key: str) -> list[JsonValue]:
    """The list under ``key``; empty if there is none."""
    found = page.get(key)
    return found if isinstance(found, list) else []


def objects(page: JsonObject, key: str) -> Iterator[JsonObject]:
    """The objects of the list under ``key``."""
    return (entry for entry in entries(page, key) if isinstance(entry, dict))
