"""HTTP calls that download objects: alt=media and /download, whole or by range."""

from __future__ import annotations

from email.utils import formatdate

from embedded_cloud.routing import Call, FileRange, Reply
from embedded_cloud.storage.errors import NotModified
from embedded_cloud.storage.object_handlers import ObjectHandlers, require_object
from embedded_cloud.storage.ranges import NotSatisfiable, requested_slice
from embedded_cloud.storage.state import StorageState
from embedded_cloud.storage.wire import media_headers


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
