"""S17: answers of an API and of a model are read within bounds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from threading import Event

import pytest

from tests.security.answering import server
from tpuflex.errors import ApiError
from tpuflex.google.http import MAX_BYTES
from tpuflex.google.session import AuthorizedSession, GivenToken
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.host.report import host_report
from tpuflex.operate.question import Question, stream_answer

MEGABYTE = 1024 * 1024


def call(url: str) -> object:
    with AuthorizedSession(GivenToken("ya29.tpuflex-embedded.x"), embedded=True) as session:
        return Transport(session, url, Timing.real(Event())).call("GET", "/v1/things", budget=0)


def asked(url: str) -> object:
    return stream_answer(
        Question(f"{url}/v1", "m", "?"), "key", show=lambda _: None, now=lambda: 0.0
    )


def test_an_api_that_does_not_stop() -> None:
    """S17: an answer larger than any of Google's is an error, and the rest of it is not read."""

    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b'{"x": "'
        for _ in range(2 * MAX_BYTES // MEGABYTE):
            sent += MEGABYTE
            yield b"x" * MEGABYTE

    with server(endless()) as (url, _), pytest.raises(ApiError, match="answers with more than"):
        call(url)

    assert sent < 2 * MAX_BYTES


def test_an_api_that_answers_with_a_bomb() -> None:
    """S17: what counts is the size after decompression."""
    bomb = gzip.compress(b"x" * (2 * MAX_BYTES), compresslevel=1)
    assert len(bomb) < 4 * MEGABYTE

    with (
        server([bomb], headers={"Content-Encoding": "gzip"}) as (url, _),
        pytest.raises(ApiError, match="answers with more than"),
    ):
        call(url)


def test_an_answer_is_read_whole() -> None:
    """S17: the bound changes nothing for an answer of Google's size."""
    with server([json.dumps({"x": "y" * MEGABYTE}).encode()]) as (url, _):
        assert call(url) == {"x": "y" * MEGABYTE}


@pytest.mark.parametrize(
    ("piece", "problem"),
    [
        (b"data: " + b"x" * MEGABYTE, "does not end"),
        (b": ping\n" * (MEGABYTE // 8), "does not end"),
    ],
    ids=["line", "lines"],
)
def test_a_model_that_does_not_stop(piece: bytes, problem: str) -> None:
    """S17: a line without end, and an answer without end, are errors."""
    with server([piece] * 100) as (url, _), pytest.raises(ApiError, match=problem):
        asked(url)


@pytest.mark.parametrize(
    "event", ["{", "[]", '"x"', '{"choices": 1}', '{"choices": [{"delta": {"content": 1}}]}']
)
def test_a_model_that_answers_something_else(event: str) -> None:
    """S17: what is no event of a chat completion is an error of the endpoint, not a traceback."""
    with (
        server([f"data: {event}\n\n".encode()]) as (url, _),
        pytest.raises(ApiError, match="no chat completion"),
    ):
        asked(url)


def test_a_timeline_of_a_host() -> None:
    """S17: a host's numbers are numbers, so `status --json` stays JSON."""
    timeline = '{"config": 1.5, "image": NaN, "weights": Infinity, "health": 1e999, "x": true}'
    report = host_report({"report": json.dumps({"phase": "health", "timeline": timeline})})

    assert report is not None
    assert report.timeline == {"config": 1.5}
    json.loads(json.dumps(report.to_json()), parse_constant=pytest.fail)
