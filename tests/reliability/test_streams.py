"""The clients of figure 15: what they take for a whole stream, a cut one, and a failure."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from reliability.streams import CUT, FAILED, REFUSED, WHOLE, Clients, Sample

_ENDS = b"data: [DONE]\n\n"
#: Nobody listens on this port.
_NOBODY = "http://127.0.0.1:1/v1"


def usage(tokens: int) -> bytes:
    return f"data: {json.dumps({'usage': {'completion_tokens': tokens}})}\n\n".encode()


@dataclass
class Server:
    """A server that answers as it is told.

    Attributes:
        url: its base URL.
        status, body: of its answers.
        asked: what it was asked.
    """

    url: str = ""
    status: int = 200
    body: bytes = b""
    asked: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Names:
    """Names one address after the other, and then the last one for good."""

    addresses: list[str]
    key: str = "key"
    model: str = "tiny"

    def endpoint(self) -> str:
        return self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]


@pytest.fixture
def server() -> Iterator[Server]:
    """One on loopback."""
    told = Server()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            told.asked.append(json.loads(self.rfile.read(length)))
            self.send_response(told.status)
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as http:
        told.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        yield told
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b"data: {}\n\n" + usage(8) + _ENDS, WHOLE),
        (200, usage(7) + _ENDS, CUT),
        (200, usage(8), CUT),
        (200, b"", CUT),
        (200, b'data: {"error": {"code": 500}}\n\n' + _ENDS, CUT),
        (503, b"", REFUSED),
        (500, b"the engine is dead", FAILED),
    ],
)
def test_a_stream_is_whole_with_all_its_tokens_and_its_end(
    server: Server, status: int, body: bytes, outcome: str
) -> None:
    """What was answered 200 and lacks a token, its count or its end was cut."""
    server.status, server.body = status, body

    assert Clients(Names([server.url])).ask(server.url, 8)[0] == outcome
    assert server.asked[0]["max_tokens"] == 8


def test_who_is_refused_reads_the_address_again(server: Server) -> None:
    """Once, and at once; a second refusal is a failure."""
    clients = Clients(Names([server.url]))
    server.body = usage(8) + _ENDS

    moved = clients.request(_NOBODY, 8)
    assert (moved.outcome, moved.address, moved.refusals) == (WHOLE, server.url, 1)

    server.status = 503
    gone = clients.request(server.url, 8)
    assert (gone.outcome, gone.refusals) == (FAILED, 2)
    assert len(server.asked) == 3


def test_nobody_is_asked_where_nothing_serves() -> None:
    """A status that names no address is a failure of the request."""
    clients = Clients(Names([""]))

    assert clients.request("", 8).said == "status names no address that serves"


def test_time_without_an_address_is_counted_from_sample_to_sample() -> None:
    """A sample holds until the next one."""
    samples = [Sample(0, "a"), Sample(1, ""), Sample(3, "b"), Sample(4, "b")]
    clients = Clients(Names(["a"]), samples=samples)

    assert clients.seconds(lambda each: not each.endpoint) == 2


def test_streams_are_opened_until_the_end(server: Server) -> None:
    """Clients ask all the time, with the tokens that they want, and stop when they are told."""
    server.body = usage(8) + _ENDS
    clients = Clients(Names([server.url]))
    deadline = time.monotonic() + 30
    with clients.running():
        while len(clients.streams) < 5 and time.monotonic() < deadline:
            time.sleep(0.02)
    count = len(server.asked)

    assert count == len(clients.streams) >= 5
    assert {each.outcome for each in clients.streams} == {CUT}  # none wanted eight tokens
    assert clients.samples[0].endpoint == server.url
