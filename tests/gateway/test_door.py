"""What is let in."""

from __future__ import annotations

import json

import pytest

from tpuflex.gateway.door import (
    COMPLETIONS,
    Ask,
    RejectedError,
    bearer_key,
    check_bounds,
    check_path,
    read_ask,
    request_id,
)
from tpuflex.settings.gateway import RequestLimits

CHAT, TEXT = COMPLETIONS
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


def ask(path: str = CHAT, **document: object) -> Ask:
    return read_ask(path, json.dumps({"model": "m", **document}).encode())


def refused(path: str, body: bytes) -> str:
    with pytest.raises(RejectedError) as caught:
        read_ask(path, body)
    assert caught.value.status == 400
    return str(caught.value)


def test_a_known_path_says_that_it_takes_another_method() -> None:
    """Which is not that there is no such path."""
    check_path("GET", "/v1/models")
    with pytest.raises(RejectedError) as caught:
        check_path("GET", CHAT)

    assert caught.value.status == 405


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/v1/models", "/v1/models?limit=5"])
def test_an_unknown_path_says_what_a_base_url_ends_with(path: str) -> None:
    """Libraries append the rest by themselves."""
    with pytest.raises(RejectedError, match=r"base URL ends with /v1") as caught:
        check_path("POST", path)

    assert caught.value.status == 404


@pytest.mark.parametrize(
    "headers", [[], ["Bearer "], ["key"], ["Basic a2V5"], ["Bearer a", "Bearer b"]]
)
def test_there_is_exactly_one_key(headers: list[str]) -> None:
    """Two headers are two answers to who asks."""
    with pytest.raises(RejectedError) as caught:
        bearer_key(headers)

    assert caught.value.status == 401
    assert bearer_key(["bearer a-key"]) == b"a-key"


@pytest.mark.parametrize(
    ("body", "about"),
    [
        (b"", "JSON"),
        (b"\xff", "JSON"),
        (b"[]", "object"),
        (b'{"model": NaN}', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"model": ' + b"1" * 5000 + b"}", "JSON"),
        (b'{"model": "m", "prompt": [' + b"[],[[]]," * 70_000 + b"0]}", "200,000"),
        (b'{"model": "m", "prompt": [' + b'"a",' * 300_000 + b"0]}", "200,000"),
        (b"{}", "`model`"),
        (b'{"model": ""}', "`model`"),
        (b'{"model": "m", "stream": 1}', "`stream`"),
        (b'{"model": "m", "stream_options": []}', "`stream_options`"),
        (b'{"model": "m", "priority": -1}', "`priority`"),
        (b'{"model": "m", "stop": "%s"}' % (65 * b"x"), "`stop`"),
        (b'{"model": "m", "stop": ["a", "%s"]}' % (65 * b"x"), "`stop`"),
        (b'{"model": "m", "stop": [%s"a"]}' % (64 * b'"a", '), "`stop`"),
        (b'{"model": "m", "n": -1}', "`n`"),
        (b'{"model": "m", "n": 1.5}', "`n`"),
        (b'{"model": "m", "max_tokens": "5"}', "`max_tokens`"),
        (b'{"model": "m", "max_completion_tokens": true}', "`max_completion_tokens`"),
    ],
)
def test_what_cannot_be_honoured_is_refused(body: bytes, about: str) -> None:
    """And the answer says what it was."""
    assert about in refused(CHAT, body)


def test_both_names_of_the_most_tokens_are_read_at_each_path() -> None:
    """A class that enforces its own most compares with them."""
    assert "`max_completion_tokens`" in refused(
        TEXT, b'{"model": "m", "prompt": "a", "max_completion_tokens": "5"}'
    )


def test_a_long_body_is_refused_for_its_values_and_not_for_its_texts() -> None:
    """However many brackets and commas, quotes and backslashes are in them; and tokens may be
    written as numbers."""
    text = 100_000 * '[{"a\\\\", 1}], \\'

    read = ask(messages=[{"role": "user", "content": text}], stop=["\n\nHuman:", None])
    assert read.document["messages"][0]["content"] == text
    assert ask(TEXT, prompt=list(range(131_072))).n == 1


@pytest.mark.parametrize(
    ("path", "document", "n", "tokens"),
    [
        (CHAT, {}, 1, None),
        (CHAT, {"max_tokens": 5}, 1, 5),
        (CHAT, {"max_tokens": 5, "max_completion_tokens": 7}, 1, 7),
        (CHAT, {"n": 3}, 3, None),
        (TEXT, {"prompt": "a"}, 1, 16),
        (TEXT, {"prompt": "a", "max_tokens": 0}, 1, 0),
        (TEXT, {"prompt": ["a", "b"], "n": 2}, 4, 16),
        (TEXT, {"prompt": [1, 2, 3]}, 1, 16),
        (TEXT, {"prompt": [[1, 2], [3]], "best_of": 5}, 10, 16),
    ],
)
def test_how_much_is_asked_for(
    path: str, document: dict[str, object], n: int, tokens: int | None
) -> None:
    """Every prompt of a list is answered, n times."""
    found = ask(path, **document)

    assert (found.n, found.max_tokens) == (n, tokens)


def test_one_request_asks_for_no_more_than_it_may() -> None:
    """Neither answers nor tokens."""
    limits = RequestLimits(n=2, max_tokens=100)
    check_bounds(ask(n=2, max_tokens=100), limits)
    for each in (ask(n=3), ask(max_tokens=101), ask(TEXT, prompt=["a", "b", "c"])):
        with pytest.raises(RejectedError):
            check_bounds(each, limits)


def test_a_prompt_has_no_more_tokens_than_bytes_where_it_is_text() -> None:
    """A picture's address is short, and the picture is not."""
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    words = {"type": "text", "text": "What is this?"}

    assert read_ask(CHAT, body := json.dumps(HELLO).encode()).prompt_bytes == len(body)
    assert ask(messages=[{"role": "user", "content": [words]}]).prompt_bytes is not None
    assert ask(messages=[{"role": "user", "content": [words, picture]}]).prompt_bytes is None
    assert ask(TEXT, prompt_embeds="AAAA").prompt_bytes is None


def test_a_request_keeps_its_name_if_it_can_stand_in_a_log() -> None:
    """Else it gets a new one."""
    assert request_id("a-1.b_2") == "a-1.b_2"
    made = {request_id(each) for each in (None, "", "a b", 'a"', 65 * "a", "a\n")}
    assert len(made) == 6
    assert made.isdisjoint({"", "a b"})
