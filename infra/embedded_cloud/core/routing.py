"""What a service is made of, and which of its handlers a request goes to.

A service is a table from method id to handler; HTTP methods and paths come from Google's
discovery documents (:mod:`embedded_cloud.core.contract`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias
from urllib.parse import unquote

from embedded_cloud.core.access import Caller
from embedded_cloud.core.clock import Clock
from embedded_cloud.core.contract import Contract, compile_template
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class Call:
    """One request, parsed.

    Attributes:
        method: HTTP method.
        path: the path as sent, still percent-encoded.
        method_id: Google's id of the API method, such as ``tpu.projects.locations.nodes.get``.
        params: path parameters, percent-decoded, named as in the discovery document; ``{nodesId}``
            is called ``node``.
        query: query parameters (the last value wins; use ``request.query`` for repeated ones).
        body: the JSON body, checked against the contract and without output-only fields;
            ``None`` when there is none or the call is a media upload.
        headers: request headers, names matched without case.
        request: the request itself, for streamed bodies.
    """

    method: str
    path: str
    method_id: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    body: JsonObject | None
    headers: Mapping[str, str]
    request: web.Request

    @property
    def id(self) -> str:
        """The path's last parameter: the id of the resource that the call is about."""
        return list(self.params.values())[-1]


class Delivery(Enum):
    """How an answer is delivered. All but WHOLE are injected faults."""

    WHOLE = auto()
    #: Half of the body, then (see ``CallFaults.mid_body``) the rest.
    HALTING = auto()
    #: Half of the body, then the connection is closed.
    CUT = auto()
    #: The connection is reset instead.
    RESET = auto()
    #: Nothing is sent for a while, then the connection is reset.
    SILENT = auto()


@dataclass(frozen=True, slots=True)
class FileRange:
    """``length`` bytes of an open file from ``start``; the sender closes the file."""

    file: BinaryIO
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Attributes:
        status: HTTP status code.
        body: a JSON object, bytes, an asynchronous stream of bytes, a file to send, a range
            of one, or nothing.
        headers: extra headers.
        delivery: whether and how it reaches the client.
        silent_s: for SILENT, the seconds of real time until the reset at the latest.
    """

    status: int = 200
    body: JsonObject | bytes | AsyncIterator[bytes] | Path | FileRange | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = Delivery.WHOLE
    silent_s: float = 0.0


Handler: TypeAlias = Callable[[Call], Awaitable[Reply] | Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP method and path template, the API method it is, and its handler."""

    method: str
    path: str
    method_id: str
    handler: Handler


@dataclass(frozen=True, slots=True)
class Service:
    """An emulated service.

    Attributes:
        name: Google's API name (``tpu``, ``storage``); also the inventory's heading.
        version: version of the API; with ``name`` it names the discovery document.
        handlers: method id -> handler. Other methods of the API are answered with 501.
        extra_routes: paths that the discovery document does not have.
        fallback: finds a route, and its parameters as sent, for a method and a path that no
            service has, documented or not.
        tick: brings the state up to the present time; called a few times a second, after
            the clock was moved and before the inventory is read.
    """

    name: str
    version: str
    handlers: Mapping[str, Handler]
    extra_routes: tuple[Route, ...] = ()
    fallback: Callable[[str, str], tuple[Route, dict[str, str]] | None] | None = None
    tick: Callable[[], None] | None = None

    @property
    def contract(self) -> Contract:
        """What requests are checked against."""
        return Contract.load(self.name, self.version)

    def routes(self) -> tuple[Route, ...]:
        """Every path that has a handler."""
        contract = self.contract
        documented = (
            Route(*contract.address(method_id), method_id, handler)
            for method_id, handler in self.handlers.items()
        )
        return (*documented, *self.extra_routes)


class Hosts(Protocol):
    """What a service needs of the emulated hosts."""

    def wake(self) -> None:
        """Nodes have changed: bring the running hosts in line with them soon."""
        ...


class Rights(Protocol):
    """What callers may do (:class:`embedded_cloud.strict.rights.Rights`)."""

    def caller(self, authorization: str) -> Caller:
        """Whose call it is, by its header ``Authorization``."""
        ...

    def email(self, caller: Caller) -> str:
        """The caller's account, of a host its service account's; empty for the owner."""
        ...

    def may(self, caller: Caller, permission: str, resource: str) -> bool:
        """Whether ``caller`` may do what asks for ``permission`` on ``resource``."""
        ...

    def granted(self, caller: Caller, permission: str, resource: str) -> bool:
        """Whether a binding grants ``permission``, also where bindings do not decide."""
        ...

    def held(self, call: Call, resource: str, permissions: Sequence[str]) -> list[str]:
        """Those of ``permissions`` that the caller of ``call`` has on ``resource``."""
        ...

    def granted_to(self, account: str, permission: str, resource: str) -> bool:
        """Whether the service account ``account`` is granted ``permission`` on ``resource``."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a service is built from.

    Attributes:
        store: the cloud's memory.
        clock: the cloud's time.
        objects_dir: directory for bytes too large for the store.
        base_url: the emulator's address without trailing slash (known once it listens).
        hosts: the emulated hosts.
        rights: what callers may do.
        strictness: which of Google's refusals and delays are imitated now.
        change_strictness: applies a JSON merge patch to it.
    """

    store: Store
    clock: Clock
    objects_dir: Path
    base_url: Callable[[], str]
    hosts: Hosts
    rights: Rights
    strictness: Callable[[], Strictness]
    change_strictness: Callable[[JsonObject], Strictness]


@dataclass(frozen=True, slots=True)
class Match:
    """A route found for a path, with its decoded parameters."""

    service: Service
    route: Route
    params: dict[str, str]


class Router:
    """Finds the handler of a request.

    The services are asked in order, and the document of a service is read only when none before
    it has the path.
    """

    def __init__(self, services: tuple[Service, ...]) -> None:
        self._services = services
        self._tables: dict[int, list[tuple[re.Pattern[str], Route]]] = {}

    def find(self, method: str, raw_path: str) -> Match | None:
        """The route for ``method`` and the path as sent (without query), or ``None``."""
        for index, service in enumerate(self._services):
            if index not in self._tables:
                self._tables[index] = _compiled(service)
            for pattern, route in self._tables[index]:
                found = pattern.fullmatch(raw_path) if route.method == method else None
                if found is not None:
                    params = {key: unquote(value) for key, value in found.groupdict().items()}
                    return Match(service, route, params)
        return self._fallback(method, raw_path)

    def _fallback(self, method: str, raw_path: str) -> Match | None:
        """The route of a path that no document has, either."""
        for service in self._services:
            found = service.fallback(method, raw_path) if service.fallback else None
            if found is not None and not self.method_id(method, raw_path):
                route, sent = found
                return Match(service, route, {key: unquote(sent[key]) for key in sent})
        return None

    def method_id(self, method: str, raw_path: str) -> str:
        """The id of the API method that a path without handler is, or empty."""
        for service in sorted(self._services, key=lambda each: (each.name, each.version)):
            if method_id := service.contract.match(method, raw_path):
                return method_id
        return ""


def _compiled(service: Service) -> list[tuple[re.Pattern[str], Route]]:
    """The service's routes, the most literal path first."""
    routes = sorted(service.routes(), key=lambda route: -len(re.sub(r"\{\w+\*?\}", "", route.path)))
    return [(compile_template(route.path), route) for route in routes]
