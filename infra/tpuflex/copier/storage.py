"""Objects of one bucket by the JSON API, with the machine's own account.

https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import Patience, RefusedError, request
from tpuflex.copier.ranges import Read, resumed
from tpuflex.copier.stored import Stored, answered, conflict, stored_of
from tpuflex.copier.upload import Upload

#: Bytes per request of an upload: what a lost connection costs at most. A multiple of 256 KiB, as
#: resumable uploads ask for.
CHUNK_BYTES = 16 * 2**20
_BOUNDARY = "tpuflex-4c7d0f3b9a"


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
            return stored_of(self._json("GET", self._path(name)))
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
        crc32c: str = "",
    ) -> Stored:
        """Write a small object in one request, in the place of ``old`` or of none.

        Raises:
            CopyError: somebody else has written it since.
        """
        md5 = _base64(hashlib.md5(content, usedforsecurity=False).digest())
        about = {"contentType": content_type, "md5Hash": md5, **_about(metadata, crc32c)}
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
            return stored_of(self._json("POST", f"{self._uploads}?{query}", headers, body))
        except RefusedError as error:
            if error.status != 412:
                raise
            # Ours, if the answer to an earlier attempt was lost.
            there = self.find(name)
            if there is None or (there.md5, there.size) != (md5, len(content)):
                raise conflict(name) from error
            return there

    def upload(
        self,
        name: str,
        size: int,
        old: Stored | None,
        *,
        metadata: Mapping[str, str] | None = None,
        crc32c: str = "",
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

        about = json.dumps(_about(metadata, crc32c)).encode()

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
            raise conflict(name) from error
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
                return answered(answer)

        return self._patience.ask(attempt)


def _about(metadata: Mapping[str, str] | None, crc32c: str) -> dict[str, Any]:
    """What is said of an object at its upload. Cloud Storage makes none whose content has another
    CRC32C (https://cloud.google.com/storage/docs/data-validation#server-side_validation)."""
    sums = {"crc32c": crc32c} if crc32c else {}
    return {"metadata": dict(metadata or {}), **sums}


def _condition(old: Stored | None) -> dict[str, str]:
    """What a write may replace: exactly the object that was seen, or none."""
    return {"ifGenerationMatch": str(0 if old is None else old.generation)}


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
