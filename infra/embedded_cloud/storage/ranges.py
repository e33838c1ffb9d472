"""Byte ranges of downloads (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class Slice:
    """``length`` bytes from ``start``; ``partial`` when a range was asked for."""

    start: int
    length: int
    partial: bool


class NotSatisfiable(Exception):  # noqa: N818 - an answer (416), not an error
    """The range is outside of the object."""


def requested_slice(header: str, size: int) -> Slice:
    """What a Range header asks for out of ``size`` bytes.

    A header that is not one simple byte range is ignored, as the RFC allows.

    Raises:
        NotSatisfiable: the range begins after the end.
    """
    match = _RANGE.fullmatch(header.replace(" ", ""))
    if not match or match.groups() == ("", ""):
        return Slice(0, size, False)
    first, last = match.groups()
    if not first:
        length = min(int(last), size)
        if not length:
            raise NotSatisfiable
        return Slice(size - length, length, True)
    start = int(first)
    end = min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return Slice(0, size, False)
    if start >= size:
        raise NotSatisfiable
    return Slice(start, end - start + 1, True)
