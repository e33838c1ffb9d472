"""HTTP calls on objects, except uploads and downloads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from embedded_cloud.core.errors import unimplemented
from embedded_cloud.core.json_types import JsonObject, JsonValue, merge
from embedded_cloud.core.paging import encode_token
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.services.storage.buckets import Bucket
from embedded_cloud.services.storage.errors import (
    NotModified,
    Preconditions,
    integer,
)
from embedded_cloud.services.storage.handlers import PAGING, refuse_soft_deleted, refuse_unsupported
from embedded_cloud.services.storage.objects import SETTABLE, StoredObject
from embedded_cloud.services.storage.state import StorageState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """What objects.list was asked for.

    Attributes:
        after: list only keys greater than this one (from a page token).
        limit: objects and prefixes together, per page.
    """

    prefix: str = ""
    delimiter: str = ""
    include_trailing_delimiter: bool = False
    start_offset: str = ""
    end_offset: str = ""
    match_glob: str = ""
    after: str = ""
    limit: int = 1000


@dataclass(slots=True)
class Listing(Generic[T]):
    """One page: objects, common prefixes, and the key to continue after."""

    items: list[T] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    last: str | None = None


def select(entries: Iterable[tuple[str, str, T]], query: Query) -> Listing[T]:
    """The page of ``entries`` that ``query`` asks for.

    Args:
        entries: (key, object name, object), sorted by key. A key starts with the name;
            a common prefix is sorted by its own text.
    """
    listing: Listing[T] = Listing()
    glob = re.compile(glob_pattern(query.match_glob)) if query.match_glob else None
    position = ""
    for key, name, item in entries:
        if not _shown(name, query) or (glob and not glob.fullmatch(name)):
            continue
        folded = _common_prefix(name, query)
        place = folded or key
        if query.after and place <= query.after:
            continue
        if folded and folded in listing.prefixes[-1:]:
            if query.include_trailing_delimiter and name == folded:
                listing.items.append(item)
            continue
        if len(listing.items) + len(listing.prefixes) >= query.limit:
            listing.last = position
            return listing
        position = place
        if not folded:
            listing.items.append(item)
            continue
        listing.prefixes.append(folded)
        if query.include_trailing_delimiter and name == folded:
            listing.items.append(item)
    return listing


def _shown(name: str, query: Query) -> bool:
    if not name.startswith(query.prefix) or name < query.start_offset:
        return False
    return not query.end_offset or name < query.end_offset


def _common_prefix(name: str, query: Query) -> str:
    """The common prefix that stands for ``name``, or empty when it is listed itself."""
    if not query.delimiter:
        return ""
    at = name.find(query.delimiter, len(query.prefix))
    return name[: at + len(query.delimiter)] if at >= 0 else ""


def glob_pattern(glob: str) -> str:
    """The regular expression of a matchGlob.

    https://cloud.google.com/storage/docs/json_api/v1/objects/list#list-objects-and-prefixes-using-glob
    """
    out: list[str] = []
    depth = at = 0
    while at < len(glob):
        char = glob[at]
        if glob.startswith("**", at):
            out.append(".*")
            at += 2
            # `**/` also matches no directory at all.
            if glob.startswith("/", at):
                out[-1] = "(?:.*/)?"
                at += 1
            continue
        if char == "[" and (end := glob.find("]", at + 2)) > 0:
            body = glob[at + 1 : end].replace("\\", "\\\\")
            out.append(f"[^{body[1:]}]" if body[0] in "!^" else f"[{body}]")
            at = end + 1
            continue
        opened = depth > 0
        depth += (char == "{") - (char == "}" and opened)
        simple = {"*": "[^/]*", "?": "[^/]", "{": "(?:"}
        if opened:
            simple |= {",": "|", "}": ")"}
        out.append(simple.get(char, re.escape(char)))
        at += 1
    return "".join(out)


class ObjectHandlers:
    """Handlers of ``objects`` that move no bytes through the call."""

    def __init__(self, state: StorageState) -> None:
        self._state = state

    def metadata(self, call: Call) -> Reply:
        """GET /b/{bucket}/o/{object}."""
        refuse_soft_deleted(call)
        try:
            return self._reply(self._object(call, read=True))
        except NotModified:
            return Reply(304)

    def list(self, call: Call) -> Reply:
        """GET /b/{bucket}/o."""
        refuse_soft_deleted(call)
        if call.query.get("filter"):
            raise unimplemented("filter in storage.objects.list")
        bucket = self._state.buckets.require(call.params["bucket"])
        query = _list_query(call)
        versions = call.query.get("versions", "false").lower() == "true"
        objects = self._state.objects.all(bucket.name, prefix=query.prefix, versions=versions)
        listing = select(((each.order, each.name, each) for each in objects), query)
        body: JsonObject = {"kind": "storage#objects"}
        if listing.items:
            body["items"] = [self._resource(each) for each in listing.items]
        if listing.prefixes:
            body["prefixes"] = [*listing.prefixes]
        if listing.last is not None:
            body["nextPageToken"] = encode_token(listing.last)
        return Reply(body=body)

    def patch(self, call: Call) -> Reply:
        """PATCH /b/{bucket}/o/{object}."""
        stored, body = self._object(call), _settable(call)
        return self._reply(self._state.objects.amend(stored, merge(stored.settable, body)))

    def delete(self, call: Call) -> Reply:
        """DELETE /b/{bucket}/o/{object}: a generation that is named goes for good."""
        bucket = self._state.buckets.require(call.params["bucket"])
        stored = self._object(call)
        keep = bucket.versioned and "generation" not in call.query
        self._state.objects.remove(stored, versioned=keep)
        return Reply(204)

    def _object(self, call: Call, *, read: bool = False) -> StoredObject:
        return require_object(self._state, call, read=read)

    def _resource(self, stored: StoredObject) -> JsonValue:
        return self._state.resource(stored)

    def _reply(self, stored: StoredObject) -> Reply:
        return Reply(body=self._state.resource(stored))


def require_object(state: StorageState, call: Call, *, read: bool) -> StoredObject:
    """The object that the path, ``generation`` and the preconditions name.

    Raises:
        CloudError: 404; 412.
        NotModified: only when ``read``.
    """
    bucket = state.buckets.require(call.params["bucket"])
    return state.objects.require(
        bucket.name,
        call.params["object"],
        integer(call.query, "generation"),
        Preconditions.from_query(call.query),
        read=read,
    )


def _list_query(call: Call) -> Query:
    return Query(
        prefix=call.query.get("prefix", ""),
        delimiter=call.query.get("delimiter", ""),
        include_trailing_delimiter=(
            call.query.get("includeTrailingDelimiter", "false").lower() == "true"
        ),
        start_offset=call.query.get("startOffset", ""),
        end_offset=call.query.get("endOffset", ""),
        match_glob=call.query.get("matchGlob", ""),
        after=PAGING.after(call),
        limit=PAGING.size(call),
    )


def _settable(call: Call) -> JsonObject:
    body = call.body or {}
    refuse_unsupported(call, body)
    return only_settable(body)


def only_settable(body: JsonObject) -> JsonObject:
    """The fields of ``body`` that a caller sets."""
    return {key: value for key, value in body.items() if key in SETTABLE}


def with_class(bucket: Bucket, settable: JsonObject) -> JsonObject:
    """``settable``, in the storage class of ``bucket`` unless it names one."""
    return {"storageClass": bucket.settings.get("storageClass"), **settable}
