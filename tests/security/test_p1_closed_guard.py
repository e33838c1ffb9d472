"""P1, the guard of a host that is drained: what it admits, and what it counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.security.test_p1_guard import INNER, KEY, KEYS, METRICS_KEY, request
from tpuflex.startup.guard import RETRY_AFTER, Guard, Message, Receive, Scope, Send

_COMPLETION = request("POST", "/v1/chat/completions", f"Bearer {KEY}")
_COUNT = request("GET", "/tpuflex/requests", f"Bearer {KEY}")


class Server:
    """The application behind the guard: streams that end when they are told to."""

    def __init__(self, closed: Path) -> None:
        self.guard = Guard(self, KEYS, INNER, closed)
        self.go_on = asyncio.Event()
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        if scope["path"] != "/v1/chat/completions":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        gone = asyncio.ensure_future(receive())
        done = asyncio.ensure_future(self.go_on.wait())
        await asyncio.wait((gone, done), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            # As a framework that has work left after its client is gone.
            await asyncio.Event().wait()
        await send({"type": "http.response.body", "body": b"last"})
        await asyncio.Event().wait()

    async def answer(self, scope: Scope) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body of the answer to ``scope``."""
        sent: list[Message] = []
        await self.guard(scope, self._silence, self._into(sent))
        body = b"".join(each.get("body", b"") for each in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), body

    async def in_flight(self) -> int:
        """What the guard says."""
        _, _, body = await self.answer(_COUNT)
        count: int = json.loads(body)["in_flight"]
        return count

    def stream(self, gone: asyncio.Event) -> tuple[list[Message], asyncio.Task[None]]:
        """A stream that goes on, whose client is gone when told."""
        sent: list[Message] = []

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        return sent, asyncio.ensure_future(self.guard(_COMPLETION, receive, self._into(sent)))

    @staticmethod
    def _into(sent: list[Message]) -> Send:
        async def send(message: Message) -> None:
            sent.append(message)

        return send

    @staticmethod
    async def _silence() -> Message:
        await asyncio.Event().wait()
        return {}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """The file that closes the guard, not there yet."""
    return tmp_path / "closed"


def shut(closed: Path, yes: bool = True) -> None:
    """Close the guard, or open it again."""
    if yes:
        closed.touch()
    else:
        closed.unlink()


async def settle() -> None:
    """Let every task come to where it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_closed_guard_admits_nothing_and_says_when_to_ask_again(closed: Path) -> None:
    """While the file is there a request with the key gets 503 with Retry-After, unread; health and
    metrics go on, and without the file so does everything."""
    server = Server(closed)
    shut(closed)
    status, headers, body = await server.answer(_COMPLETION)
    assert (status, headers[b"retry-after"]) == (503, str(RETRY_AFTER).encode())
    assert json.loads(body)["error"]["code"] == 503
    assert server.asked == []
    for scope in (
        request("GET", "/health"),
        request("GET", "/metrics", f"Bearer {METRICS_KEY}"),
        request("GET", "/metrics", f"Bearer {KEY}"),
    ):
        assert (await server.answer(scope))[0] == 200
    models = request("GET", "/v1/models", f"Bearer {KEY}")
    assert (await server.answer(models))[0] == 503
    shut(closed, False)
    assert (await server.answer(models))[0] == 200


async def test_a_closed_guard_tells_strangers_nothing_new(closed: Path) -> None:
    """Without the key it is 401 as before, also for what the guard itself answers; a metrics key
    does not open that."""
    server = Server(closed)
    shut(closed)
    for authorization in ((), ("Bearer wrong",), (f"Bearer {METRICS_KEY}",)):
        for path in ("/tpuflex/requests", "/v1/models"):
            assert (await server.answer(request("GET", path, *authorization)))[0] == 401


async def test_a_stream_that_runs_ends_whole_and_counts_until_its_last_byte(closed: Path) -> None:
    """Closing the guard cuts off nothing: the stream counts until its last byte, and no longer than
    that, though its application has not returned."""
    server = Server(closed)
    sent, task = server.stream(asyncio.Event())
    await settle()
    assert await server.in_flight() == 1
    shut(closed)
    assert await server.in_flight() == 1
    server.go_on.set()
    await settle()
    assert [each.get("body") for each in sent[1:]] == [b"first", b"last", b""]
    assert not task.done()
    assert await server.in_flight() == 0
    task.cancel()


async def test_a_client_that_is_gone_ends_its_request(closed: Path) -> None:
    """What the application does after that, nobody waits for; it counts once, and not below 0."""
    server = Server(closed)
    gone = asyncio.Event()
    _, task = server.stream(gone)
    await settle()
    gone.set()
    await settle()
    assert await server.in_flight() == 0
    task.cancel()
    await settle()
    assert await server.in_flight() == 0


async def test_a_websocket_to_a_closed_guard_is_told_to_come_back(closed: Path) -> None:
    """Where the server can, with 503; otherwise it is closed with 1013, Try Again Later."""
    server = Server(closed)
    shut(closed)
    scope = request("GET", "/v1/realtime", f"Bearer {KEY}", type="websocket")
    answers: list[tuple[dict[str, object], tuple[str, int]]] = [
        ({"websocket.http.response": {}}, ("websocket.http.response.start", 503)),
        ({}, ("websocket.close", 1013)),
    ]
    for extensions, first in answers:
        sent: list[Message] = []
        await server.guard({**scope, "extensions": extensions}, server._silence, server._into(sent))
        assert (sent[0]["type"], sent[0].get("status", sent[0].get("code"))) == first
