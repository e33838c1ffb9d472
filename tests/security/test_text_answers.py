"""What a hostile server or host can do to the command line that asks it: nothing but be refused."""

from __future__ import annotations

import json

import pytest

from tests.cli.typing import NOON
from tests.security.answering import server
from tpuflex.cli import main
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import ApiError
from tpuflex.host.report import host_report
from tpuflex.operate.question import Question, stream_answer


def asked(url: str) -> None:
    stream_answer(
        Question(f"{url}/v1", "m", "a secret question"), "key", show=lambda _: None, now=lambda: 0.0
    )


def test_a_question_follows_no_redirect() -> None:
    """S10: a server cannot send the question on to another one, which might get it unencrypted."""
    with (
        server([]) as (elsewhere, received),
        server([], status=307, headers={"Location": elsewhere}) as (url, _),
        pytest.raises(ApiError, match="answered 307"),
    ):
        asked(url)
    assert received == []


@pytest.mark.parametrize("location", ["http://[::1", "http://\u2100\x1bc\x9d0;PWNED\x9c/"])
def test_a_redirect_to_nowhere(location: str) -> None:
    """S10: a location that is no URL is an error like any other, without its control characters."""
    header = location.encode().decode("latin-1")
    with (
        server([], status=307, headers={"Location": header}) as (url, _),
        pytest.raises(ApiError, match="answered 307") as caught,
    ):
        asked(url)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "tokens", ["9" * 4001, "-1", "1000000000000"], ids=["4001 digits", "negative", "too many"]
)
def test_tokens_that_nobody_can_have_counted(tokens: str) -> None:
    """S17: a count beyond any context is no completion, and ends in no traceback."""
    event = {
        "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": "TOKENS"},
    }
    body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".replace('"TOKENS"', tokens)
    with server([body.encode()]) as (url, _), pytest.raises(ApiError, match="no chat"):
        asked(url)


@pytest.mark.parametrize("timeline", ["[" * 100_000, '{"a":' + "1" * 5000 + "}", '{"a":1e999}'])
def test_a_timeline_that_cannot_be_read(timeline: str) -> None:
    """S17: a host's timeline of any shape is left out, and `status` goes on."""
    report = host_report({"report": json.dumps({"phase": "READY", "timeline": timeline})})

    assert report is not None
    assert report.timeline == {}


def test_what_nobody_thought_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S10: an error that is a bug is shown without a traceback and without control characters."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("\x1b]0;PWNED\x07\nmore")

    monkeypatch.setattr(main.tpuflex, "main", fail)

    assert main.run(["status"], Invocation(environ={}, now=lambda: NOON)) == 1

    shown = capsys.readouterr().err
    assert "bug in tpuflex: RuntimeError" in shown
    assert "\x1b" not in shown
    assert "Traceback" not in shown
