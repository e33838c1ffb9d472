"""The embedded cloud's store: JSON documents in collections, durable at every write.

Collections are named ``<service>/<kind>`` (``tpu/nodes``, ``storage/buckets``) and keyed by the
resource's name. The inventory lists what is in them, except for collections whose names start
with ``_``: those are bookkeeping (operations, request ids, settings).
"""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

from embedded_cloud.core.json_types import JsonObject, JsonValue

__all__ = ["JsonObject", "JsonValue", "Store"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
  collection TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (collection, key)
) WITHOUT ROWID
"""


class Store:
    """Documents by collection and key, in one SQLite file.

    Every mutation is committed before the call returns (write-ahead log), so it survives
    a ``kill -9`` of the process. Usable from several threads.

    Args:
        path: the database file; ``None`` keeps everything in memory.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._db = sqlite3.connect(
            ":memory:" if path is None else str(path),
            isolation_level=None,
            check_same_thread=False,
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(_SCHEMA)

    def get(self, collection: str, key: str) -> JsonObject | None:
        """The document at ``key`` as a fresh object, or ``None``."""
        with self._lock:
            row = self._db.execute(
                "SELECT value FROM documents WHERE collection = ? AND key = ?", (collection, key)
            ).fetchone()
        return None if row is None else _decode(row[0])

    def put(self, collection: str, key: str, value: JsonObject) -> None:
        """Set the document at ``key``, replacing what was there."""
        document = json.dumps(value, separators=(",", ":"))
        with self._lock:
            self._db.execute(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (collection, key, document)
            )

    def delete(self, collection: str, key: str) -> bool:
        """Remove the document at ``key``; false if there was none."""
        with self._lock:
            cursor = self._db.execute(
                "DELETE FROM documents WHERE collection = ? AND key = ?", (collection, key)
            )
        return cursor.rowcount > 0

    def list(self, collection: str, prefix: str = "") -> list[tuple[str, JsonObject]]:
        """Keys that start with ``prefix`` and their documents, in key order (code points)."""
        query = "SELECT key, value FROM documents WHERE collection = ?"
        arguments: tuple[str, ...] = (collection,)
        if prefix:
            query += " AND key >= ? AND substr(key, 1, ?) = ?"
            arguments = (collection, prefix, str(len(prefix)), prefix)
        with self._lock:
            rows = self._db.execute(f"{query} ORDER BY key", arguments).fetchall()
        return [(key, _decode(value)) for key, value in rows]

    def next_number(self, collection: str, key: str) -> int:
        """1 at the first call for ``key``, and each time one more."""
        with self._lock:
            last = (self.get(collection, key) or {}).get("count", 0)
            count = int(str(last)) + 1
            self.put(collection, key, {"count": count})
        return count

    def collections(self) -> tuple[str, ...]:
        """Names of all collections that are not empty, in order."""
        with self._lock:
            rows = self._db.execute(
                "SELECT DISTINCT collection FROM documents ORDER BY collection"
            ).fetchall()
        return tuple(name for (name,) in rows)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._db.execute("DELETE FROM documents")

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()


def _decode(document: str) -> JsonObject:
    value = json.loads(document)
    if not isinstance(value, dict):
        raise TypeError(f"stored document is {type(value).__name__}, not an object")
    return value
