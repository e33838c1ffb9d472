"""One request as it arrived, whichever door it came through.

Over HTTP, or handed in directly by a program in the same process
(:meth:`embedded_cloud.pipeline.Pipeline.exchange`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request.

    Attributes:
        method: HTTP method.
        path: the path as sent, without query, still percent-encoded.
        query: query parameters (the last value wins).
        headers: request headers, names matched without case.
        read: gives the whole body; may be called more than once.
        length: the body's length in bytes, 0 if not known.
        request: the HTTP request; None when there is none. Handlers of uploads need it.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    read: Callable[[], Awaitable[bytes]]
    length: int = 0
    request: web.Request | None = None


def over_http(request: web.Request) -> Arrival:
    """The arrival of an HTTP request."""
    return Arrival(
        method=request.method,
        path=request.rel_url.raw_path,
        query=dict(request.query),
        headers=request.headers,
        read=request.read,
        length=request.content_length or 0,
        request=request,
    )


def handed_in(
    method: str,
    path: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes = b"",
) -> Arrival:
    """The arrival of a call from within this process."""

    async def read() -> bytes:
        return body

    # Header names are matched without case, as HTTP has it.
    named = {key.title(): value for key, value in headers.items()}
    return Arrival(method, path, dict(query), named, read, len(body))
