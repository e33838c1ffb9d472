"""Downloads of objects, by the JSON API and the XML API."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from email.utils import formatdate
from html import escape
from urllib.parse import unquote

from embedded_cloud.core.errors import CloudError, unimplemented
from embedded_cloud.core.routing import Call, FileRange, Reply, Route
from embedded_cloud.services.storage.errors import NotModified
from embedded_cloud.services.storage.object_handlers import ObjectHandlers, require_object
from embedded_cloud.services.storage.state import StorageState
from embedded_cloud.services.storage.wire import media_headers

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class Slice:
    """``length`` bytes from ``start``; ``partial`` when a range was asked for."""

    start: int
    length: int
    partial: bool


class NotSatisfiable(Exception):  # noqa: N818 - an answer (416), not an error
    """The range is outside of the object."""


def requested_slice(header: str, size: int) -> Slice:
    """What a Range header asks for out of ``size`` bytes.

    A header that is not one simple byte range is ignored, as the RFC allows.

    Raises:
        NotSatisfiable: the range begins after the end.
    """
    match = _RANGE.fullmatch(header.replace(" ", ""))
    if not match or match.groups() == ("", ""):
        return Slice(0, size, False)
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        if not length:
            raise NotSatisfiable
        return Slice(size - length, length, True)
    start = int(first)
    end = min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return Slice(0, size, False)
    if start >= size:
        raise NotSatisfiable
    return Slice(start, end - start + 1, True)


class DownloadHandlers:
    """Handlers of objects.get: metadata, or with alt=media the bytes."""

    def __init__(self, state: StorageState, objects: ObjectHandlers) -> None:
        self._state = state
        self._objects = objects

    def get(self, call: Call) -> Reply:
        """GET /b/{bucket}/o/{object}."""
        if call.query.get("alt") == "media":
            return self.media(call)
        return self._objects.metadata(call)

    def media(self, call: Call) -> Reply:
        """GET /download/storage/v1/b/{bucket}/o/{object}."""
        try:
            stored = require_object(self._state, call, read=True)
        except NotModified:
            return Reply(304)
        bucket = self._state.buckets.require(stored.bucket)
        self._state.keys.check_readable(bucket, stored.kms_key)
        headers = media_headers(stored)
        size = stored.digest.size
        try:
            span = requested_slice(call.headers.get("Range", ""), size)
        except NotSatisfiable:
            return Reply(
                416,
                b"Request range not satisfiable",
                {"Content-Range": f"bytes */{size}", "Content-Type": "text/html; charset=UTF-8"},
            )
        headers["Content-Length"] = str(span.length)
        headers["Last-Modified"] = formatdate(stored.updated, usegmt=True)
        if span.partial:
            end = span.start + span.length - 1
            headers["Content-Range"] = f"bytes {span.start}-{end}/{size}"
        # Opened before the answer begins, so that a delete or overwrite meanwhile does not cut it.
        file = self._state.files.path(stored.content).open("rb")
        body = FileRange(file, span.start, span.length)
        return Reply(206 if span.partial else 200, body, headers)


#: An object's name may hold slashes, plain or encoded, and colons.
_PATH = re.compile(r"/(?P<bucket>[^/]+)/(?P<object>.+)")
_CONDITIONS = {
    "x-goog-if-generation-match": "ifGenerationMatch",
    "x-goog-if-metageneration-match": "ifMetagenerationMatch",
}
#: https://cloud.google.com/storage/docs/xml-api/reference-status
_CODES = {404: "NoSuchKey", 412: "PreconditionFailed"}


class XmlHandlers:
    """Handlers of the XML API."""

    def __init__(self, state: StorageState, downloads: DownloadHandlers) -> None:
        self._state = state
        self._downloads = downloads
        self._route = Route("GET", _PATH.pattern, "storage.objects.get", self.read)

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]] | None:
        """The route of a read, and its parameters as they were sent. Only of a bucket that there
        is: on Google this host has no other service, here it may be a wrong path of one."""
        found = _PATH.fullmatch(raw_path) if method == "GET" else None
        if found is None or not self._state.buckets.exists(unquote(found["bucket"])):
            return None
        return self._route, found.groupdict()

    def read(self, call: Call) -> Reply:
        """GET /{bucket}/{object}."""
        if unknown := [name for name in call.query if name != "generation"]:
            raise unimplemented(f"{unknown[0]} in a read by the XML API")
        conditions = {
            query: call.headers[header]
            for header, query in _CONDITIONS.items()
            if header in call.headers
        }
        try:
            return self._downloads.media(replace(call, query={**call.query, **conditions}))
        except CloudError as error:
            code = _CODES.get(error.http_status)
            if code is None:
                raise
            body = (
                "<?xml version='1.0' encoding='UTF-8'?>"
                f"<Error><Code>{code}</Code><Message>{escape(error.message)}</Message></Error>"
            )
            headers = {"Content-Type": "application/xml; charset=UTF-8"}
            return Reply(error.http_status, body.encode(), headers)
