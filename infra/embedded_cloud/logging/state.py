"""The log entries of all projects. No HTTP.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry
"""

from __future__ import annotations

import json
import re
import secrets

from embedded_cloud.clock import Clock, parse_rfc3339, rfc3339
from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.store import Store

_COLLECTION = "_logging/entries"
#: The id is URL-encoded.
_LOG_NAME = re.compile(r"projects/(?P<project>[^/]+)/logs/(?P<id>[A-Za-z0-9_.%-]{1,511})")
_PAYLOADS = ("textPayload", "jsonPayload", "protoPayload")
#: https://cloud.google.com/logging/quotas
_MAX_ENTRY_BYTES = 256 * 1024


class Entries:
    """Log entries, by project and time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def complete(self, shared: JsonObject, entry: JsonObject) -> JsonObject:
        """``entry`` with what it shares with the others of its request, and with what the service
        adds.

        Raises:
            CloudError: 400, it has no valid name, no resource, not one payload, or is too large.
        """
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
        return {
            "severity": "DEFAULT",
            "insertId": secrets.token_hex(8),
            **entry,
            "timestamp": _timestamp(text(entry, "timestamp") or now),
            "receiveTimestamp": now,
        }

    def put(self, entry: JsonObject) -> None:
        """Keep an entry; one of the same time and insert id is the same entry."""
        project = _project(text(entry, "logName"))
        key = f"{project}/{text(entry, 'timestamp')}/{text(entry, 'insertId')}"
        self._store.put(_COLLECTION, key, entry)

    def of(self, project: str) -> list[tuple[str, JsonObject]]:
        """The entries of ``project`` with their keys, the oldest first."""
        return self._store.list(_COLLECTION, f"{require(project)}/")


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
