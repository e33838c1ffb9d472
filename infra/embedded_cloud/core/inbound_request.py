"""A request as it arrived, and the body that follows it.

Bytes are counted as they arrive: what `Content-Length` says may be missing (a chunked body) or too
small (a compressed one). Numbers that Google's JSON has no place for are refused here, before
arithmetic meets them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from aiohttp import web

from embedded_cloud.core.errors import CloudError, invalid_argument
from embedded_cloud.core.json_types import JsonObject

#: A JSON body larger than this is refused (metadata of a node is at most 512 KB). The application's
#: ``client_max_size``; uploads are streamed past it.
MAX_JSON_BYTES = 16 * 1024 * 1024
#: Numbers of protocol buffers fit into 64 bits.
_LARGEST = 2**64
_MOST_DIGITS = 21


def too_large() -> CloudError:
    """The refusal of a body with too many bytes."""
    return CloudError(413, "INVALID_ARGUMENT", "Request payload size exceeds the limit.")


async def read_whole(request: web.Request) -> bytes:
    """The body of ``request``; may be called more than once.

    Raises:
        CloudError: 413 once more than :data:`MAX_JSON_BYTES` have arrived, decompressed; 400 for
            a body that is not encoded as its header says.
    """
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large() from None
    except web.RequestPayloadError:
        raise invalid_argument("Invalid payload received: not encoded as it says.") from None


def parse_object(payload: bytes) -> JsonObject:
    """The JSON object in ``payload``.

    Raises:
        ValueError: it is no JSON, or no object, is nested too deeply, or holds a number or a text
            that cannot be used.
    """
    try:
        body = json.loads(
            payload, parse_constant=_refuse, parse_float=_finite, parse_int=_fitting_integer
        )
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None
    if not isinstance(body, dict):
        raise ValueError("Root element must be a message.")
    if b"\\u" in payload:
        json.dumps(body, ensure_ascii=False).encode()  # half of a surrogate pair has no UTF-8
    return body


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number that can be used.")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        _refuse(digits[:20])
    return value


def _fitting_integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or abs(int(digits)) >= _LARGEST:
        _refuse(digits[:20])
    return int(digits)


@dataclass(frozen=True, slots=True)
class InboundRequest:
    """A request.

    Attributes:
        method: HTTP method.
        path: the path as sent, without query, still percent-encoded.
        query: query parameters (the last value wins).
        headers: request headers, names matched without case.
        read: returns the whole body; may be called more than once.
        length: the body's length in bytes, 0 if not known.
        request: the HTTP request, which upload handlers need; None for a call in process.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    read: Callable[[], Awaitable[bytes]]
    length: int = 0
    request: web.Request | None = None


def from_http(request: web.Request) -> InboundRequest:
    """An HTTP request."""
    # Here: a call in process needs no HTTP server.

    return InboundRequest(
        method=request.method,
        path=request.rel_url.raw_path,
        query=dict(request.query),
        headers=request.headers,
        read=lambda: read_whole(request),
        length=request.content_length or 0,
        request=request,
    )


def in_process(
    method: str,
    path: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes = b"",
) -> InboundRequest:
    """A call from within this process (:meth:`embedded_cloud.core.pipeline.Pipeline.exchange`)."""

    async def read() -> bytes:
        return body

    # Header names are matched without case, as HTTP has it.
    named = {key.title(): value for key, value in headers.items()}
    return InboundRequest(method, path, dict(query), named, read, len(body))
