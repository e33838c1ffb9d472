"""Large objects, sent in chunks.

https://cloud.google.com/storage/docs/performing-resumable-uploads
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import Patience, RefusedError, UnreachableError
from tpuflex.copier.stored import Stored, answered, conflict, stored_of


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
                    raise conflict(self._name) from error
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
            self._stored = stored_of(answered(answer))
            return self._size
