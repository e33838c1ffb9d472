"""Answers read within a bound: no server fills the memory of its caller."""

from __future__ import annotations

import requests

from tpuflex.errors import ApiError

#: Bytes of one answer, decompressed. The largest that Google gives is a page of 500 nodes, each
#: with a startup script in its metadata.
MAX_BYTES = 128 * 1024 * 1024
_PIECE = 256 * 1024


def read_whole(response: requests.Response, limit: int = MAX_BYTES) -> None:
    """Read the body of ``response``, which was asked for as a stream, for its ``content``.

    Raises:
        ApiError: it has more than ``limit`` bytes; the rest is not read.
        requests.RequestException: it broke off.
    """
    body = bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        if len(body) > limit:
            response.close()
            url = (response.url or "").partition("?")[0]
            raise ApiError(
                f"{url} answers with more than {limit} bytes.", status=response.status_code, url=url
            )
    # As requests itself does at the first access to `content`, which knows no bound.
    response._content = bytes(body)
    response._content_consumed = True  # type: ignore[attr-defined]  # not in its type information
