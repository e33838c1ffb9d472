"""How the embedded cloud answers a request.

authentication -> faults -> admission -> contract -> handler -> audit -> faults -> history; a
:class:`CloudError` in any step becomes Google's error body. :meth:`Pipeline.handle` takes calls
over HTTP, :meth:`Pipeline.exchange` calls from within this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, cast

from aiohttp import web

from embedded_cloud.core.access import Access
from embedded_cloud.core.delivery import MidBody, send
from embedded_cloud.core.errors import (
    CloudError,
    invalid_argument,
    not_found,
    unimplemented,
)
from embedded_cloud.core.history import History
from embedded_cloud.core.inbound_request import (
    MAX_JSON_BYTES,
    InboundRequest,
    from_http,
    parse_object,
    too_large,
)
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.peer import is_own_user
from embedded_cloud.core.routing import Call, Delivery, Match, Reply, Router, Service


class CallFaults(Protocol):
    """The faults of one call. Every hook but :meth:`answered` may change the answer."""

    async def before_commit(self) -> Reply | None:
        """Before anything is checked or done; an answer from here is given instead."""
        ...

    async def after_commit(self, reply: Reply) -> Reply:
        """After the state has changed, or the call was refused; returns what is answered."""
        ...

    async def mid_body(self) -> None:
        """Half of the body of an answer that does not come in one piece was sent."""
        ...

    async def answered(self) -> None:
        """The answer was sent."""
        ...

    @property
    def fired(self) -> tuple[str, ...]:
        """Ids of the rules that have struck so far."""
        ...


class Faults(Protocol):
    """Where faults are injected into calls."""

    async def arrived(self, match: Match, inbound: InboundRequest) -> CallFaults | None:
        """The faults of a call that has just arrived; None if it has none."""
        ...


class Admission(Protocol):
    """What is checked of a call before its service sees it."""

    def check(self, match: Match, inbound: InboundRequest) -> Awaitable[None] | None:
        """Raises CloudError for a call that is refused."""
        ...


class Audit(Protocol):
    """Where changes are written down."""

    def of(self, match: Match, inbound: InboundRequest, call: Call) -> Callable[[], None] | None:
        """What writes ``call`` down once it has been carried out; None for one that changes
        nothing."""
        ...


@dataclass(slots=True)
class _Exchange:
    """One call while it is being answered.

    Attributes:
        inbound: the request.
        match: its route, if it has one.
        method_id: the API method; empty if the path has none.
        faults: what was injected into it.
        done: whether the handler ran without refusing the call.
    """

    inbound: InboundRequest
    match: Match | None
    method_id: str
    faults: CallFaults | None = None
    done: bool = False


class Pipeline:
    """Answers requests to the emulated APIs.

    Args:
        services: the emulated services.
        history: where every call is recorded.
        access: who may call.
        admission: what else is checked of a call, in this order.
        audit: where changes are written down.
    """

    def __init__(
        self,
        services: tuple[Service, ...],
        history: History,
        access: Access,
        admission: Sequence[Admission] = (),
        audit: Audit | None = None,
    ) -> None:
        self._router = Router(services)
        self._history = history
        self._access = access
        self._admission = tuple(admission)
        self._audit = audit
        self._faults: Faults | None = None

    def inject(self, faults: Faults) -> None:
        """Ask ``faults`` about every call from now on."""
        self._faults = faults

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The answer to an HTTP request, recorded."""
        exchange = self._begin(from_http(request))
        status = 500
        try:
            reply = await self._reply(exchange)
            response = await send(request, reply, _mid_body(exchange))
            status = response.status if _reaches(reply) else 0
        finally:
            self._record(exchange, status)
        if exchange.faults is not None and _reaches(reply):
            # Sent before the faults that strike after the answer; a client that has disconnected
            # misses it.
            with suppress(ConnectionResetError):
                await response.prepare(request)
                if reply.delivery is not Delivery.CUT:
                    await response.write_eof()
            await exchange.faults.answered()
        return response

    async def exchange(self, inbound: InboundRequest) -> Reply:
        """The answer to a call from within this process, recorded.

        The caller has to honour the answer's delivery, except for a delay in mid-body.
        """
        exchange = self._begin(inbound)
        status = 500
        try:
            reply = await self._reply(exchange)
            status = reply.status if _reaches(reply) else 0
            if reply.delivery in (Delivery.HALTING, Delivery.CUT):
                await _mid_body(exchange)()
        finally:
            self._record(exchange, status)
        if exchange.faults is not None and _reaches(reply):
            await exchange.faults.answered()
        return reply

    def _begin(self, inbound: InboundRequest) -> _Exchange:
        match = self._router.find(inbound.method, inbound.path)
        if match is None:
            return _Exchange(inbound, None, self._router.method_id(inbound.method, inbound.path))
        return _Exchange(inbound, match, match.route.method_id)

    async def _reply(self, exchange: _Exchange) -> Reply:
        try:
            if not _storage_library(exchange):
                self._access.check(
                    exchange.inbound.headers.get("Authorization", ""), exchange.method_id
                )
            if exchange.match is None:
                raise _no_route(exchange.inbound, exchange.method_id)
        except CloudError as error:
            return _refusal(error)
        if self._faults is not None:
            exchange.faults = await self._faults.arrived(exchange.match, exchange.inbound)
        if exchange.faults is None:
            return await self._handled(exchange, exchange.match)
        reply = await exchange.faults.before_commit()
        if reply is not None:
            return reply
        return await exchange.faults.after_commit(await self._handled(exchange, exchange.match))

    async def _handled(self, exchange: _Exchange, match: Match) -> Reply:
        try:
            for each in self._admission:
                checked = each.check(match, exchange.inbound)
                if checked is not None:
                    await checked
            call = await _call(exchange.inbound, match)
            audit = self._audit
            write = None if audit is None else audit.of(match, exchange.inbound, call)
            outcome = match.route.handler(call)
            reply = await outcome if inspect.isawaitable(outcome) else outcome
        except CloudError as error:
            return _refusal(error)
        exchange.done = True
        if write is not None:
            write()
        return reply

    def _record(self, exchange: _Exchange, status: int) -> None:
        faults = exchange.faults
        self._history.append(
            method=exchange.inbound.method,
            path=exchange.inbound.path,
            method_id=exchange.method_id,
            status=status,
            request_id=exchange.inbound.query.get("requestId", ""),
            # The status of a call with a fault does not show whether it was carried out.
            committed=exchange.done if faults is not None and faults.fired else None,
            faults=() if faults is None else faults.fired,
        )


#: How Google's storage libraries for Python and Go name themselves.
_STORAGE_LIBRARIES = ("gcloud-python/", "gccl/")


def _storage_library(exchange: _Exchange) -> bool:
    """Whether this is Google's storage library in a program of the embedded cloud's own user.

    With ``STORAGE_EMULATOR_HOST`` set the libraries send no credential at all
    (google-cloud-storage 3.17, ``Client.__init__``; Go CDK's ``blob/gcsblob``, by which Pulumi
    keeps states in a bucket); the kernel knows which user's process it is. A script that forgets
    its token names no library and is refused, as by Google.
    """
    inbound = exchange.inbound
    library = inbound.headers.get("X-Goog-API-Client", "")
    return (
        exchange.method_id.startswith("storage.")
        and "Authorization" not in inbound.headers
        and any(name in library for name in _STORAGE_LIBRARIES)
        and inbound.request is not None
        and is_own_user(inbound.request)
    )


def _no_route(inbound: InboundRequest, method_id: str) -> CloudError:
    if method_id:
        return unimplemented(method_id)
    if "uploads" in inbound.query:
        # The first call of google-cloud-storage's upload_chunks_concurrently.
        return unimplemented("multipart uploads of Cloud Storage's XML API; use resumable uploads")
    return not_found(f"The requested URL {inbound.path} was not found on this server.")


async def _call(inbound: InboundRequest, match: Match) -> Call:
    """The request as a :class:`Call`, checked against the service's contract."""
    contract = match.service.contract
    method_id = match.route.method_id
    query = dict(inbound.query)
    contract.check_query(method_id, query)
    body: JsonObject | None = None
    if not inbound.path.startswith(("/upload/", "/resumable/upload/")) and contract.takes_body(
        method_id
    ):
        body = contract.check_body(method_id, await _json_body(inbound))
    return Call(
        method=inbound.method,
        path=inbound.path,
        method_id=method_id,
        params=match.params,
        query=query,
        body=body,
        headers=inbound.headers,
        # Only upload handlers use it, and uploads never come from within this process.
        request=cast("web.Request", inbound.request),
    )


async def _json_body(inbound: InboundRequest) -> JsonObject:
    if inbound.length > MAX_JSON_BYTES:
        raise too_large()
    payload = await inbound.read()
    try:
        return parse_object(payload) if payload.strip() else {}
    except ValueError as error:
        raise invalid_argument(f"Invalid JSON payload received. {error}") from None


def _refusal(error: CloudError) -> Reply:
    return Reply(error.http_status, error.body(), error.headers)


def _reaches(reply: Reply) -> bool:
    """Whether any part of the answer reaches the client."""
    return reply.delivery in (Delivery.WHOLE, Delivery.HALTING, Delivery.CUT)


def _mid_body(exchange: _Exchange) -> MidBody:
    async def nothing() -> None:
        return None

    return nothing if exchange.faults is None else exchange.faults.mid_body
