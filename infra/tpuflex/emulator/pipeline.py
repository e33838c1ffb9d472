"""The way of one request through the embedded cloud.

history -> authentication -> faults -> contract -> handler; every :class:`CloudError` on
the way becomes Google's error body.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Protocol

from aiohttp import web

from tpuflex.emulator.contract import Contract
from tpuflex.emulator.errors import (
    CloudError,
    invalid_argument,
    not_found,
    unauthenticated,
    unimplemented,
)
from tpuflex.emulator.history import History
from tpuflex.emulator.json_types import JsonObject
from tpuflex.emulator.routing import Call, Match, Reply, Router, Service

#: A JSON body larger than this is refused (metadata of a node is at most 512 KB).
MAX_JSON_BYTES = 16 * 1024 * 1024

_COMPRESS_ABOVE = 1024


class Faults(Protocol):
    """Where faults are injected into calls."""

    async def before_commit(self, match: Match, request: web.Request) -> None:
        """Called before anything is checked or done; may raise :class:`CloudError`."""
        ...

    async def after_commit(self, match: Match, request: web.Request, reply: Reply) -> Reply:
        """Called after the state has changed; what it returns or raises is answered."""
        ...


class NoFaults:
    """Every call goes through."""

    async def before_commit(self, match: Match, request: web.Request) -> None:
        """Nothing."""

    async def after_commit(
        self,
        match: Match,  # noqa: ARG002 - the protocol's signature
        request: web.Request,  # noqa: ARG002 - the protocol's signature
        reply: Reply,
    ) -> Reply:
        """``reply`` as it is."""
        return reply


class Pipeline:
    """Answers requests to the emulated APIs.

    Args:
        services: the emulated services.
        history: where every call is recorded.
        faults: the fault hook.
    """

    def __init__(
        self, services: tuple[Service, ...], history: History, faults: Faults | None = None
    ) -> None:
        self._router = Router(services)
        self._contracts = sorted({service.contract for service in services})
        self._history = history
        self.faults: Faults = faults or NoFaults()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The answer to ``request``, recorded."""
        raw_path = request.rel_url.raw_path
        match = self._router.find(request.method, raw_path)
        method_id = match.route.method_id if match else self._known(request.method, raw_path)
        status = 500
        try:
            _authenticate(request)
            if match is None:
                raise _no_route(request, raw_path, method_id)
            reply = await self._answer(request, raw_path, match)
            response = await _send(request, reply)
            status = response.status
        except CloudError as error:
            status = error.http_status
            response = _json_response(request, error.body(), status, error.headers)
        finally:
            self._history.append(
                method=request.method,
                path=raw_path,
                method_id=method_id,
                status=status,
                request_id=request.query.get("requestId", ""),
            )
        return response

    async def _answer(self, request: web.Request, raw_path: str, match: Match) -> Reply:
        await self.faults.before_commit(match, request)
        call = await _call(request, raw_path, match)
        outcome = match.route.handler(call)
        reply = await outcome if inspect.isawaitable(outcome) else outcome
        return await self.faults.after_commit(match, request, reply)

    def _known(self, method: str, raw_path: str) -> str:
        """The id of the API method that a path without route is, or empty."""
        for api, version in self._contracts:
            known = Contract.load(api, version).match(method, raw_path)
            if known is not None:
                return known.method_id
        return ""


def _no_route(request: web.Request, raw_path: str, method_id: str) -> CloudError:
    if method_id:
        return unimplemented(method_id)
    if "uploads" in request.query:
        # What google-cloud-storage's upload_chunks_concurrently begins with.
        return unimplemented("multipart uploads of Cloud Storage's XML API; use resumable uploads")
    return not_found(f"The requested URL {raw_path} was not found on this server.")


def _authenticate(request: web.Request) -> None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthenticated(
            "Request is missing required authentication credential. Expected OAuth 2 access "
            "token, login cookie or other valid authentication credential. See "
            "https://developers.google.com/identity/sign-in/web/devconsole-project."
        )


async def _call(request: web.Request, raw_path: str, match: Match) -> Call:
    """The request as a :class:`Call`, checked against the service's contract."""
    contract = Contract.load(*match.service.contract)
    method_id = match.route.method_id
    query = dict(request.query)
    contract.check_query(method_id, query)
    body: JsonObject | None = None
    if not raw_path.startswith(("/upload/", "/resumable/upload/")) and contract.takes_body(
        method_id
    ):
        body = contract.check_body(method_id, await _json_body(request))
    return Call(
        method=request.method,
        path=raw_path,
        method_id=method_id,
        params=match.params,
        query=query,
        body=body,
        headers=request.headers,
        request=request,
    )


async def _json_body(request: web.Request) -> JsonObject:
    length = request.content_length or 0
    if length > MAX_JSON_BYTES:
        raise CloudError(413, "INVALID_ARGUMENT", "Request payload size exceeds the limit.")
    payload = await request.read()
    if not payload.strip():
        return {}
    try:
        body = json.loads(payload)
    except ValueError as error:
        raise invalid_argument(f"Invalid JSON payload received. {error}") from None
    if not isinstance(body, dict):
        raise invalid_argument("Invalid JSON payload received. Root element must be a message.")
    return body


async def _send(request: web.Request, reply: Reply) -> web.StreamResponse:
    body = reply.body
    if body is None:
        return web.Response(status=reply.status, headers=reply.headers)
    if isinstance(body, bytes):
        return web.Response(status=reply.status, body=body, headers=reply.headers)
    if isinstance(body, Path):
        return web.FileResponse(body, status=reply.status, headers=reply.headers)
    if isinstance(body, dict):
        return _json_response(request, body, reply.status, dict(reply.headers))
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    await response.prepare(request)
    async for chunk in body:
        await response.write(chunk)
    await response.write_eof()
    return response


def _json_response(
    request: web.Request, body: JsonObject, status: int, headers: dict[str, str]
) -> web.Response:
    payload = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    response = web.Response(
        status=status,
        body=payload,
        headers={"Content-Type": "application/json; charset=UTF-8", **headers},
    )
    accepts_gzip = "gzip" in request.headers.get("Accept-Encoding", "")
    if len(payload) > _COMPRESS_ABOVE and accepts_gzip:
        response.enable_compression(web.ContentCoding.gzip)
    return response
