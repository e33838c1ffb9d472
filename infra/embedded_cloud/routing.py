"""Routes of an emulated service: which HTTP call goes to which handler.

A pattern is a path template: ``{name}`` stands for one path segment (or its part before a
``:verb``), ``{name+}`` for the rest of the path, slashes included. Matching is done on the
path as sent; parameters are percent-decoded afterwards, so an encoded slash in an object
name stays inside its segment.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import unquote

from embedded_cloud.clock import Clock
from embedded_cloud.json_types import JsonObject
from embedded_cloud.store import Store

if TYPE_CHECKING:
    from aiohttp import web

_PARAMETER = re.compile(r"\{(\w+)(\+?)\}")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, parsed.

    Attributes:
        method: HTTP method.
        path: the path as sent, still percent-encoded.
        method_id: Google's id of the API method, such as ``tpu.projects.locations.nodes.get``.
        params: path parameters, percent-decoded.
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


class Delivery(Enum):
    """What becomes of an answer on its way to the client. All but WHOLE are injected faults."""

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
class Reply:
    """One answer.

    Attributes:
        status: HTTP status code.
        body: a JSON object, bytes, an asynchronous stream of bytes, a file to send, or nothing.
        headers: extra headers.
        delivery: whether and how it reaches the client.
        silent_s: for SILENT, the seconds of real time until the reset at the latest.
    """

    status: int = 200
    body: JsonObject | bytes | AsyncIterator[bytes] | Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = Delivery.WHOLE
    silent_s: float = 0.0


Handler: TypeAlias = Callable[[Call], Awaitable[Reply] | Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP method and path template, the API method it is, and who answers."""

    method: str
    pattern: str
    method_id: str
    handler: Handler


def routes(api: str, table: Iterable[tuple[str, str, str, Handler]]) -> tuple[Route, ...]:
    """The routes in ``table``: HTTP method, path template, API method below ``api``, handler."""
    return tuple(
        Route(method, pattern, f"{api}.{name}", handler) for method, pattern, name, handler in table
    )


@dataclass(frozen=True, slots=True)
class Service:
    """An emulated service.

    Attributes:
        name: Google's API name (``tpu``, ``storage``); also the inventory's heading.
        version: API version of these routes.
        routes: what is implemented.
        contract: API and version of the discovery document that requests are checked
            against.
        tick: brings the state up to the present time; called a few times a second, after
            the clock was moved and before the inventory is read.
    """

    name: str
    version: str
    routes: tuple[Route, ...]
    contract: tuple[str, str]
    tick: Callable[[], None] | None = None


class Hosts(Protocol):
    """What a service may ask of the emulated hosts."""

    def wake(self) -> None:
        """Nodes have changed: bring the running hosts in line with them soon."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a service is built from.

    Attributes:
        store: the cloud's memory.
        clock: the cloud's time.
        objects_dir: directory for bytes too large for the store.
        base_url: the emulator's address without trailing slash (known once it listens).
        project_number: project id -> project number, a pure function.
        hosts: the emulated hosts.
    """

    store: Store
    clock: Clock
    objects_dir: Path
    base_url: Callable[[], str]
    project_number: Callable[[str], str]
    hosts: Hosts


@dataclass(frozen=True, slots=True)
class Match:
    """A route found for a path, with its decoded parameters."""

    service: Service
    route: Route
    params: dict[str, str]


class Router:
    """Finds the route of a request among all services, the most literal pattern first."""

    def __init__(self, services: tuple[Service, ...]) -> None:
        entries = [
            (compile_pattern(route.pattern), service, route)
            for service in services
            for route in service.routes
        ]
        entries.sort(key=lambda entry: -_literal_length(entry[2].pattern))
        self._by_method: dict[str, list[tuple[re.Pattern[str], Service, Route]]] = {}
        for entry in entries:
            self._by_method.setdefault(entry[2].method, []).append(entry)

    def find(self, method: str, raw_path: str) -> Match | None:
        """The route for ``method`` and the path as sent (without query), or ``None``."""
        for pattern, service, route in self._by_method.get(method, ()):
            found = pattern.fullmatch(raw_path)
            if found is not None:
                params = {key: unquote(value) for key, value in found.groupdict().items()}
                return Match(service, route, params)
        return None


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a path template."""
    parts: list[str] = []
    end = 0
    for found in _PARAMETER.finditer(pattern):
        parts.append(re.escape(pattern[end : found.start()]))
        parts.append(f"(?P<{found[1]}>{'.+' if found[2] else '[^/:]+'})")
        end = found.end()
    parts.append(re.escape(pattern[end:]))
    return re.compile("".join(parts))


def _literal_length(pattern: str) -> int:
    return len(_PARAMETER.sub("", pattern))
