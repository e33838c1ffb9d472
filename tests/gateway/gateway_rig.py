"""A gateway before upstreams that do what a test says, event by event."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
from aiohttp import web

from tpuflex.gateway.admission import Admission, ClassRules
from tpuflex.gateway.budgets import Budgets, MemoryCounts
from tpuflex.gateway.clients import Clients, digest
from tpuflex.gateway.connection import Connection, open_session
from tpuflex.gateway.first_token import FirstTokenLimits
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.outcome import Outcome
from tpuflex.gateway.relay import Relay
from tpuflex.gateway.server import Gateway, serving
from tpuflex.gateway.upstream import Upstream
from tpuflex.settings.gateway import (
    ClassSettings,
    ClientLimits,
    ClientSettings,
    FirstTokenSettings,
    GatewaySettings,
)

MODEL = "served"
KEY, OTHER_KEY, OPERATOR_KEY = "a-client's-key", "another-client's-key", "the-operator's-key"
#: What is asked where a test says nothing else.
BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}]}
DONE = b"data: [DONE]\n\n"


def event(**document: object) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def delta(finish: object = None, **said: object) -> bytes:
    return event(choices=[{"index": 0, "delta": said, "finish_reason": finish}])


ROLE = delta(role="assistant", content="")
USAGE = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3})
#: As vLLM streams an answer of three tokens.
ANSWER = (
    ROLE,
    delta(content="one "),
    delta(content="two "),
    delta("stop", content="three"),
    USAGE,
    DONE,
)
#: What a client gets of it that has not asked for the usage.
HANDED_ON = b"".join(each for each in ANSWER if each is not USAGE)
WHOLE = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "one two three"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}

Script = Callable[["Asked"], Awaitable[web.StreamResponse]]


@dataclass(eq=False)
class Asked:
    """A request that an upstream got."""

    request: web.BaseRequest
    document: dict[str, Any]
    peer: tuple[str, int]
    #: Set when the gateway has closed the connection.
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream(self, *events: bytes) -> web.StreamResponse:
        """Begin to answer with a stream."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(self.request)
        for each in events:
            await response.write(each)
            await asyncio.sleep(0)
        return response

    def die(self) -> None:
        """As a process does that is killed."""
        assert self.request.transport is not None
        self.request.transport.abort()


def streams(*events: bytes) -> Script:
    """An answer of these events, or one that is not streamed."""

    async def script(asked: Asked) -> web.StreamResponse:
        if not asked.document.get("stream"):
            return web.json_response(WHOLE)
        return await asked.stream(*events)

    return script


def dies_after(*events: bytes) -> Script:
    """A process that is killed after these events; without any, before its headers."""

    async def script(asked: Asked) -> web.StreamResponse:
        if not events:
            asked.die()
            return web.Response()
        response = await asked.stream(*events)
        await asyncio.sleep(0.01)
        asked.die()
        return response

    return script


def pauses_after(*first: bytes, then: Sequence[bytes], seconds: float = 0.02) -> Script:
    """What comes first is read before the rest comes."""

    async def script(asked: Asked) -> web.StreamResponse:
        response = await asked.stream(*first)
        await asyncio.sleep(seconds)
        for each in then:
            await response.write(each)
        return response

    return script


def waits_after(*first: bytes, then: Sequence[bytes], goes_on: asyncio.Event) -> Script:
    """The rest comes once a test says so."""

    async def script(asked: Asked) -> web.StreamResponse:
        response = await asked.stream(*first)
        await goes_on.wait()
        for each in then:
            await response.write(each)
        return response

    return script


def stalls_after(*events: bytes) -> Script:
    """One that says no more after these events, headers included."""

    async def script(asked: Asked) -> web.StreamResponse:
        await asked.stream(*events)
        await asyncio.Event().wait()
        raise AssertionError

    return script


def answers(status: int, text: str = "{}", **headers: str) -> Script:
    """An answer with a status."""

    async def script(asked: Asked) -> web.StreamResponse:
        del asked
        return web.Response(
            status=status, text=text, headers=headers, content_type="application/json"
        )

    return script


GOOD = streams(*ANSWER)


@dataclass(eq=False)
class Scripted:
    """An upstream.

    Attributes:
        scripts: what it does with its next requests; afterwards with all others ``always``.
        asked: the requests that it got.
        got_one: set when it has got one.
    """

    scripts: list[Script] = field(default_factory=list)
    always: Script = GOOD
    asked: list[Asked] = field(default_factory=list)
    got_one: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peername")
        body = await request.content.read()
        if not body:  # a look at what there is
            return web.Response(status=404)
        asked = Asked(request, json.loads(body), peer)
        self.asked.append(asked)
        self.got_one.set()
        script = self.scripts.pop(0) if self.scripts else self.always
        try:
            return await script(asked)
        except asyncio.CancelledError:
            asked.left.set()
            raise

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        server = web.Server(self.answer, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


@dataclass(eq=False)
class Upstreams:
    """Upstreams in pools of one each, all of which serve one model."""

    connections: dict[Upstream, Connection] = field(default_factory=dict)
    suspected: list[str] = field(default_factory=list)
    doubted: list[str] = field(default_factory=list)
    #: Whether the first one makes tokens, where it is doubted; the others do.
    make_tokens: bool = True

    def pools(self, model: str) -> Iterable[Collection[Upstream]]:
        return [[each] for each in self.connections] if model == MODEL else []

    def upstreams(self) -> Iterable[Upstream]:
        return self.connections

    def connection(self, upstream: Upstream) -> Connection:
        return self.connections[upstream]

    def models(self) -> Sequence[str]:
        return (MODEL,)

    def request_class(self, model: str) -> str | None:
        del model
        return None

    def suspect(self, upstream: Upstream, why: str) -> None:
        del why
        self.suspected.append(upstream.name)

    def doubt(self, upstream: Upstream) -> asyncio.Future[bool]:
        self.doubted.append(upstream.name)
        looked = asyncio.get_running_loop().create_future()
        looked.set_result(self.make_tokens or upstream.name != "u0")
        return looked


@dataclass
class Clock:
    """The clock of this machine, which a test puts forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@dataclass(eq=False)
class Rig:
    """A gateway, its upstreams, and a client of it."""

    upstreams: Upstreams
    session: aiohttp.ClientSession
    outcomes: list[Outcome]
    gateway: Gateway
    relay: Relay
    admission: Admission
    budgets: Budgets
    port: int
    clock: Clock
    #: Stops the gateway, as at a signal.
    stop: Callable[[], Awaitable[None]]

    def ask(self, path: str = "/v1/chat/completions", *, key: str = KEY, **document: object) -> Any:
        body = {**BODY, **document}
        return self.session.post(path, json=body, headers={"Authorization": f"Bearer {key}"})

    def stream(self, **document: Any) -> Any:
        return self.ask(stream=True, **document)

    async def streamed(self, **document: Any) -> tuple[int, bytes]:
        async with self.stream(**document) as response:
            return response.status, await response.read()

    async def whole(self, **document: Any) -> tuple[int, bytes]:
        async with self.ask(**document) as response:
            return response.status, await response.read()

    def after(self, seconds: float) -> None:
        """What the relay does so much later."""
        self.clock.ahead += seconds
        self.relay.tick()

    async def has_waiting(self, count: int) -> None:
        """Wait until so many requests wait for a place."""
        while self.admission.waiting("interactive") != count:  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.01)

    @property
    def in_flight(self) -> int:
        return sum(each.in_flight for each in self.upstreams.connections)


def within(limit: float, **more: object) -> GatewaySettings:
    """Settings with a limit for the first token of one request."""
    token = FirstTokenSettings(slow=limit, very_slow=limit, limit=limit)
    interactive = ClassSettings(first_token=token)
    return GatewaySettings.model_validate(
        {"retry_share": 1, "classes": {"interactive": interactive}, **more}
    )


@asynccontextmanager
async def gateway_before(
    *scripted: Scripted,
    settings: GatewaySettings | None = None,
    limits: ClientLimits | None = None,
    most: int = 64,
    tls: ssl.SSLContext | None = None,
    drain: float = 0.5,
    connections: int | None = None,
) -> AsyncIterator[Rig]:
    """A gateway before upstreams, the first of which is asked first."""
    clients = {
        "somebody": ClientSettings(
            key_sha256=digest(KEY.encode()), limits=limits or ClientLimits()
        ),
        "another": ClientSettings(key_sha256=digest(OTHER_KEY.encode())),
    }
    # Requests move as often as they may: the budget for that is another test's.
    settings = settings or GatewaySettings(retry_share=1)
    outcomes: list[Outcome] = []
    upstreams = Upstreams()
    async with AsyncExitStack() as stack:
        for number, each in enumerate(scripted):
            port = await stack.enter_async_context(each.serving())
            upstream = Upstream(
                f"u{number}",
                url=f"http://127.0.0.1:{port}/v1",
                model="model-there",
                limit=InFlightLimit(most, most),
                open=True,
            )
            session = await stack.enter_async_context(open_session())
            upstreams.connections[upstream] = Connection(upstream, session, max_model_len=4096)
        classes = {
            name: ClassRules(
                FirstTokenLimits(rules.first_token.slow, rules.first_token.very_slow),
                rules.wait.total_seconds(),
                rules.waiting,
            )
            for name, rules in settings.all_classes.items()
        }
        admission = Admission(classes, upstreams.pools)
        fleet = cast("Any", upstreams)
        clock = Clock()
        budgets = Budgets(MemoryCounts())
        relay = Relay(settings, fleet, admission, budgets, ended=outcomes.append, now=clock)
        gateway = Gateway(
            settings,
            fleet,
            Clients(clients),
            relay,
            operator_key=OPERATOR_KEY,
            metrics=lambda: b"a_metric 1\n",
            status=lambda: {"upstreams": []},
        )
        stops = await stack.enter_async_context(AsyncExitStack())
        port = await stops.enter_async_context(
            serving(gateway, relay, "127.0.0.1", 0, tls=tls, drain=drain, most=connections)
        )
        session = await stack.enter_async_context(
            aiohttp.ClientSession(f"http://127.0.0.1:{port}", auto_decompress=False)
        )
        parts = (gateway, relay, admission, budgets)
        yield Rig(upstreams, session, outcomes, *parts, port, clock, stops.aclose)
