"""Reads by the XML API's path, ``GET /BUCKET/OBJECT``, which Go's storage client uses for the bytes
of an object where all else goes to the JSON API
(https://cloud.google.com/storage/docs/xml-api/get-object-download). Pulumi keeps states by it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from urllib.parse import unquote

from embedded_cloud.errors import CloudError, unimplemented
from embedded_cloud.routing import Call, Reply, Route
from embedded_cloud.storage.download_handlers import DownloadHandlers
from embedded_cloud.storage.state import StorageState

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
