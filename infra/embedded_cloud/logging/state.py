"""The log entries of all projects. No HTTP.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable

from embedded_cloud.clock import Clock, parse_rfc3339, rfc3339
from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.store import Store

_COLLECTION = "_logging/entries"
#: The id is URL-encoded.
_LOG_NAME = re.compile(r"projects/(?P<project>[^/]+)/logs/(?P<id>[A-Za-z0-9_.%-]{1,511})")
_PAYLOADS = ("textPayload", "jsonPayload", "protoPayload")
#: https://cloud.google.com/logging/quotas, as are the oldest time that is kept and the latest that
#: is taken.
_MAX_ENTRY_BYTES = 256 * 1024
_DAY_S = 24 * 3600
_RETENTION_S = 30 * _DAY_S


class Entries:
    """Log entries, by project and time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        #: Called with the project and every entry that is written from now on.
        self.readers: list[Callable[[str, JsonObject], None]] = []

    def complete(self, shared: JsonObject, entries: list[JsonObject]) -> list[JsonObject]:
        """``entries`` of a request with what they share, and with what the service adds: ids that
        keep their order among those of one time.

        Raises:
            CloudError: 400, one has no valid name, no resource, not one payload, is too large, or
                of a time that is more than a day ahead.
        """
        of_request = secrets.token_hex(6)
        return [
            self._complete(shared, entry, f"{of_request}{index:05x}")
            for index, entry in enumerate(entries)
        ]

    def _complete(self, shared: JsonObject, entry: JsonObject, insert_id: str) -> JsonObject:
        entry = {**shared, **entry}
        if "labels" in shared:
            entry["labels"] = {**child(shared, "labels"), **child(entry, "labels")}
        _project(text(entry, "logName"))
        if not text(child(entry, "resource"), "type"):
            raise invalid_argument("A monitored resource must be specified for each log entry.")
        if sum(key in entry for key in _PAYLOADS) != 1:
            raise invalid_argument("A log entry must have exactly one payload.")
        size = len(json.dumps(entry, ensure_ascii=False).encode())
        if size > _MAX_ENTRY_BYTES:
            raise invalid_argument(
                f"Log entry with size {size} exceeds maximum size of {_MAX_ENTRY_BYTES} bytes"
            )
        now = rfc3339(self._clock.now())
        stamp = _timestamp(text(entry, "timestamp") or now)
        if stamp > rfc3339(self._clock.now() + _DAY_S):
            raise invalid_argument(
                f"Log entry with timestamp {stamp} is more than 24 hours in the future."
            )
        return {
            "severity": "DEFAULT",
            "insertId": insert_id,
            **entry,
            "timestamp": stamp,
            "receiveTimestamp": now,
        }

    def put(self, entry: JsonObject) -> None:
        """Keep an entry; one of the same time and insert id is the same entry."""
        project = _project(text(entry, "logName"))
        key = f"{project}/{text(entry, 'timestamp')}/{text(entry, 'insertId')}"
        self._store.put(_COLLECTION, key, entry)
        for see in self.readers:
            see(project, entry)

    def of(self, project: str) -> list[JsonObject]:
        """The entries of ``project``, the oldest first; those past their retention are forgotten,
        also where they are written so late (they would still be routed to sinks)."""
        oldest = rfc3339(self._clock.now() - _RETENTION_S)
        kept = []
        for key, entry in self._store.list(_COLLECTION, f"{require(project)}/"):
            if text(entry, "timestamp") < oldest:
                self._store.delete(_COLLECTION, key)
            else:
                kept.append(entry)
        return kept


def _project(log_name: str) -> str:
    match = _LOG_NAME.fullmatch(log_name)
    if match is None:
        raise invalid_argument(
            f"Log name {log_name!r} is not of the form projects/PROJECT_ID/logs/LOG_ID."
        )
    return require(match["project"])


def _timestamp(stamp: str) -> str:
    try:
        return rfc3339(parse_rfc3339(stamp))
    except ValueError:
        raise invalid_argument(f"Invalid timestamp: {stamp}") from None
