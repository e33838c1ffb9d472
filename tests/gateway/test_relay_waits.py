"""What a gateway does with time: it refuses, comments, cuts off those who take nothing, and is
patient with models that think."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from tests.gateway.gateway_rig import (
    ANSWER,
    DONE,
    HANDED_ON,
    KEY,
    MODEL,
    ROLE,
    Asked,
    Rig,
    Scripted,
    delta,
    event,
    gateway_before,
    stalls_after,
    waits_after,
)
from tests.gateway.running_fleet import until
from tpuflex.gateway.upstream import Upstream
from tpuflex.settings.gateway import GatewaySettings

COMMENT = b": keep-alive\n\n"


def settings(**interactive: object) -> GatewaySettings:
    return GatewaySettings.model_validate({"classes": {"interactive": interactive}})


def drains(upstream: Upstream, now: float) -> None:
    del now
    upstream.draining = True


def is_closed(upstream: Upstream, now: float) -> None:
    del now
    upstream.open = False


def is_full(upstream: Upstream, now: float) -> None:
    del now
    upstream.kv_use = 0.9


def ends_soon(upstream: Upstream, now: float) -> None:
    upstream.ends = now + 30


@pytest.mark.parametrize(
    ("state", "reason", "about"),
    [
        (drains, "draining", "last requests"),
        (is_closed, "no_upstream", "No upstream"),
        (is_full, "kv_cache", "full"),
        (ends_soon, "run_ends", r"ends, at \d\d:\d\d:\d\d UTC"),
    ],
)
async def test_a_refusal_says_why_and_when_to_try_again(
    state: Callable[[Upstream, float], None], reason: str, about: str
) -> None:
    """In OpenAI's form; no upstream has it."""
    async with gateway_before(upstream := Scripted(), settings=settings(wait="0s")) as rig:
        [only] = rig.upstreams.connections
        state(only, rig.clock())
        async with rig.stream() as response:
            error = (await response.json())["error"]
            assert response.status == 503
            assert response.headers["x-tpuflex-reason"] == error["code"] == reason
            assert re.search(about, error["message"])
            assert error["type"] == "service_unavailable_error"
            assert int(response.headers["Retry-After"]) >= 1

    assert upstream.asked == []
    [outcome] = rig.outcomes
    assert (outcome.status, outcome.reason, outcome.upstream) == (503, reason, None)


async def test_a_request_waits_for_a_place_no_longer_than_it_may() -> None:
    """Ten seconds by default; one that gets a place within them is answered."""
    upstream = Scripted([stalls_after(), stalls_after()])
    async with gateway_before(upstream, most=1) as rig:
        first = asyncio.ensure_future(rig.streamed())
        await upstream.got_one.wait()
        waiting = [asyncio.ensure_future(rig.streamed()) for _ in range(2)]
        await rig.has_waiting(2)
        waiting[0].cancel()  # it leaves the waiting room, and no place is lost
        await rig.has_waiting(1)
        rig.after(5)
        late = asyncio.ensure_future(rig.streamed())
        await rig.has_waiting(2)
        rig.after(6)
        status, body = await waiting[1]
        assert (status, json.loads(body)["error"]["code"]) == (503, "waited")
        upstream.scripts.clear()
        first.cancel()
        assert await late == (200, HANDED_ON)

    *_, last = rig.outcomes
    assert last.waited_s > 5


async def test_more_than_may_wait_are_refused() -> None:
    """At once."""
    upstream = Scripted(always=stalls_after())
    async with gateway_before(upstream, most=1, settings=settings(waiting=0)) as rig:
        first = asyncio.ensure_future(rig.streamed())
        await upstream.got_one.wait()
        status, body = await rig.streamed()
        assert (status, json.loads(body)["error"]["code"]) == (503, "overloaded")
        first.cancel()


async def test_a_silent_stream_is_kept_alive_by_comments() -> None:
    """Between events; a client ignores them."""
    first, then = ROLE + ANSWER[1] + ANSWER[2][:20], [ANSWER[2][20:], *ANSWER[3:]]
    script = waits_after(first, then=then, goes_on=(goes_on := asyncio.Event()))
    async with gateway_before(Scripted(always=script)) as rig, rig.stream() as response:
        said = await response.content.readany()
        rig.after(16)
        rig.after(3)
        said += await response.content.readany()
        goes_on.set()
        said += await response.content.read()

    assert said.count(COMMENT) == 1
    assert said.replace(COMMENT, b"") == HANDED_ON


async def test_a_model_that_thinks_is_not_cut() -> None:
    """Its reasoning is a first token. Then it may say nothing for minutes, as while a tool call is
    parsed, and its first content may be long."""
    reasoning = [delta(reasoning=f"step {number} ") for number in range(20)]
    long = delta(content="word " * 40_000)
    call = delta("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": "x" * 10_000}}])
    thought = ROLE + b"".join(reasoning)
    script = waits_after(thought, then=[long, call, DONE], goes_on=(goes_on := asyncio.Event()))
    quick = settings(first_token={"slow": 0.2, "very_slow": 0.2, "limit": 0.2})
    first, second = Scripted(always=script), Scripted()
    async with gateway_before(first, second, settings=quick) as rig, rig.stream() as response:
        said = await response.content.readany()
        for _ in range(30):
            rig.after(19)
        goes_on.set()
        said += await response.content.read()

    assert said.replace(COMMENT, b"") == thought + long + call + DONE
    assert second.asked == []
    [outcome] = rig.outcomes
    assert outcome.reason is outcome.moved is None


async def test_a_stream_that_holds_back_what_it_says_leaves_a_frozen_upstream() -> None:
    """As while a call of a tool is parsed: it was generating, and nothing of it is here."""
    first, second = Scripted(always=stalls_after(ROLE)), Scripted()
    async with gateway_before(first, second) as rig:
        for each in rig.upstreams.connections.values():
            each.role_with_first_token = True
        asking = asyncio.ensure_future(rig.streamed())
        await first.got_one.wait()
        rig.after(31)
        assert second.asked == []
        rig.upstreams.make_tokens = False
        while not second.asked:
            rig.after(31)  # perhaps just before its role came
            await asyncio.sleep(0.01)
        assert await asking == (200, HANDED_ON)

    assert rig.outcomes[0].moved == "upstream_failed"


async def test_a_stream_ends_with_a_frozen_upstream() -> None:
    """One that says nothing for half a minute is doubted."""
    upstream = Scripted(always=stalls_after(ROLE, ANSWER[1]))
    async with gateway_before(upstream) as rig, rig.stream() as response:
        await response.content.readuntil(ANSWER[1])
        rig.after(29)
        assert rig.upstreams.doubted == []
        rig.upstreams.make_tokens = False
        rig.after(2)
        said = await response.content.read()

    assert b"upstream_failed" in said
    assert b"[DONE]" not in said


async def test_an_upstream_that_says_nothing_for_ten_minutes_is_given_up() -> None:
    """As one whose machine is gone: nothing closes its connection."""
    upstream = Scripted(always=stalls_after(ROLE, ANSWER[1]))
    async with gateway_before(upstream) as rig, rig.stream() as response:
        await response.content.readuntil(ANSWER[1])
        rig.after(601)
        said = await response.content.read()
        await asyncio.wait_for(upstream.asked[0].left.wait(), 1)

    assert b"upstream_failed" in said
    assert b"[DONE]" not in said


async def test_an_answer_that_is_not_streamed_is_waited_for_while_tokens_are_made() -> None:
    """Nothing is seen of it meanwhile, so its upstream is asked for a token every 30 seconds. One
    that is frozen loses it to another one."""
    first, second = Scripted(always=stalls_after()), Scripted()
    async with gateway_before(first, second) as rig:
        asking = asyncio.ensure_future(rig.ask().__aenter__())
        await first.got_one.wait()
        for doubted in (0, 1, 1, 2):
            rig.after(16)
            await asyncio.sleep(0)
            assert len(rig.upstreams.doubted) == doubted
        assert second.asked == []
        rig.upstreams.make_tokens = False
        rig.after(31)
        async with await asking as response:
            assert response.status == 200

    [outcome] = rig.outcomes
    assert (outcome.upstream, outcome.moved) == ("u1", "upstream_failed")


async def test_an_answer_that_is_not_streamed_ends_with_a_frozen_upstream() -> None:
    """Which is the only one."""
    upstream = Scripted(always=stalls_after())
    async with gateway_before(upstream) as rig:
        rig.upstreams.make_tokens = False
        asking = asyncio.ensure_future(rig.ask().__aenter__())
        await upstream.got_one.wait()
        rig.after(31)
        async with await asking as response:
            assert response.status == 504
            assert response.headers["x-tpuflex-reason"] == "upstream_failed"


@contextmanager
def reading_slowly(rig: Rig) -> Iterator[socket.socket]:
    """A client that has asked for a stream, and takes none of it by itself."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", rig.port))
        body = json.dumps({"model": MODEL, "stream": True}).encode()
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n"
            b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
            % (KEY.encode(), len(body), body)
        )
        yield client


class Flooding(Scripted):
    """An upstream that sends so many pieces of 64 KB, as fast as they are taken, then the rest."""

    def __init__(self, pieces: int, *rest: bytes) -> None:
        super().__init__(always=self._flood)
        self._pieces, self._rest = pieces, rest
        self.sent = 0

    async def _flood(self, asked: Asked) -> web.StreamResponse:
        response = await asked.stream(ROLE)
        piece = delta(content="x" * 64_000)
        for _ in range(self._pieces):
            await response.write(piece)
            self.sent += 1
        for each in self._rest:
            await response.write(each)
        return response

    async def is_held_back(self) -> None:
        """Wait until nothing has been taken for a while."""
        before = 0
        while not before or before != self.sent:
            before = self.sent
            await asyncio.sleep(0.1)


async def test_a_slow_reader_makes_no_slow_upstream() -> None:
    """By whose pace it is judged what can end before its run does."""
    usage = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 400})
    upstream = Flooding(400, usage, DONE)
    async with gateway_before(upstream) as rig:
        [there] = rig.upstreams.connections
        with reading_slowly(rig) as client:
            await upstream.is_held_back()
            rig.after(30)
            await asyncio.to_thread(_read_all, client)
        await until(lambda: bool(rig.outcomes))
        assert rig.outcomes[0].generated_tokens == 400
        assert there.rate is None
        await rig.streamed()
        assert there.rate is not None


def _read_all(client: socket.socket) -> None:
    client.settimeout(10)
    end = b""
    while DONE not in end:
        end = end[-len(DONE) :] + client.recv(1 << 20)


async def test_a_client_that_takes_nothing_fills_no_memory() -> None:
    """The upstream is held back meanwhile; after a minute the client is cut off."""
    async with gateway_before(upstream := Flooding(10_000)) as rig:
        with reading_slowly(rig):
            await upstream.is_held_back()
            # What the kernel keeps for two connections, and little more.
            assert upstream.sent < 500
            rig.after(30)
            assert not upstream.asked[0].left.is_set()
            rig.after(31)
            await asyncio.wait_for(upstream.asked[0].left.wait(), 1)

    assert rig.outcomes[0].status == 499
    assert rig.in_flight == 0
