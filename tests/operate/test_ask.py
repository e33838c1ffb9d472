"""One question to an endpoint, over real HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import count

import pytest
import requests

from tests.loopback import serving
from tpuflex.errors import AccessError, ApiError
from tpuflex.operate.question import Answer, Question, stream_answer


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def piece(text: str, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}
DONE = b"data: [DONE]\n\n"


@contextmanager
def endpoint(
    status: int, body: bytes, kind: str = "text/event-stream"
) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server that gives every request the same answer, and what it was asked."""
    asked: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers["Authorization"], **sent})
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving(Handler) as url:
        yield f"{url}/v1", asked


def test_a_header_that_cannot_be_read_is_no_answer() -> None:
    """For some, `http.client` raises a TypeError: whoever runs on the server decides what it says,
    and no command may end with a traceback for it."""
    kind = "multipart/mixed; boundary*=a; boundary*0=b"
    with (
        endpoint(200, b"", kind) as (url, _),
        pytest.raises(ApiError, match="broke off"),
    ):
        stream_answer(Question(url, "m", "?"), "key", show=lambda _: None, now=lambda: 0.0)


def answer_of(status: int, body: bytes) -> tuple[Answer, list[str], list[dict[str, object]]]:
    ticks = count()
    shown: list[str] = []
    with endpoint(status, body) as (url, asked):
        answer = stream_answer(
            Question(url, "m", "capital?"), "key", show=shown.append, now=lambda: float(next(ticks))
        )
    return answer, shown, asked


def test_a_key_that_is_sent_back_is_not_shown() -> None:
    """In the error about an answer that echoes the request's headers, the key is left out."""
    body = b"Not found. Authorization: Bearer sk-canary " + b"x" * 400
    with endpoint(404, body) as (url, _), pytest.raises(ApiError) as caught:
        stream_answer(Question(url, "m", "?"), "sk-canary", show=print, now=lambda: 0.0)

    assert "Authorization: Bearer (the API key) xx" in caught.value.message
    assert "sk-canary" not in str(caught.value.to_json())


def test_streams_the_answer() -> None:
    """Each piece is shown as it comes; figures come from the clock and the server's count."""
    body = sse({"choices": [{"delta": {"role": "assistant"}}]}, piece("Par"), piece("is."))
    answer, shown, asked = answer_of(200, body + sse(piece("", "stop"), USAGE) + DONE)

    assert shown == ["Par", "is."]
    assert answer == Answer("Paris.", 1.0, 2.0, 12, 3, "stop")
    assert answer.tokens_per_second == 2.0
    assert asked[0]["path"] == "/v1/chat/completions"
    assert asked[0]["key"] == "Bearer key"
    assert asked[0]["stream"] is True


def test_refused_key() -> None:
    """A refused key is another one than the host has read when it booted: by what it may be that,
    each with the command that mends it."""
    with pytest.raises(AccessError) as caught:
        answer_of(401, b'{"error": "Unauthorized"}')

    assert "If tpuflex:secrets was changed: `tpuflex up`." in str(caught.value.hint)
    assert "`tpuflex restart` has the host read it" in str(caught.value.hint)


def test_a_server_that_gives_nothing() -> None:
    """One that is frozen takes a question and answers nothing: that is no broken answer."""
    session = requests.Session()
    session.get_adapter("http://").send = _silent  # type: ignore[method-assign]
    asked = Question("http://127.0.0.9/v1", "m", "?")

    with pytest.raises(ApiError, match="gave nothing for 300 s") as caught:
        stream_answer(asked, "key", show=print, now=lambda: 0.0, session=session)

    assert "`tpuflex status` says" in str(caught.value.hint)


def test_a_server_that_does_not_end() -> None:
    """However steadily its pieces come, all of them together have so much time, if it is given."""
    ticks = count(step=7)
    with endpoint(200, sse(*[piece("x" * 600)] * 9)) as (url, _), pytest.raises(ApiError) as caught:
        stream_answer(
            Question(url, "m", "?"), "key", show=print, now=lambda: next(ticks), within=20.0
        )

    assert "took longer than 20 s" in caught.value.message


def _silent(*_: object, **__: object) -> requests.Response:
    raise requests.ReadTimeout


def test_error_answer() -> None:
    """Any other refusal is shown with its status and text."""
    with pytest.raises(ApiError, match="answered 404: no such model"):
        answer_of(404, b"no such model")


@pytest.mark.parametrize(
    "body",
    [sse(piece("Par")), sse(piece("Par")) + DONE, sse(piece("Par"), {"error": "engine died"})],
)
def test_broken_off(body: bytes) -> None:
    """An answer without an end is an error, never a short answer."""
    with pytest.raises(ApiError, match="broke off"):
        answer_of(200, body)


def test_unreachable() -> None:
    """A private endpoint that cannot be reached says how to reach it."""
    with endpoint(200, b"") as (url, _):
        pass
    question = Question(url, "m", "q", reach="open a tunnel")

    with pytest.raises(ApiError) as caught:
        stream_answer(question, "key", show=print, now=lambda: 0.0)

    assert caught.value.message == f"{url} cannot be reached from here."
    assert str(caught.value.hint) == "open a tunnel"


def test_speed_of_one_token() -> None:
    """One token has no rate."""
    assert Answer("a", 1.0, 1.0, 1, 1, "stop").tokens_per_second is None
