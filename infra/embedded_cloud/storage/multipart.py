"""multipart/related bodies: a JSON part, then the media, streamed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from embedded_cloud.inbound_request import too_large
from embedded_cloud.storage.errors import invalid

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
