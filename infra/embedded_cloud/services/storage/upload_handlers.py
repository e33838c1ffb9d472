"""HTTP calls that upload objects: media, multipart and resumable uploads.

https://cloud.google.com/storage/docs/uploads-downloads
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from embedded_cloud.core.contract import Contract
from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.inbound_request import parse_object, read_whole, too_large
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.services.storage.content import PIECE, Digest, PartialContent
from embedded_cloud.services.storage.errors import Preconditions, invalid, required
from embedded_cloud.services.storage.handlers import refuse_unsupported
from embedded_cloud.services.storage.objects import SETTABLE, StoredObject, check_name
from embedded_cloud.services.storage.state import StorageState
from embedded_cloud.services.storage.uploads import (
    ContentRange,
    UploadSession,
    bytes_to_skip,
    persisted,
)

#: Bytes before the media: the preamble, each part's headers, and the JSON part.
_HEADER_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Related:
    """A multipart upload.

    Attributes:
        metadata: the JSON part as sent.
        content_type: of the media part; empty when it has none.
        media: the media part's bytes, piece by piece.
    """

    metadata: bytes
    content_type: str
    media: AsyncIterator[bytes]


async def read_related(content_type: str, body: AsyncIterator[bytes]) -> Related:
    """Take ``body`` apart at the boundary that ``content_type`` names.

    Lines may end in CRLF or LF: older Google clients write LF.

    Raises:
        CloudError: 400, the body is not multipart/related with two parts.
    """
    # gcloud puts the boundary between apostrophes.
    boundary = re.search(r"""boundary=["']?([^"';]+)["']?""", content_type)
    if not boundary:
        raise invalid("Multipart body has no boundary.")
    reader = _Reader(boundary[1].strip().encode(), body)
    await reader.skip_preamble()
    await reader.headers()
    metadata = b""
    async for piece in reader.part():
        metadata += piece
        if len(metadata) > _HEADER_LIMIT:
            raise too_large()
    headers = await reader.headers()
    return Related(metadata, headers.get("content-type", ""), reader.part())


class _Reader:
    def __init__(self, boundary: bytes, body: AsyncIterator[bytes]) -> None:
        self._delimiter = re.compile(rb"\r?\n--" + re.escape(boundary))
        # The longest tail that might be the beginning of a delimiter.
        self._hold = len(boundary) + 4
        self._first = b"--" + boundary
        self._body = body
        self._buffer = b""

    async def skip_preamble(self) -> None:
        while self._first not in self._buffer:
            if len(self._buffer) > _HEADER_LIMIT or not await self._fill():
                raise invalid("Multipart body does not start with its boundary.")
        self._buffer = self._buffer.partition(self._first)[2]

    async def headers(self) -> dict[str, str]:
        """The header lines of the part that begins here; the names in lower case."""
        while not (end := re.search(rb"\r?\n\r?\n", self._buffer)):
            if len(self._buffer) > _HEADER_LIMIT or not await self._fill():
                raise invalid("Multipart body has a part without headers.")
        lines = self._buffer[: end.start()].decode("utf-8", "replace").splitlines()
        self._buffer = self._buffer[end.end() :]
        pairs = (line.partition(":") for line in lines if ":" in line)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    async def part(self) -> AsyncIterator[bytes]:
        """The bytes up to the next boundary."""
        while not (found := self._delimiter.search(self._buffer)):
            if len(self._buffer) > self._hold:
                yield self._buffer[: -self._hold]
                self._buffer = self._buffer[-self._hold :]
            if not await self._fill():
                raise invalid("Multipart body ends before its last boundary.")
        if found.start():
            yield self._buffer[: found.start()]
        self._buffer = self._buffer[found.end() :]

    async def _fill(self) -> bool:
        piece = await anext(self._body, b"")
        self._buffer += piece
        return bool(piece)


_UPLOAD_PATH = "/upload/storage/v1/b"


class UploadHandlers:
    """Handlers of objects.insert in its three upload protocols."""

    def __init__(self, state: StorageState) -> None:
        self._state = state

    async def start(self, call: Call) -> Reply:
        """POST /upload/storage/v1/b/{bucket}/o."""
        refuse_unsupported(call, {})
        self._state.keys.encrypting(self._state.buckets.require(call.params["bucket"]))
        kind = call.query.get("uploadType", "")
        if kind == "media":
            return await self._media(call)
        if kind == "multipart":
            return await self._multipart(call)
        if kind == "resumable":
            return await self._resumable(call)
        raise invalid(f"Invalid upload type: {kind or '(none)'}")

    async def resume(self, call: Call) -> Reply:
        """PUT to a session's URI: a chunk, the rest, or a query of its progress."""
        session = self._session(call)
        if session.done:
            return self._finished(session)
        async with self._state.uploads.lock(session):
            # Another request may have finished it while this one waited.
            session = self._state.uploads.require(session.upload_id)
            if session.done:
                return self._finished(session)
            return await self._take(call, session)

    def cancel(self, call: Call) -> Reply:
        """DELETE a session's URI."""
        self._state.uploads.cancel(self._session(call))
        return Reply(499, b"")

    async def _media(self, call: Call) -> Reply:
        metadata: JsonObject = {"contentType": call.headers.get("Content-Type", "")}
        session = self._open(call, metadata)
        return await self._whole(session, _body(call), call.headers)

    async def _multipart(self, call: Call) -> Reply:
        related = await read_related(call.headers.get("Content-Type", ""), _body(call))
        metadata = _checked_metadata(related.metadata)
        metadata.setdefault("contentType", related.content_type)
        return await self._whole(self._open(call, metadata), related.media, call.headers)

    async def _resumable(self, call: Call) -> Reply:
        metadata = _checked_metadata(await read_whole(call.request))
        metadata.setdefault("contentType", call.headers.get("X-Upload-Content-Type", ""))
        session = self._open(call, metadata)
        query = urlencode(
            {"uploadType": "resumable", "name": session.name, "upload_id": session.upload_id}
        )
        location = f"{self._state.base_url()}{_UPLOAD_PATH}/{session.bucket}/o?{query}"
        return Reply(200, b"", {"Location": location, "X-GUploader-UploadID": session.upload_id})

    def _open(self, call: Call, metadata: JsonObject) -> UploadSession:
        name = text(metadata, "name") or call.query.get("name", "")
        if not name:
            raise required("name")
        check_name(name)
        if encoding := call.query.get("contentEncoding"):
            metadata["contentEncoding"] = encoding
        bucket = call.params["bucket"]
        # Refused before a gigabyte is sent; checked again when the object is made.
        conditions = Preconditions.from_query(call.query)
        self._state.objects.check_absent_or(bucket, name, conditions)
        kept = {key: value for key, value in call.query.items() if key.startswith("if")}
        return self._state.uploads.start(bucket, name, metadata, kept)

    async def _whole(
        self, session: UploadSession, body: AsyncIterator[bytes], headers: Mapping[str, str]
    ) -> Reply:
        """An upload in one request: all of it, or nothing."""
        try:
            partial = self._state.uploads.partial(session)
            async for piece in _grouped(body):
                await asyncio.to_thread(partial.append, piece)
            created = self._finish(session, partial, headers)
        finally:
            self._state.uploads.cancel(session)
        return self._reply(created)

    async def _take(self, call: Call, session: UploadSession) -> Reply:
        partial = self._state.uploads.partial(session)
        header = call.headers.get("Content-Range")
        # Without the header the body is the whole object.
        span = ContentRange.parse(header) if header else ContentRange(0, None, None)
        if span.first is not None:
            await _receive(partial, _body(call), bytes_to_skip(partial.size, span.first))
        if header and partial.size != span.total:
            return self._incomplete(call, session, partial, span)
        try:
            created = self._finish(session, partial, call.headers)
        except CloudError:
            self._state.uploads.cancel(session)
            raise
        self._state.uploads.finish(session, created.key)
        return self._reply(created)

    def _incomplete(
        self, call: Call, session: UploadSession, partial: PartialContent, span: ContentRange
    ) -> Reply:
        if span.total is not None and partial.size > span.total:
            self._state.uploads.cancel(session)
            raise invalid("The upload has more bytes than its Content-Range header says.")
        partial.cut(persisted(partial.size))
        headers = {"X-GUploader-UploadID": session.upload_id}
        if partial.size:
            headers["Range"] = f"bytes=0-{partial.size - 1}"
        if call.headers.get("X-GUploader-No-308") == "yes":
            return Reply(200, b"", headers | {"X-HTTP-Status-Code-Override": "308"})
        return Reply(308, b"", headers)

    def _finish(
        self, session: UploadSession, partial: PartialContent, headers: Mapping[str, str]
    ) -> StoredObject:
        """Check hashes and preconditions, then make the object."""
        digest = partial.digest()
        claimed = _hashes(session.metadata, headers)
        _check_hashes(claimed, digest)
        bucket = self._state.buckets.require(session.bucket)
        kms_key = self._state.keys.encrypting(bucket)
        conditions = Preconditions.from_query(session.query)
        self._state.objects.check_absent_or(session.bucket, session.name, conditions)
        settable: JsonObject = {
            key: value for key, value in session.metadata.items() if key in SETTABLE and value
        }
        settable.setdefault("contentType", "application/octet-stream")
        settable.setdefault("storageClass", bucket.settings.get("storageClass"))
        return self._state.objects.create(
            session.bucket,
            session.name,
            content=self._state.files.keep(partial),
            digest=digest,
            settable=settable,
            versioned=bucket.versioned,
            kms_key=kms_key,
        )

    def _finished(self, session: UploadSession) -> Reply:
        bucket, _, rest = session.done.partition("/")
        name, _, generation = rest.rpartition("#")
        stored = self._state.objects.find(bucket, name, int(generation))
        if stored is None:
            raise invalid("The upload session has ended and its object is gone.")
        return self._reply(stored)

    def _session(self, call: Call) -> UploadSession:
        upload_id = call.query.get("upload_id")
        if not upload_id:
            raise required("upload_id")
        return self._state.uploads.require(upload_id)

    def _reply(self, stored: StoredObject) -> Reply:
        return Reply(body=self._state.resource(stored))


def _checked_metadata(payload: bytes) -> JsonObject:
    """The object resource that begins an upload, checked as any other body."""
    if not payload.strip():
        return {}
    try:
        body = parse_object(payload)
    except ValueError as error:
        raise invalid("Parse Error") from error
    return Contract.load("storage", "v1").check_body("storage.objects.insert", body)


def _body(call: Call) -> AsyncIterator[bytes]:
    return call.request.content.iter_any()


async def _grouped(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces large enough to be worth a thread each.

    If the sender disconnects, what it sent before is still yielded.
    """
    held = bytearray()
    try:
        async for piece in body:
            held += piece
            if len(held) >= PIECE:
                yield bytes(held)
                held.clear()
    except ConnectionError:
        if held:
            yield bytes(held)
        raise
    if held:
        yield bytes(held)


async def _receive(partial: PartialContent, body: AsyncIterator[bytes], skip: int) -> None:
    async for piece in _grouped(body):
        fresh = piece[skip:]
        skip = max(0, skip - len(piece))
        if fresh:
            await asyncio.to_thread(partial.append, fresh)


def _hashes(metadata: JsonObject, headers: Mapping[str, str]) -> dict[str, str]:
    """The hashes that the caller claims: in the metadata, X-Goog-Hash or Content-MD5."""
    claimed = {"crc32c": text(metadata, "crc32c"), "md5": text(metadata, "md5Hash")}
    claimed["md5"] = headers.get("Content-MD5") or claimed["md5"]
    for item in headers.get("X-Goog-Hash", "").split(","):
        name, _, value = item.strip().partition("=")
        if name in claimed:
            claimed[name] = value
    return claimed


def _check_hashes(claimed: Mapping[str, str], digest: Digest) -> None:
    for name, computed in (("crc32c", digest.crc32c), ("md5", digest.md5)):
        if claimed[name] and claimed[name] != computed:
            kind = {"crc32c": "CRC32C", "md5": "MD5 hash"}[name]
            raise invalid(
                f'Provided {kind} "{claimed[name]}" doesn\'t match calculated {kind} "{computed}".'
            )
