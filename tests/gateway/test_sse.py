"""The events of a streamed answer, cut from bytes that come in any pieces."""

from __future__ import annotations

import pytest

from tests.gateway.gateway_rig import DONE, ROLE, delta, event
from tpuflex.gateway import sse
from tpuflex.gateway.sse import StreamedAnswer, TooLongError, Usage

USAGE = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 2})
STREAM = (ROLE, delta(content="a \N{EURO SIGN}"), delta("stop", content=""), USAGE, DONE)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_what_is_handed_on_is_what_came(size: int, line_end: bytes) -> None:
    """In pieces of any size, with any line ends."""
    stream = b"".join(STREAM).replace(b"\n", line_end)
    answer = StreamedAnswer(hand_on_usage=True)

    handed_on = b"".join(
        answer.take(stream[begin : begin + size]) for begin in range(0, len(stream), size)
    )

    # Of CR LF as the last line end, LF may come after the end.
    assert handed_on.removesuffix(b"\n") == stream.removesuffix(b"\n")
    assert answer.done
    assert answer.error is None
    assert answer.usage == Usage(7, 2)


def test_the_usage_is_for_those_who_ask() -> None:
    """An event with nothing else is kept back; one with content is not."""
    answer = StreamedAnswer(hand_on_usage=False)
    last = event(
        choices=[{"delta": {}, "finish_reason": "stop"}],
        usage={"prompt_tokens": 7, "completion_tokens": 3},
    )

    assert answer.take(ROLE + USAGE + last + DONE) == ROLE + last + DONE
    assert answer.usage == Usage(7, 3)


def test_the_usage_is_found_behind_events_that_have_none() -> None:
    """Servers that write null for it in every event, which come together."""
    answer = StreamedAnswer(hand_on_usage=False)
    piece = event(choices=[{"delta": {"content": "a"}}], usage=None)
    answer.take(piece)

    assert answer.take(piece + USAGE) == piece
    assert answer.usage == Usage(7, 2)


@pytest.mark.parametrize("tokens", [10**400, -1, 2.0, True, None])
def test_a_usage_that_is_no_count_is_none(tokens: object) -> None:
    document = {"usage": {"prompt_tokens": 7, "completion_tokens": tokens}}

    assert Usage.of(document) is None


def test_tokens_that_came_in_one_event_are_counted() -> None:
    """A server whose reader is slow puts many into one; no token is shorter than a byte."""
    answer = StreamedAnswer(hand_on_usage=False)
    for text in ("a", "b", "c" * 1000, "d"):
        answer.take(delta(content=text))

    assert 1003 <= answer.most_tokens <= 1010


@pytest.mark.parametrize(
    ("said", "begun"),
    [
        ({"role": "assistant", "content": ""}, False),
        ({"role": "assistant", "content": None, "reasoning": None}, False),
        ({}, False),
        ({"content": "a"}, True),
        ({"reasoning": "a"}, True),
        ({"reasoning_content": "a"}, True),
        ({"tool_calls": [{"index": 0}]}, True),
        ({"refusal": "no"}, True),
    ],
)
def test_an_answer_begins_with_what_was_generated(said: dict[str, object], begun: bool) -> None:
    """Content, reasoning or a tool call, and no role."""
    answer = StreamedAnswer(hand_on_usage=False)

    answer.take(delta(**said))

    assert answer.begun is begun


@pytest.mark.parametrize(
    ("choice", "begun"),
    [
        ({"index": 0, "text": "", "finish_reason": None}, False),
        ({"index": 0, "text": "a", "finish_reason": None}, True),
        ({"index": 0, "text": "", "finish_reason": "length"}, True),
        ({"index": 0, "delta": {}, "finish_reason": "stop"}, True),
        ({"index": 1, "delta": {"role": "assistant"}, "prompt_token_ids": [1]}, False),
    ],
)
def test_an_answer_may_begin_with_its_end(choice: dict[str, object], begun: bool) -> None:
    """A reason to finish is an answer, too."""
    answer = StreamedAnswer(hand_on_usage=False)

    answer.take(event(choices=[choice]))

    assert answer.begun is begun


@pytest.mark.parametrize(
    "error",
    [
        event(error={"message": "EngineCore encountered an issue", "code": 500}),
        event(object="error", message="older vLLM"),
        b"event: error\ndata: gone\n\n",
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_nothing_comes_after_an_error(error: bytes, together: bool) -> None:
    """vLLM sends `[DONE]` after an error, and a client would take it for a whole answer."""
    answer = StreamedAnswer(hand_on_usage=True)
    first = delta(content="a")
    pieces = [first + error + DONE] if together else [first, error, DONE]

    assert b"".join(map(answer.take, pieces)) == first
    assert answer.error == error.partition(b"data: ")[2].strip()
    assert not answer.done


def test_words_of_an_answer_are_no_signs() -> None:
    """A text about errors, usage and `[DONE]` is a text; so is usage that is null."""
    answer = StreamedAnswer(hand_on_usage=False)
    texts = ('{"error": 1}', "[DONE]", '"usage":{"prompt_tokens":1}', "usage", "data: [DONE]\n\n")
    said = [delta(content=text) for text in texts]
    said.append(event(choices=[{"delta": {"content": "a"}}], usage=None))

    assert b"".join(map(answer.take, said)) == b"".join(said)
    assert not answer.ended
    assert answer.usage is None
    assert answer.events == len(said)


def test_comments_are_handed_on() -> None:
    """A server keeps connections alive by comments, before the first content, too."""
    answer = StreamedAnswer(hand_on_usage=False)

    assert answer.take(b": ping\n\n") == b": ping\n\n"
    assert not answer.begun
    assert answer.take(delta(content="a") + b": ping\n\n").endswith(b": ping\n\n")


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, whatever an upstream sends."""
    monkeypatch.setattr(sse, "MOST_BYTES", 100)
    answer = StreamedAnswer(hand_on_usage=False)
    answer.take(b"data: " + 90 * b"x")

    with pytest.raises(TooLongError):
        answer.take(10 * b"x")
