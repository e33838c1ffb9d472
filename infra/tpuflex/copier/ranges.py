"""The content of a file by ranges: a line that breaks costs what it had not brought yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from tpuflex.copier.http import Patience, RefusedError, UnreachableError

#: Bytes that are read at a time.
BLOCK = 2**20

Read = Callable[[int], bytes]


def resumed(
    size: int, begun_at: Callable[[int], AbstractContextManager[Read]], patience: Patience
) -> Iterator[bytes]:
    """The content of a file, in blocks; asked for again from where it broke off.

    Args:
        size: of the file, in bytes.
        begun_at: asks for the content from a byte on, and reads the answer.
        patience: waits between attempts.

    Raises:
        UnreachableError, RefusedError: it does not come.
        ValueError: more comes than the file has, or what ``begun_at`` raises.
    """
    come, failures = 0, 0
    while come < size:
        before = come
        try:
            with begun_at(come) as read:
                while block := read(BLOCK):
                    come += len(block)
                    if come > size:
                        raise ValueError("more than is listed")
                    yield block
            if come == before:
                raise UnreachableError("no bytes came")
        except (UnreachableError, RefusedError) as error:
            # What brought something was no failure: a line may break often in 60 GB.
            failures = 1 if come > before else failures + 1
            if not patience.pause(error, failures):
                raise
