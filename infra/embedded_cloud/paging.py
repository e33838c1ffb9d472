"""Pages of a sorted list, and the opaque tokens that lead from one to the next."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def page(
    items: Sequence[T],
    *,
    key: Callable[[T], str],
    size: int,
    token: str | None,
    descending: bool = False,
) -> tuple[list[T], str | None]:
    """The page of ``items`` that ``token`` points at, and the next token.

    The token names the last key that was handed out, so a page stays right when items
    before it come or go between calls.

    Args:
        items: everything, sorted by ``key``.
        key: what an item is sorted by; unique.
        size: the largest number of items to hand out; less than 1 counts as 1.
        token: from the previous page, or None (or empty) for the first.
        descending: items are sorted from the last key to the first.

    Raises:
        ValueError: the token was not made here.
    """
    if token:
        last = decode_token(token)
        items = [item for item in items if (key(item) < last if descending else key(item) > last)]
    size = max(size, 1)
    head = list(items[:size])
    return head, encode_token(key(head[-1])) if len(items) > size else None


def encode_token(last: str) -> str:
    """The token that continues after the key ``last``."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def decode_token(token: str) -> str:
    """The key inside a token. Raises ValueError for anything that is not one."""
    try:
        last = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, UnicodeEncodeError) as error:
        raise ValueError("not a page token") from error
    # The decoder passes over what is no base64 at all ("!" reads as nothing).
    if not last or encode_token(last) != token:
        raise ValueError("not a page token")
    return last
