"""P1 against the real vLLM with its developer mode on: without a key nothing but health answers.

One server, booted by the real startup script, is asked over raw sockets, because a client library
would tidy up what an attacker writes.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import requests

from tests.acceptance.security.raw_http import Answer, ask, post, websocket
from tests.acceptance.security.spellings import ALL, HEALTH
from tests.security.vllm_host import METRICS_KEY, SECOND_KEY, VllmHost, boot, image_is_installed
from tests.startup.cloud import API_KEY

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

#: What may come back without a key: the guard's refusal, or the HTTP parser's.
_MALFORMED = b"Invalid HTTP request received."
METHODS = (
    *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
    *("TRACE", "CONNECT", "PROPFIND", "get"),
)
TARGETS = (
    *("/invocations", "/v1/models", "/v1/chat/completions", "/metrics", "/openapi.json", "/docs"),
    *("/version", "/load", "/server_info", "/collective_rpc", "/tokenize", "/ping", "/", "*"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmHost]:
    """The server, booted once."""
    host = boot(tmp_path_factory.mktemp("vllm"))
    yield host
    host.stop()


def is_refusal(answer: Answer) -> bool:
    """Whether ``answer`` says nothing but that a key is wanted, or that it was no HTTP."""
    if answer.status == 401:
        return answer.body == b"" or json.loads(answer.body)["error"]["type"] == "Unauthorized"
    if answer.status == 403:
        return answer.body == b""  # a WebSocket
    return answer.status is None or (answer.status == 400 and answer.body == _MALFORMED)


def test_host_is_ready_after_asking_every_route(server: VllmHost) -> None:
    """S1: READY comes after each route of the server's own list has refused to answer."""
    assert server.run.status == 0, server.run.output
    assert server.host.cloud.phases()[-1] == "READY"
    (asked,) = re.findall(r"(\d+) questions without the key were refused", server.run.output)
    assert int(asked) > 200


def test_invocations_want_the_key(server: VllmHost) -> None:
    """S1: `POST /invocations`, which answers as a completion does, answers only with the key."""
    body = {"model": "tiny", "prompt": "The capital of France is", "max_tokens": 4}
    assert post(server.port, "/invocations", body).status == 401
    assert post(server.port, "/invocations", body, METRICS_KEY).status == 401
    assert post(server.port, "/invocations", body, API_KEY).json()["choices"][0]["text"]


@pytest.mark.parametrize("key", [None, "wrong", METRICS_KEY])
def test_no_spelling_of_a_path_answers(server: VllmHost, key: str | None) -> None:
    """S1: without a client's key no way of writing a path is answered."""
    assert len(ALL) >= 200
    # With its own key the metrics answer, however their address goes on.
    targets = [target for target in ALL if key != METRICS_KEY or "metrics" not in target]
    answered = [
        (target, answer.status, answer.body[:80])
        for target in targets
        if not is_refusal(answer := ask(server.port, "GET", target, key))
    ]
    assert answered == []


def test_health_is_open_by_its_exact_name(server: VllmHost) -> None:
    """Health answers GET and HEAD at its exact path; nothing else is like it."""
    assert ask(server.port, "GET", "/health").status == 200
    assert ask(server.port, "GET", "/health").body == b""
    assert ask(server.port, "HEAD", "/health").body == b""
    for target in HEALTH:
        assert is_refusal(ask(server.port, "GET", target)), target
    for method in METHODS[2:]:
        assert is_refusal(ask(server.port, method, "/health")), method


def test_no_method_answers(server: VllmHost) -> None:
    """S1: every method, OPTIONS of a browser among them, is refused on every route."""
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for target in TARGETS:
        for method in METHODS:
            answer = ask(server.port, method, target, headers=origin)
            assert is_refusal(answer), (method, target, answer)
            assert b"access-control" not in answer.head.lower()


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/0.9", ""])
def test_no_version_of_http_answers(server: VllmHost, version: str) -> None:
    """Requests of other versions of HTTP, or of none, are refused, too."""
    for target in TARGETS:
        answer = ask(server.port, "GET", target, version=version)
        assert is_refusal(answer), (target, answer)


@pytest.mark.parametrize(
    "header",
    [
        "X-Api-Key: {key}",
        "Api-Key: {key}",
        "Authorization: {key}",
        "Authorization: Basic {key}",
        "Authorization: Bearer",
        "Authorization: Bearer {key}x",
        "Authorization: Bearer wrong\r\nAuthorization: Bearer {key}",
        "Proxy-Authorization: Bearer {key}",
        "Cookie: Authorization=Bearer {key}",
        "X-Original-URL: /health",
        "X-Rewrite-URL: /health",
        "X-Forwarded-Prefix: /v1",
        "X-HTTP-Method-Override: HEAD",
        "X-Forwarded-For: 127.0.0.1",
        "Forwarded: for=127.0.0.1",
        "Host: localhost/health",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
        "Expect: 100-continue",
        "Transfer-Encoding: chunked",
    ],
)
def test_no_header_replaces_the_key(server: VllmHost, header: str) -> None:
    """Neither the key in another place, nor a header that proxies believe, opens anything."""
    name, _, value = header.format(key=API_KEY).partition(": ")
    for target in ("/v1/models", "/metrics", "/invocations"):
        answer = ask(server.port, "GET", target, headers={name: value})
        assert is_refusal(answer), (header, target, answer)


@pytest.mark.parametrize("target", ["/v1/realtime", "/health", "/", "/v1/models", "/invocations"])
@pytest.mark.parametrize("key", [None, "wrong", METRICS_KEY])
def test_websocket_is_refused(server: VllmHost, target: str, key: str | None) -> None:
    """S1: no upgrade to a WebSocket is accepted without a client's key."""
    assert websocket(server.port, target, key).status in (401, 403)


def test_body_is_not_waited_for(server: VllmHost) -> None:
    """The refusal comes before the body: a body that never comes holds nothing up."""
    for length in ("Content-Length: 1000000000", "Transfer-Encoding: chunked"):
        name, value = length.split(": ")
        answer = ask(server.port, "POST", "/invocations", headers={name: value})
        assert answer.status == 401


def test_requests_hidden_behind_health_are_refused(server: VllmHost) -> None:
    """Pipelined and smuggled requests after an open one are judged by themselves."""
    models = b"GET /v1/models HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    health = b"GET /health HTTP/1.1\r\nHost: h\r\n"
    bodies = [
        b"\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n",
        b"X: a\n\n",
    ]
    for body in bodies:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(health + body + models)
            connection.shutdown(socket.SHUT_WR)
            answers = b"".join(iter(lambda: connection.recv(65536), b""))
        statuses = re.findall(rb"HTTP/1\.1 (\d+)", answers)
        assert statuses in ([b"200", b"401"], [b"400"], [b"200", b"400"], [b"200"]), answers
        assert b"tiny" not in answers


@pytest.mark.parametrize("key", [API_KEY, SECOND_KEY])
def test_with_a_key_everything_works(server: VllmHost, key: str) -> None:
    """Each client's key opens the whole server: chat, streams, metrics, documents."""
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    completion = {"model": "tiny", "prompt": "Hello", "max_tokens": 4}
    assert post(server.port, "/v1/chat/completions", chat, key).json()["choices"]
    assert b"[DONE]" in post(server.port, "/v1/chat/completions", chat | {"stream": True}, key).body
    assert post(server.port, "/v1/completions", completion, key).json()["choices"]
    assert post(server.port, "/tokenize", {"model": "tiny", "prompt": "a"}, key).json()["count"]
    for target in ("/v1/models", "/metrics", "/version", "/openapi.json", "/docs", "/server_info"):
        assert ask(server.port, "GET", target, key).status == 200


def test_metrics_key_reads_metrics_alone(server: VllmHost) -> None:
    """A collector's key reads the metrics, and opens no route beside."""
    assert b"vllm:num_requests_running" in ask(server.port, "GET", "/metrics", METRICS_KEY).body
    listed = ask(server.port, "GET", "/openapi.json", API_KEY).json()["paths"]
    assert len(listed) > 40
    for path, operations in listed.items():
        for method in operations:
            if (method, path) in (("get", "/health"), ("get", "/metrics")):
                continue
            target = path.replace("{", "").replace("}", "")
            answer = ask(server.port, method.upper(), target, METRICS_KEY)
            assert is_refusal(answer), (method, path)


def test_version_and_kv_cache_are_those_of_the_server(server: VllmHost) -> None:
    """What the host reports is what vLLM itself says, by its version and its metrics."""
    version = ask(server.port, "GET", "/version", API_KEY).json()["version"]
    assert server.host.cloud.last("vllm_version") == version
    cache = json.loads(server.host.cloud.last("kv_cache"))
    assert cache["block_size"] > 0
    assert cache["tokens"] >= 512
    assert cache["num_blocks"] * cache["block_size"] >= cache["tokens"]
    assert cache["cache_dtype"] == "auto"


def test_no_client_key_is_in_the_container(server: VllmHost) -> None:
    """The keys stand in no environment and on no command line of the server's processes."""
    processes = server.processes()
    assert len(processes) > 1
    for process in processes:
        for name in ("environ", "cmdline"):
            text = (process / name).read_bytes()
            for key in (API_KEY, SECOND_KEY, METRICS_KEY):
                assert key.encode() not in text


def test_headers_without_an_end_end_their_connection(server: VllmHost) -> None:
    """One client without a key could keep all others waiting, and so have the host's watch take the
    server for frozen: the parser in C takes longer for every byte more of a header."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):
            connection.sendall(b"a" * 64 * 1024 * 1024)
    # What has a body, and a piece of it after another, is none.
    body = {"model": "tiny", "prompt": "a " * 300_000, "max_tokens": 1}
    assert post(server.port, "/v1/completions", body, API_KEY).status == 400


def test_a_connection_that_becomes_a_websocket_leaves_no_request_open(server: VllmHost) -> None:
    """A drain would wait for it until its time is over."""
    asked = {"model": "tiny", "prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True}
    text = json.dumps(asked)
    head = f"Host: h\r\nAuthorization: Bearer {API_KEY}\r\n"
    stream = (
        f"POST /v1/completions HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n{text}"
    )
    upgrade = (
        f"GET /v1/realtime HTTP/1.1\r\n{head}Connection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dHB1ZmxleC10cHVmbGV4IQ==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(stream.encode())
        assert connection.recv(16)
        connection.sendall(upgrade.encode())
        time.sleep(0.5)
    deadline = time.monotonic() + 60
    while in_flight(server):
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def in_flight(server: VllmHost) -> int:
    url = f"http://127.0.0.1:{server.port}/tpuflex/requests"
    headers = {"Authorization": f"Bearer {API_KEY}"}
    return int(requests.get(url, headers=headers, timeout=20).json()["in_flight"])
