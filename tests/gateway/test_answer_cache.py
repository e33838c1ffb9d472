"""Answers that were given before."""

from __future__ import annotations

from typing import Any

import pytest

from tpuflex.gateway.answer_cache import AnswerCache, CachedAnswer, cache_key
from tpuflex.gateway.door import with_sampling
from tpuflex.settings.gateway import BUILTIN_CLASSES

CHAT = "/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "é"}], "temperature": 0}


def answer(size: int = 1) -> CachedAnswer:
    return CachedAnswer(b"x" * size, "application/json")


def key(number: int) -> bytes:
    return number.to_bytes(32)


@pytest.mark.parametrize(
    "document",
    [
        {**ASKED, "stream": True},
        {**ASKED, "temperature": 0.1},
        {**ASKED, "temperature": None},
        {"model": "m"},
    ],
)
def test_only_what_is_at_temperature_0_and_not_streamed_is_kept(document: dict[str, Any]) -> None:
    assert cache_key("a", CHAT, document) is None


def test_identical_requests_of_one_client_have_one_key_and_no_others_do() -> None:
    same = [
        cache_key("a", CHAT, ASKED),
        cache_key("a", CHAT, dict(reversed(ASKED.items()))),
    ]
    others = [
        cache_key("b", CHAT, ASKED),
        cache_key("a", "/v1/completions", ASKED),
        cache_key("a", CHAT, {**ASKED, "seed": 1}),
        cache_key("a", CHAT, {**ASKED, "model": "n"}),
        cache_key("a", CHAT, {**ASKED, "messages": [{"role": "user", "content": "e"}]}),
    ]

    assert len(set(same)) == 1
    assert len({same[0], *others}) == 6
    assert None not in others


def test_a_class_at_temperature_0_is_enough() -> None:
    document = with_sampling({"model": "m"}, BUILTIN_CLASSES["extraction"].sampling)

    assert cache_key("a", CHAT, document) is not None


def test_an_answer_is_kept_for_an_hour() -> None:
    cache = AnswerCache()
    cache.keep(key(1), answer(), 0)

    assert cache.find(key(2), 0) is None
    assert cache.find(key(1), 3599) == answer()
    assert cache.find(key(1), 3600) is None


def test_the_answers_that_were_asked_for_last_are_kept_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tpuflex.gateway.answer_cache._MOST_BYTES", 100)
    monkeypatch.setattr("tpuflex.gateway.answer_cache._MOST_ANSWERS", 4)
    monkeypatch.setattr("tpuflex.gateway.answer_cache._LONGEST", 60)
    cache = AnswerCache()

    def kept() -> list[int]:
        return [number for number in range(10) if cache.find(key(number), 0)]

    for number in range(5):
        cache.keep(key(number), answer(10), 0)
    assert kept() == [1, 2, 3, 4]
    cache.find(key(1), 0)
    cache.keep(key(5), answer(60), 0)
    cache.keep(key(6), answer(61), 0)  # too long for itself
    assert kept() == [1, 3, 4, 5]
    cache.keep(key(5), answer(50), 0)  # instead of the one before
    cache.keep(key(7), answer(60), 0)
    assert kept() == [7]
