"""P1, the guard by itself: what it passes on, what it refuses, when it does not start."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpuflex.startup.guard import Guard, GuardError, Keys, Message, Scope

KEY, SECOND, METRICS_KEY, INNER = "client-key", "second-key", "metrics-key", "inner-key"
KEYS = Keys(
    full=tuple(hashlib.sha256(key.encode()).digest() for key in (KEY, SECOND)),
    metrics=(hashlib.sha256(METRICS_KEY.encode()).digest(),),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get")


class Behind:
    """The application behind the guard: remembers what reaches it."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, _receive: Any, _send: Any) -> None:
        self.scopes.append(scope)


async def pass_through(scope: Scope) -> tuple[list[Scope], list[Message]]:
    """What the application gets, and what the client gets, when ``scope`` arrives."""
    behind, sent = Behind(), list[Message]()

    async def receive() -> Message:
        pytest.fail("the guard read from the client")

    async def send(message: Message) -> None:
        sent.append(message)

    await Guard(behind, KEYS, INNER)(scope, receive, send)
    return behind.scopes, sent


def request(method: str, target: str, *authorizations: str, **changes: Any) -> Scope:
    """A request as uvicorn passes it on: the path decoded once, the raw path as it came."""
    headers = [(b"host", b"h"), *((b"authorization", text.encode()) for text in authorizations)]
    path = {"path": unquote(target), "raw_path": target.encode(), "root_path": ""}
    return {"type": "http", "method": method, **path, "headers": headers, **changes}


@pytest.mark.parametrize("method", METHODS)
async def test_health_is_open_to_get_and_head_alone(method: str) -> None:
    """Whether the server lives is answered without a key, by GET and HEAD and no other method."""
    passed, _ = await pass_through(request(method, "/health"))
    assert bool(passed) == (method in ("GET", "HEAD"))


@pytest.mark.parametrize(
    "target",
    [
        *("/", "", "*", "/health/", "//health", "/Health", "/HEALTH", "/health;x", "/health.json"),
        *(
            "/%68ealth",
            "/health%2f",
            "/health%00",
            "/health%20",
            "/./health",
            "/health/..",
            "/healthz",
        ),
        *("/health/../invocations", "/health%2f..%2finvocations", "/invocations", "/v1/models"),
        *("/metrics", "/openapi.json", "/docs", "/ping", "http://h/health", "health", "/health\\"),
    ],
)
async def test_every_other_path_wants_the_key(target: str) -> None:
    """S1: no path opens by being written like the open one; the client gets 401, unread."""
    passed, sent = await pass_through(request("GET", target))
    assert passed == []
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 401
    assert (b"www-authenticate", b"Bearer") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["error"]["code"] == 401


@given(target=st.text(st.characters(codec="ascii"), max_size=12).map("/{}".format))
@example(target="/health")
async def test_only_the_exact_path_is_open(target: str) -> None:
    """m6, S1: of all paths, one is passed on without a key."""
    passed, _ = await pass_through(request("GET", target))
    assert bool(passed) == (target == "/health")


@pytest.mark.parametrize("changes", [{"raw_path": None}, {"root_path": "/x"}, {"raw_path": b"/x"}])
async def test_doubtful_paths_open_nothing(changes: dict[str, Any]) -> None:
    """Where the path cannot be compared with what the client sent, even health wants the key."""
    passed, _ = await pass_through(request("GET", "/health", **changes))
    assert passed == []


@pytest.mark.parametrize("key", [KEY, SECOND])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("method", METHODS)
async def test_any_full_key_opens_everything(method: str, scheme: str, key: str) -> None:
    """Each client's key is accepted, and what it asks arrives with the server's own key instead."""
    scope = request(method, "/invocations", f"{scheme} {key}")
    (passed,), sent = await pass_through(scope)
    assert sent == []
    assert passed["headers"] == [(b"host", b"h"), (b"authorization", b"Bearer inner-key")]
    assert scope["headers"][1] == (b"authorization", f"{scheme} {key}".encode())


@pytest.mark.parametrize(
    "headers",
    [
        [b"Bearer"],
        [b"Bearer "],
        [b"Bearer wrong"],
        [b"Bearerclient-key"],
        [b"client-key"],
        [b"Basic Y2xpZW50LWtleQ=="],
        [b"Bearer client-key client-key"],
        [b"Bearer\tclient-key"],
        [b"Bearer client-ke"],
        [b"Bearer CLIENT-KEY"],
        [b"Bearer inner-key"],
        [b"Bearer " + hashlib.sha256(KEY.encode()).hexdigest().encode()],
        [b"Bearer wrong", b"Bearer client-key"],
        [b"Bearer client-key", b"Bearer client-key"],
        [b"Bearer \xff\x00"],
    ],
)
async def test_no_other_header_is_a_key(headers: list[bytes]) -> None:
    """Neither parts of a key, nor its digest, nor the inner key, nor two headers open anything."""
    scope = request("GET", "/v1/models")
    scope["headers"] = [(b"Authorization", value) for value in headers]
    passed, sent = await pass_through(scope)
    assert passed == []
    assert sent[0]["status"] == 401


async def test_key_elsewhere_is_no_key() -> None:
    """The key counts in the Authorization header, not in others or in the address."""
    scope = request("GET", "/v1/models", query_string=b"api_key=client-key")
    scope["headers"] += [(b"x-api-key", KEY.encode()), (b"cookie", b"Authorization=client-key")]
    assert (await pass_through(scope))[0] == []


@pytest.mark.parametrize(
    ("method", "target", "opens"),
    [
        ("GET", "/metrics", True),
        ("POST", "/metrics", False),
        ("HEAD", "/metrics", False),
        ("GET", "/metrics/", False),
        ("GET", "/%6detrics", False),
        ("GET", "/metricsx", False),
        ("GET", "/v1/models", False),
        ("POST", "/invocations", False),
        ("GET", "/openapi.json", False),
    ],
)
async def test_metrics_key_reads_metrics_alone(method: str, target: str, opens: bool) -> None:
    """A collector's key opens GET /metrics, and nothing that a client's key opens beside it."""
    passed, _ = await pass_through(request(method, target, f"Bearer {METRICS_KEY}"))
    assert bool(passed) == opens


@pytest.mark.parametrize("target", ["/v1/realtime", "/health", "/metrics"])
async def test_websocket_without_a_key_is_refused(target: str) -> None:
    """S1: a WebSocket is refused before it is accepted, also on the path of health."""
    scope = request("GET", target, f"Bearer {METRICS_KEY}", type="websocket")
    passed, sent = await pass_through(scope)
    assert passed == []
    assert sent == [{"type": "websocket.close", "code": 1008}]
    scope["extensions"] = {"websocket.http.response": {}}
    passed, sent = await pass_through(scope)
    assert passed == []
    assert sent[0]["type"] == "websocket.http.response.start"
    assert sent[0]["status"] == 401


async def test_websocket_with_a_key_is_passed_on() -> None:
    """A client's key opens a WebSocket, too."""
    passed, sent = await pass_through(
        request("GET", "/v1/realtime", f"Bearer {KEY}", type="websocket")
    )
    assert len(passed) == 1
    assert sent == []


async def test_server_may_start_and_stop() -> None:
    """What the server itself says to the application is passed on; an unknown type is not."""
    passed, _ = await pass_through({"type": "lifespan"})
    assert passed == [{"type": "lifespan"}]
    with pytest.raises(GuardError, match="unknown type"):
        await pass_through({"type": "webtransport"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"full": [], "metrics": []}',
        '{"full": ["ab"], "metrics": []}',
        '{"full": ["xyz"], "metrics": []}',
        '{"full": "", "metrics": ""}',
        '{"full": [1], "metrics": []}',
        f'{{"full": ["{"ab" * 32}"]}}',
    ],
)
def test_without_digests_there_is_no_guard(tmp_path: Path, text: str) -> None:
    """A file that holds no digest of a full key keeps the server from starting."""
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(GuardError):
        Keys.load(file)
    with pytest.raises(GuardError):
        Keys.load(tmp_path / "missing.json")


def test_without_an_inner_key_there_is_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard does not start in front of a server whose own check is off."""
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    with pytest.raises(GuardError, match="VLLM_API_KEY"):
        Guard(Behind(), KEYS)
