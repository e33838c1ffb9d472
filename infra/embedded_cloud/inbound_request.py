"""A request to the emulated APIs, over HTTP or from a program in the same process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


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
    from embedded_cloud.request_body import read_whole

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
    """A call from within this process (:meth:`embedded_cloud.pipeline.Pipeline.exchange`)."""

    async def read() -> bytes:
        return body

    # Header names are matched without case, as HTTP has it.
    named = {key.title(): value for key, value in headers.items()}
    return InboundRequest(method, path, dict(query), named, read, len(body))
