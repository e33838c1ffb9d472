"""Requests written byte by byte: what has two readings gets none, and what is slow is cut off."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

import pytest
from aiohttp import web

from tests.acceptance.security.spellings import (
    ROUTES,
    absolute,
    behind_health,
    encoded,
    lettered,
    slashed,
)
from tests.gateway.gateway_rig import KEY, MODEL, Asked, Scripted, gateway_before
from tpuflex.gateway.door import COMPLETIONS
from tpuflex.settings.gateway import GatewaySettings, RequestLimits

CHAT = "/v1/chat/completions"
AUTHORIZATION = f"Authorization: Bearer {KEY}"


def completion(prompt: str = "inside") -> bytes:
    messages = [{"role": "user", "content": prompt}]
    return json.dumps({"model": MODEL, "messages": messages}).encode()


def request(
    *headers: str,
    body: bytes = b"",
    line: str = f"POST {CHAT} HTTP/1.1",
    sized: bool = True,
    end: str = "\r\n",
) -> bytes:
    """A request with a client's key, and with these headers."""
    size = [f"Content-Length: {len(body)}"] if sized else []
    lines = [line, "Host: h", AUTHORIZATION, "Content-Type: application/json", *size, *headers]
    return end.join([*lines, "", ""]).encode("latin-1") + body


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in parts) + b"0\r\n\r\n"


#: What is smuggled: a whole request, with a key, which is answered if it is taken for one.
INNER = request(body=completion())
#: The body of the request around it: to one reader the end of a body in chunks, to another no end.
ENDED = b"0\r\n\r\n" + INNER
TE = "Transfer-Encoding: chunked"
SHORT = completion("outside")


def ambiguous() -> Iterator[tuple[str, bytes]]:
    """Requests of which two readers may see different ends."""
    # Both framings, in either order, spelled in all ways.
    yield "CL.TE", request(TE, body=ENDED)
    yield "TE.CL", request(TE, "Content-Length: 5", body=ENDED, sized=False)
    yield (
        "TE.CL, one that covers all",
        request(TE, f"Content-Length: {len(ENDED)}", body=ENDED, sized=False),
    )
    yield "TE.CL, in chunks", request(TE, "Content-Length: 4", body=chunked(INNER), sized=False)
    for value in (
        "Chunked",
        "chunked, chunked",
        "chunked, identity",
        "identity, chunked",
        "gzip, chunked",
        "chunked;q=1",
        '"chunked"',
        "chunked,",
        ",chunked",
        "x chunked",
        "chunked\tx",
        "\x0bchunked",
        "chunked\x0c",
        "chunked\x00",
        "identity",
        "xchunked",
        "cow",
        "",
    ):
        yield f"CL and TE {value!r}", request(f"Transfer-Encoding: {value}", body=ENDED)
        if value != "Chunked":
            yield f"TE {value!r}", request(f"Transfer-Encoding: {value}", body=ENDED, sized=False)
    yield "TE twice", request(TE, TE, body=ENDED, sized=False)
    yield "TE twice, one other", request(TE, "Transfer-Encoding: cow", body=ENDED, sized=False)
    for name in (
        "Transfer-Encoding ",
        "Transfer-Encoding\t",
        " Transfer-Encoding",
        "\tTransfer-Encoding",
        "Transfer-Encoding\x00",
        "Transfer\x0bEncoding",
        "X: x\nTransfer-Encoding",
        "X: x\rTransfer-Encoding",
        "X: x\r\n Transfer-Encoding",
        "Transfer-Encoding\r\n ",
    ):
        yield f"named {name!r}", request(f"{name}: chunked", body=ENDED)
    # Lengths.
    for value in (
        "5, 5",
        "5,6",
        "+5",
        "-5",
        "0x5",
        "5.0",
        "5 5",
        "5;",
        '"5"',
        "5e0",
        "",
        "\u0665".encode().decode("latin-1"),
        "99999999999999999999999",
        "18446744073709551621",
        "4294967301\x00",
        "5\x0b",
        "5\n",
        "1_0",
    ):
        yield f"length {value!r}", request(f"Content-Length: {value}", body=ENDED, sized=False)
    yield "two lengths", request("Content-Length: 5", body=ENDED)
    yield "two equal lengths", request(f"Content-Length: {len(ENDED)}", body=ENDED)
    yield "length with a space", request("Content-Length : 5", body=ENDED, sized=False)
    yield "length in a fold", request("Content-Length:\r\n 5", body=ENDED, sized=False)
    # Lines.
    yield "bare LF", request(body=SHORT, end="\n") + INNER
    yield "bare CR", request(body=SHORT, end="\r") + INNER
    yield "one bare LF", request("X: x\nY: y", body=SHORT) + INNER
    yield "fold", request("X: x\r\n y", body=SHORT) + INNER
    yield "NUL in a value", request("X: x\x00y", body=SHORT) + INNER
    yield "CR in a value", request("X: x\ry", body=SHORT) + INNER
    yield "header without a colon", request("X", body=SHORT) + INNER
    yield "header without a name", request(": x", body=SHORT) + INNER
    yield "space in a name", request("X Y: x", body=SHORT) + INNER
    # Chunks.
    end = b"\r\n\r\n"
    for name, body in {
        "bare LF": b"%x\n%b\n0\n\n" % (len(SHORT), SHORT),
        "LF after the size": b"%x\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "LF after the data": b"%x\r\n%b\n0" % (len(SHORT), SHORT) + end,
        "no end of line after the data": b"%x\r\n%bXX0" % (len(SHORT), SHORT) + end,
        "0x": b"0x%x\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "sign": b"+%x\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "minus": b"-%x\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "underscore": b"0_%x\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "space before": b" %x\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "no size": b"\r\n%b\r\n0" % SHORT + end,
        "size too large": b"1%016x\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "LF in an extension": b"%x;a\nb\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "CR in an extension": b"%x;a\rb\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "NUL in an extension": b"%x;a\0b\r\n%b\r\n0" % (len(SHORT), SHORT) + end,
        "LF in a trailer": b"%x\r\n%b\r\n0\r\nX: x\n\r\n" % (len(SHORT), SHORT),
        "end by LF": b"%x\r\n%b\r\n0\n\n" % (len(SHORT), SHORT),
    }.items():
        yield f"chunk, {name}", request(TE, body=body, sized=False) + INNER
    # Lines of requests.
    for line in (
        f"POST {CHAT}",
        f"POST {CHAT} HTTP/0.9",
        f"POST {CHAT} HTTP/2.0",
        f"POST {CHAT} HTTP/1.2",
        f"POST {CHAT} HTTP/1.10",
        f"POST {CHAT} http/1.1",
        f"POST {CHAT} HTTP/1.1 HTTP/1.1",
        f"POST\t{CHAT} HTTP/1.1",
        f"POST {CHAT} HTTP/1.1 ",
        f" POST {CHAT} HTTP/1.1",
        f"POST{CHAT} HTTP/1.1",
        f"PO\x00ST {CHAT} HTTP/1.1",
        f"P\rOST {CHAT} HTTP/1.1",
        "PRI * HTTP/2.0",
        f"post {CHAT} HTTP/1.1",
    ):
        yield f"line {line!r}", request(line=line, body=SHORT) + INNER
    yield "HTTP/0.9", f"GET {CHAT}\r\n".encode() + INNER
    yield "CONNECT", request(line="CONNECT 127.0.0.1:80 HTTP/1.1", body=SHORT) + INNER
    yield (
        "HTTP/1.0 in chunks",
        request(TE, line=f"POST {CHAT} HTTP/1.0", body=chunked(SHORT), sized=False) + INNER,
    )


AMBIGUOUS = dict(ambiguous())
#: Requests of which there is one reading, with what follows them: how each is answered, and what
#: the upstream gets.
CLEAR = {
    "one after another": (request(body=SHORT) + INNER, [200, 200], ["outside", "inside"]),
    "in chunks": (
        request(TE, body=chunked(SHORT[:5], SHORT[5:]), sized=False) + INNER,
        [200, 200],
        ["outside", "inside"],
    ),
    "an extension and a trailer": (
        request(TE, body=b"%x;a=b\r\n%b\r\n0\r\nX: x\r\n\r\n" % (len(SHORT), SHORT), sized=False)
        + INNER,
        [200, 200],
        ["outside", "inside"],
    ),
    "more spaces": (
        request(line=f"POST  {CHAT}  HTTP/1.1", body=SHORT) + INNER,
        [200, 200],
        ["outside", "inside"],
    ),
    "a body of GET": (request(line="GET /health HTTP/1.1", body=INNER), [200], []),
    "a body of GET in chunks": (
        request(TE, line="GET /health HTTP/1.1", body=chunked(INNER), sized=False),
        [200],
        [],
    ),
    "a body of DELETE": (request(line=f"DELETE {CHAT} HTTP/1.1", body=INNER), [405], []),
    "a body for nothing": (request(line="POST /x HTTP/1.1", body=INNER), [404], []),
    "a body with an upgrade": (
        request("Connection: Upgrade", "Upgrade: h2c", body=INNER),
        [400],
        [],
    ),
    "a body with a WebSocket": (
        request("Connection: Upgrade", "Upgrade: websocket", body=INNER),
        [400],
        [],
    ),
    "without a key": (
        request(body=SHORT).replace(AUTHORIZATION.encode(), b"X: x") + INNER,
        [401, 200],
        ["inside"],
    ),
    "two keys": (request(AUTHORIZATION, body=SHORT), [401], []),
    "compressed": (request("Content-Encoding: gzip", body=SHORT), [415], []),
}


@dataclass(frozen=True)
class Exchange:
    """What comes back for what was sent.

    Attributes:
        answer: all of it.
        closed: whether the connection was closed in time.
    """

    answer: bytes
    closed: bool

    @property
    def statuses(self) -> list[int]:
        found = re.findall(rb"HTTP/1\.[01] (\d{3}) ", self.answer)
        return [int(each) for each in found]


async def exchange(port: int, *parts: bytes, pause: float = 0.01, wait: float = 10) -> Exchange:
    """Send ``parts``, each by itself, and read until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        for each in parts:
            writer.write(each)
            await asyncio.sleep(pause if each is not parts[-1] else 0)
        async with asyncio.timeout(wait):
            while piece := await reader.read(65536):
                answer += piece
        return Exchange(answer, True)
    except TimeoutError:
        return Exchange(answer, False)
    except ConnectionError:
        return Exchange(answer, True)
    finally:
        writer.close()


def prompts(upstream: Scripted) -> list[str]:
    return [each.document["messages"][0]["content"] for each in upstream.asked]


@pytest.mark.parametrize("split", [False, True])
async def test_what_has_two_readings_has_none(split: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, and so is all that follows it on its connection: nothing reaches upstream."""
    # Of a body that breaks off in the middle no more is read.
    monkeypatch.setattr("tpuflex.gateway.server._BODY_S", 0.5)
    monkeypatch.setattr("tpuflex.gateway.server._LINGER_S", 0.1)

    def parts(data: bytes) -> list[bytes]:
        head, end, rest = data.partition(b"\r\n\r\n")
        return [head + end, rest[:7], rest[7:]] if split else [data]

    async with gateway_before(upstream := Scripted()) as rig:
        found = await asyncio.gather(
            *(exchange(rig.port, *parts(data)) for data in AMBIGUOUS.values())
        )

    assert len(AMBIGUOUS) >= 100
    for name, each in zip(AMBIGUOUS, found, strict=True):
        assert each.closed, name
        assert set(each.statuses) <= {400, 408, 413, 501}, (name, each.answer)
    assert prompts(upstream) == []


@pytest.mark.parametrize("name", CLEAR)
async def test_what_has_one_reading_is_answered_as_that(name: str) -> None:
    data, statuses, asked = CLEAR[name]
    async with gateway_before(upstream := Scripted()) as rig:
        last = request("Connection: close", line="GET /health HTTP/1.1")
        found = await exchange(rig.port, data, last)

    assert found.closed
    assert found.statuses == [*statuses, 200]
    assert prompts(upstream) == asked


def spelled(path: str) -> Iterator[str]:
    """Ways to write a path, so that a check and a router may read it differently."""
    for index, letter in enumerate(path):
        yield f"{path[:index]}%{ord(letter):02X}{path[index + 1 :]}"
        yield f"{path[:index]}%25{ord(letter):02x}{path[index + 1 :]}"
    for each in (encoded, slashed, behind_health, absolute, lettered):
        yield from each(path)


async def test_no_other_spelling_of_a_path_reaches_an_upstream() -> None:
    targets = [
        *dict.fromkeys(each for path in COMPLETIONS for each in spelled(path)),
        *ROUTES,
        "/v1/load_lora_adapter",
        "/v1/embeddings",
        "/tokenize",
        "/detokenize",
        "/v1/responses",
        "/v1/audio/transcriptions",
        "/v1/unload_lora_adapter",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/wake_up",
        "/start_profile",
        "/sleep",
    ]
    targets = [each for each in targets if each not in ("/v1/models", "/metrics")]
    requests = [
        request("Connection: close", line=f"POST {each} HTTP/1.1", body=SHORT)
        for each in (target.encode().decode("latin-1") for target in targets)
    ]
    async with gateway_before(upstream := Scripted()) as rig:
        found = await asyncio.gather(*(exchange(rig.port, each) for each in requests))

    assert len(targets) >= 200
    for target, each in zip(targets, found, strict=True):
        assert each.closed, target
        assert each.statuses in ([400], [404], [405]), (target, each.answer)
    assert prompts(upstream) == []


async def test_what_cannot_be_read_is_repeated_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """It may have a key in it."""
    async with gateway_before(Scripted()) as rig:
        for bad in ("\x00", "\rX", "x" * 9000):
            found = await exchange(rig.port, request(f"Authorization: Bearer {KEY}{bad}"))
            assert found.statuses == [400]
            assert KEY.encode() not in found.answer
            assert b'"code": "bad_framing"' in found.answer

    assert caplog.text == ""


@pytest.mark.parametrize("fault", [ValueError, TimeoutError])
async def test_a_fault_of_the_gateway_s_own_is_logged_without_what_a_client_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
) -> None:
    """Whatever it is, it is the gateway's own 500."""

    def fails(path: str, body: bytes) -> NoReturn:
        raise fault(path, body)

    monkeypatch.setattr("tpuflex.gateway.server.read_ask", fails)
    async with gateway_before(Scripted()) as rig:
        found = await exchange(rig.port, request(body=completion("a secret")))

    assert found.statuses == [500]
    assert found.closed
    assert b'"code": "failed"' in found.answer
    assert "in fails" in caplog.text
    assert fault.__name__ in caplog.text
    for text in ("a secret", KEY):
        assert text not in caplog.text
        assert text.encode() not in found.answer


async def test_heads_and_bodies_are_as_long_as_they_may_be_and_no_longer() -> None:
    settings = GatewaySettings(requests=RequestLimits(body_bytes=2000))
    most = completion("x" * (2000 - len(completion(""))))
    more = completion("x" * (2001 - len(completion(""))))
    head = [f"X-{number}: x" for number in range(200)]
    async with gateway_before(upstream := Scripted(), settings=settings) as rig:
        for expected, data in (
            (200, request("Connection: close", body=most)),
            (200, request("Connection: close", TE, body=chunked(most), sized=False)),
            (413, request("Connection: close", body=more)),
            (413, request("Connection: close", "Expect: 100-continue", body=more)),
            (
                413,
                request("Connection: close", TE, body=chunked(more[:500], more[500:]), sized=False),
            ),
            (400, request("X: " + "x" * 8191, body=SHORT)),
            (400, request(*head, body=SHORT)),
            (400, request(line=f"POST /{'x' * 8191} HTTP/1.1", body=SHORT)),
        ):
            found = await exchange(rig.port, data)
            assert found.closed, data[:300]
            assert found.statuses == [expected], data[:200]

    assert len(upstream.asked) == 2


async def drip(port: int, data: bytes, at_once: int) -> Exchange:
    """Send so many bytes, and then one now and then, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data[:at_once])
    answer = bytearray()

    async def read() -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                answer.extend(piece)

    reading, sent = asyncio.create_task(read()), at_once
    while not reading.done():
        await asyncio.sleep(0.02)
        writer.write(data[sent : sent + 1])
        sent += 1
    writer.close()
    return Exchange(bytes(answer), True)


async def test_a_head_or_body_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a byte of it comes; also the head of a second request."""
    for name in ("_IDLE_S", "_BODY_S", "_LINGER_S"):
        monkeypatch.setattr(f"tpuflex.gateway.server.{name}", 0.3)
    long = request("X: " + "x" * 5000, body=completion("x" * 5000))
    health = request(line="GET /health HTTP/1.1")
    async with gateway_before(upstream := Scripted()) as rig:
        async with asyncio.timeout(20):
            nothing, head, second, body, chunk = await asyncio.gather(
                drip(rig.port, b"", 0),
                drip(rig.port, long, 1),
                drip(rig.port, health + long, len(health) + 1),
                drip(rig.port, long, long.index(b"\r\n\r\n") + 5),
                drip(rig.port, request(TE, body=b"400\r\n" + b" " * 1024, sized=False), 300),
            )

    assert nothing.statuses == []
    assert head.statuses == []
    assert second.statuses == [200]
    assert body.statuses == [408]
    assert chunk.statuses == [408]
    assert prompts(upstream) == []


async def test_a_client_that_does_not_take_its_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that no answer stays in memory for it."""
    monkeypatch.setattr("tpuflex.gateway.server.STALLED_S", 0.2)
    size = 32 * 1024 * 1024

    async def large(asked: Asked) -> web.StreamResponse:
        del asked
        return web.json_response({"choices": [{"text": "x" * size}]})

    async with gateway_before(Scripted(always=large)) as rig:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(request(body=SHORT))
        assert await reader.readexactly(12) == b"HTTP/1.1 200"
        # From here on it takes nothing for longer than it may.
        await asyncio.sleep(0.5)
        taken = 0
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                taken += len(piece)
        writer.close()

    assert taken < size
