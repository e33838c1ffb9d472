"""Pages of a sorted list, and the opaque tokens that lead from one to the next."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from embedded_cloud.core.errors import CloudError, invalid_argument
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.routing import Call, Reply

T = TypeVar("T")


def _bad_size(_size: str) -> CloudError:
    return invalid_argument("page_size must not be negative.")


def _bad_token() -> CloudError:
    return invalid_argument("Invalid page token.")


@dataclass(frozen=True, slots=True)
class Paging:
    """How the lists of one API are paged.

    Attributes:
        default: entries in a page when the caller does not say.
        maximum: a larger size counts as this.
        parameter: the query parameter that holds the size.
        minimum: a smaller size is refused; a size of 0 that is not refused means the default.
        bad_size: the refusal of a size.
        bad_token: the refusal of a token that was not made here.
    """

    default: int
    maximum: int
    parameter: str = "pageSize"
    minimum: int = 0
    bad_size: Callable[[str], CloudError] = _bad_size
    bad_token: Callable[[], CloudError] = _bad_token

    def reply(
        self,
        call: Call,
        field: str,
        entries: Iterable[T],
        key: Callable[[T], str],
        show: Callable[[T], JsonObject],
        *,
        descending: bool = False,
        head: JsonObject | None = None,
    ) -> Reply:
        """The page that ``call`` asks for.

        Args:
            call: a list call with the size and ``pageToken`` in its query.
            field: where the entries go; left out when there are none.
            entries: everything that is listed, in any order.
            key: what entries are sorted by; unique.
            show: an entry as answered.
            descending: the last key comes first.
            head: other fields of the answer.
        """
        ordered = sorted(entries, key=key, reverse=descending)
        try:
            shown, token = page(
                ordered,
                key=key,
                size=self.size(call),
                token=call.query.get("pageToken"),
                descending=descending,
            )
        except ValueError:
            raise self.bad_token() from None
        body: JsonObject = {**(head or {})}
        if shown:
            body[field] = [show(entry) for entry in shown]
        if token:
            body["nextPageToken"] = token
        return Reply(body=body)

    def resources(
        self,
        call: Call,
        field: str,
        resources: Iterable[JsonObject],
        *,
        head: JsonObject | None = None,
    ) -> Reply:
        """:meth:`reply` with resources that are kept as they are answered, by name."""
        return self.reply(call, field, resources, _name, dict, head=head)

    def size(self, call: Call) -> int:
        """How many entries the page may have. Raises CloudError 400."""
        size = call.query.get(self.parameter)
        if size is None:
            return self.default
        if int(size) < self.minimum:
            raise self.bad_size(size)
        return min(int(size) or self.default, self.maximum)

    def after(self, call: Call) -> str:
        """The key after which the page begins; empty for the first. Raises CloudError 400."""
        token = call.query.get("pageToken")
        try:
            return decode_token(token) if token else ""
        except ValueError:
            raise self.bad_token() from None


def _name(resource: JsonObject) -> str:
    return text(resource, "name")


def page(
    items: Sequence[T],
    *,
    key: Callable[[T], str],
    size: int,
    token: str | None,
    descending: bool = False,
) -> tuple[list[T], str | None]:
    """The page of ``items`` that ``token`` points at, and the next token.

    The token names the last key listed, so the next page is right even if earlier items come or go
    between calls.

    Args:
        items: everything, sorted by ``key``.
        key: what an item is sorted by; unique.
        size: the largest number of items in the page; less than 1 counts as 1.
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
    # The decoder skips characters that are not base64 ("!" decodes to nothing).
    if not last or encode_token(last) != token:
        raise ValueError("not a page token")
    return last
