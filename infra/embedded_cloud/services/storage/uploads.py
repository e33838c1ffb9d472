"""Resumable upload sessions: what was received, what is still expected. No HTTP.

https://cloud.google.com/storage/docs/performing-resumable-uploads
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from embedded_cloud.core.errors import CloudError, cloud_error
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.store import Store
from embedded_cloud.services.storage.content import ContentFiles, PartialContent, new_id
from embedded_cloud.services.storage.errors import invalid

COLLECTION = "_storage/uploads"
#: Every chunk but the last is a multiple of this many bytes.
QUANTUM = 256 * 1024

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


@dataclass(frozen=True, slots=True)
class ContentRange:
    """A Content-Range header.

    Attributes:
        first, last: positions of the body's bytes; both None in a status query.
        total: size of the whole object; None while it is not known.
    """

    first: int | None
    last: int | None
    total: int | None

    @classmethod
    def parse(cls, header: str) -> ContentRange:
        """Read ``bytes 0-99/*`` and the like. Raises CloudError 400 for other text."""
        match = _CONTENT_RANGE.fullmatch(header.strip())
        if not match:
            raise invalid(f"Failed to parse Content-Range header: {header}")
        first, last = (int(each) if each else None for each in match.group(1, 2))
        total = None if match[3] == "*" else int(match[3])
        if first is not None and last is not None and (last < first or (total or last + 1) <= last):
            raise invalid(f"Invalid Content-Range header: {header}")
        return cls(first, last, total)


@dataclass(frozen=True, slots=True)
class UploadSession:
    """One resumable upload.

    Attributes:
        metadata: the object resource that the caller sent at the start.
        query: query parameters of the start: preconditions, checked at the end.
        done: ``bucket/name#generation`` once the object exists.
    """

    upload_id: str
    bucket: str
    name: str
    metadata: JsonObject
    query: dict[str, str]
    done: str = ""

    def to_json(self) -> JsonObject:
        """For the store."""
        return {
            "bucket": self.bucket,
            "name": self.name,
            "metadata": self.metadata,
            "query": dict(self.query),
            "done": self.done,
        }

    @classmethod
    def from_json(cls, upload_id: str, value: JsonObject) -> UploadSession:
        """From the store."""
        return cls(
            upload_id=upload_id,
            bucket=text(value, "bucket"),
            name=text(value, "name"),
            metadata=child(value, "metadata"),
            query={key: str(each) for key, each in child(value, "query").items()},
            done=text(value, "done"),
        )


class Uploads:
    """All sessions. They survive a restart: what was received is read back from its file."""

    def __init__(self, store: Store, files: ContentFiles) -> None:
        self._store = store
        self._files = files
        self._partials: dict[str, PartialContent] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def start(
        self, bucket: str, name: str, metadata: JsonObject, query: dict[str, str]
    ) -> UploadSession:
        """Open a session."""
        session = UploadSession(new_id(), bucket, name, metadata, query)
        self._store.put(COLLECTION, session.upload_id, session.to_json())
        return session

    def require(self, upload_id: str) -> UploadSession:
        """The session. Raises CloudError 404 when it does not exist (or was cancelled)."""
        value = self._store.get(COLLECTION, upload_id)
        if value is None:
            raise cloud_error("NOT_FOUND", "The upload session does not exist or has ended.")
        return UploadSession.from_json(upload_id, value)

    def partial(self, session: UploadSession) -> PartialContent:
        """The bytes received so far."""
        partial = self._partials.get(session.upload_id)
        if partial is None:
            partial = PartialContent(self._files.upload_path(session.upload_id))
            self._partials[session.upload_id] = partial
        return partial

    def lock(self, session: UploadSession) -> asyncio.Lock:
        """Held while a request appends bytes, so that two never interleave."""
        return self._locks.setdefault(session.upload_id, asyncio.Lock())

    def finish(self, session: UploadSession, object_key: str) -> None:
        """Record the object that was made, so that a repeated last chunk gets the same answer."""
        done = UploadSession(
            session.upload_id, session.bucket, session.name, {}, session.query, object_key
        )
        self._store.put(COLLECTION, session.upload_id, done.to_json())
        self._forget(session)

    def cancel(self, session: UploadSession) -> None:
        """End the session and drop its bytes."""
        self._store.delete(COLLECTION, session.upload_id)
        self._files.upload_path(session.upload_id).unlink(missing_ok=True)
        self._forget(session)

    def open_ids(self) -> set[str]:
        """Ids of sessions that still expect bytes."""
        return {key for key, value in self._store.list(COLLECTION) if not text(value, "done")}

    def _forget(self, session: UploadSession) -> None:
        self._partials.pop(session.upload_id, None)
        self._locks.pop(session.upload_id, None)


def bytes_to_skip(arrived: int, first: int) -> int:
    """How many bytes at the start of a chunk that begins at ``first`` were received already.

    Raises:
        CloudError: 503, the chunk would leave a gap.
    """
    if first > arrived:
        raise CloudError(
            503,
            "UNAVAILABLE",
            "Invalid request.  According to the Content-Range header, the upload offset is "
            f"{first} byte(s), which exceeds already uploaded size of {arrived} byte(s).",
        )
    return arrived - first


def persisted(arrived: int) -> int:
    """How much of an unfinished upload is kept: whole quanta only."""
    return arrived - arrived % QUANTUM
