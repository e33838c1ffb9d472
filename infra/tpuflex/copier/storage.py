"""Objects of one bucket by the JSON API, with the machine's own account.

https://cloud.google.com/storage/docs/json_api/v1,
https://cloud.google.com/storage/docs/performing-resumable-uploads
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import Patience, RefusedError, Response, UnreachableError, request
from tpuflex.copier.ranges import Read, resumed

#: Bytes per request of an upload: what a lost connection costs at most. A multiple of 256 KiB, as
#: resumable uploads ask for.
CHUNK_BYTES = 16 * 2**20
_BOUNDARY = "tpuflex-4c7d0f3b9a"


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as Cloud Storage describes it.

    Attributes:
        generation: which one of its name.
        size: in bytes.
        crc32c: its CRC32C, in base64.
        md5: its MD5, in base64; empty for one that was composed.
        metadata: what its writer has noted.
    """

    generation: int
    size: int
    crc32c: str
    md5: str
    metadata: Mapping[str, str]


class Objects:
    """The objects of one bucket.

    Args:
        endpoint: address of Cloud Storage, without a slash at the end.
        bucket: its name.
        token: gives an access token.
        patience: waits between attempts.
    """

    def __init__(
        self, endpoint: str, bucket: str, token: Callable[[], str], patience: Patience
    ) -> None:
        self._endpoint = endpoint
        self._objects = f"{endpoint}/storage/v1/b/{quote(bucket, safe='')}/o"
        self._uploads = f"{endpoint}/upload/storage/v1/b/{quote(bucket, safe='')}/o"
        self._token = token
        self._patience = patience

    def find(self, name: str) -> Stored | None:
        """The object called ``name``; None if there is none.

        Without the right to list a bucket, Cloud Storage says 403 of an object that does not exist
        (https://cloud.google.com/storage/docs/access-control/iam-permissions), and the machine has
        none. Where it is a refusal, the upload is refused, too.
        """
        try:
            return _stored(self._json("GET", self._path(name)))
        except RefusedError as error:
            if error.status in (403, 404):
                return None
            raise

    def blocks(self, name: str, generation: int, size: int) -> Iterator[bytes]:
        """The content of this generation of ``name``, in blocks; asked for again from where it
        broke off.

        Raises:
            UnreachableError, RefusedError: it cannot be read.
            ValueError: it is longer than ``size``.
        """
        url = f"{self._path(name)}?alt=media&generation={generation}"

        @contextmanager
        def begun_at(start: int) -> Iterator[Read]:
            with self._send("GET", url, {"Range": f"bytes={start}-"}) as answer:
                if answer.status != 206 and (start or answer.status != 200):
                    raise RefusedError(answer)
                yield answer.read

        yield from resumed(size, begun_at, self._patience)

    def delete(self, name: str, stored: Stored) -> None:
        """Delete exactly ``stored``; it may be gone already."""
        try:
            self._json("DELETE", f"{self._path(name)}?ifGenerationMatch={stored.generation}")
        except RefusedError as error:
            if error.status != 404:
                raise

    def put(
        self,
        name: str,
        content: bytes,
        old: Stored | None,
        *,
        content_type: str,
        metadata: Mapping[str, str] | None = None,
    ) -> Stored:
        """Write a small object in one request, in the place of ``old`` or of none.

        Raises:
            CopyError: somebody else has written it since.
        """
        md5 = _base64(hashlib.md5(content, usedforsecurity=False).digest())
        about = {"contentType": content_type, "md5Hash": md5, "metadata": dict(metadata or {})}
        body = b"".join(
            (
                f"--{_BOUNDARY}\r\nContent-Type: application/json\r\n\r\n".encode(),
                json.dumps(about).encode(),
                f"\r\n--{_BOUNDARY}\r\nContent-Type: {content_type}\r\n\r\n".encode(),
                content,
                f"\r\n--{_BOUNDARY}--\r\n".encode(),
            )
        )
        query = urlencode({"uploadType": "multipart", "name": name, **_condition(old)})
        headers = {"Content-Type": f"multipart/related; boundary={_BOUNDARY}"}
        try:
            return _stored(self._json("POST", f"{self._uploads}?{query}", headers, body))
        except RefusedError as error:
            if error.status != 412:
                raise
            # Ours, if the answer to an earlier attempt was lost.
            there = self.find(name)
            if there is None or (there.md5, there.size) != (md5, len(content)):
                raise _conflict(name) from error
            return there

    def upload(
        self,
        name: str,
        size: int,
        old: Stored | None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Upload:
        """Begin to write a large object, in the place of ``old`` or of none.

        Raises:
            CopyError: somebody else has written it since.
        """
        query = urlencode({"uploadType": "resumable", "name": name, **_condition(old)})
        headers = {
            "Content-Type": "application/json",
            "X-Upload-Content-Type": "application/octet-stream",
            "X-Upload-Content-Length": str(size),
        }

        about = json.dumps({"metadata": dict(metadata or {})}).encode()

        def start() -> str:
            with self._send("POST", f"{self._uploads}?{query}", headers, about) as answer:
                if answer.status != 200:
                    raise RefusedError(answer)
                return str(answer.headers.get("location", ""))

        try:
            session = self._patience.ask(start)
        except RefusedError as error:
            if error.status != 412:
                raise
            raise _conflict(name) from error
        if not session.startswith(f"{self._endpoint}/"):
            raise CopyError("storage-refused", f"{name}: no upload session was given")
        return Upload(self._send, session, name, size, self._patience)

    def _path(self, name: str) -> str:
        return f"{self._objects}/{quote(name, safe='')}"

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Any:
        authorization = {"Authorization": f"Bearer {self._token()}"}
        return request(method, url, {**headers, **authorization}, body)

    def _json(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> dict[str, Any]:
        def attempt() -> dict[str, Any]:
            with self._send(method, url, headers or {}, body) as answer:
                return _object(answer)

        return self._patience.ask(attempt)


class Upload:
    """A resumable upload: chunks in order, each sent again from where it broke off.

    Args:
        send: sends one request with the account's token.
        session: the session's address.
        name: the object's name.
        size: the object's size.
        patience: waits between attempts.
    """

    def __init__(
        self, send: Callable[..., Any], session: str, name: str, size: int, patience: Patience
    ) -> None:
        self._send = send
        self._session = session
        self._name = name
        self._size = size
        self._patience = patience
        self._stored: Stored | None = None

    def write(self, chunk: bytes, start: int) -> None:
        """Send ``chunk``, whose first byte is at ``start``; all but the last are a multiple of
        256 KiB.

        Raises:
            CopyError: the session has lost what it had, or somebody else has written the object.
            UnreachableError, RefusedError: it cannot be sent.
        """
        at, failures, end = start, 0, start + len(chunk)
        while True:
            try:
                there = self._put(chunk[at - start :], at)
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.status == 412:
                    raise _conflict(self._name) from error
                failures += 1
                if not self._patience.pause(error, failures):
                    raise
                there = self._patience.ask(lambda: self._put(b"", None))
            if there >= end:
                return
            if there < start:
                raise CopyError("storage-unreachable", f"{self._name}: the upload was lost")
            at = there

    def finish(self) -> Stored:
        """The object, once its last chunk was written.

        Raises:
            CopyError: there is none.
        """
        if self._stored is None:
            raise CopyError("storage-unreachable", f"{self._name}: the upload did not end")
        return self._stored

    def _put(self, part: bytes, start: int | None) -> int:
        """How many bytes Cloud Storage has, after ``part`` was sent to it; with no ``start``, it is
        only asked."""
        last = "*" if start is None else f"{start}-{start + len(part) - 1}"
        header = {"Content-Range": f"bytes {last}/{self._size}"}
        with self._send("PUT", self._session, header, part) as answer:
            if answer.status == 308:
                kept = answer.headers.get("range", "").rpartition("-")[2]
                return int(kept) + 1 if kept.isdecimal() else 0
            self._stored = _stored(_object(answer))
            return self._size


def _object(answer: Response) -> dict[str, Any]:
    if answer.status == 204:
        return {}
    if answer.status != 200:
        raise RefusedError(answer)
    try:
        found = json.loads(answer.body())
    except ValueError as error:
        raise UnreachableError("half an answer") from error
    if not isinstance(found, dict):
        raise UnreachableError("half an answer")
    return found


def _stored(found: Mapping[str, Any]) -> Stored:
    return Stored(
        int(found.get("generation", 0)),
        int(found.get("size", -1)),
        str(found.get("crc32c", "")),
        str(found.get("md5Hash", "")),
        found.get("metadata") or {},
    )


def _condition(old: Stored | None) -> dict[str, str]:
    """What a write may replace: exactly the object that was seen, or none."""
    return {"ifGenerationMatch": str(0 if old is None else old.generation)}


def _conflict(name: str) -> CopyError:
    return CopyError("conflict", f"{name}: somebody else is writing the same weights")


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
