"""A request is given up when everything must stop; else it is as if it were sent directly."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
import requests

from tpuflex.errors import InterruptedByUser
from tpuflex.google.interruptible import InterruptibleSession


@dataclass
class SilentSession:
    """Answers once it is told to, and as it is told to."""

    answer: requests.Response | Exception = field(default_factory=requests.Response)
    may: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    told: list[str] = field(default_factory=list)

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: tuple[float, float],
        allow_redirects: bool,
    ) -> requests.Response:
        """Wait, then answer."""
        self.told.append(
            f"{method} {url} {dict(params)} {data!r} {headers} {timeout} {allow_redirects}"
        )
        self.asked.set()
        self.may.wait(20)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def refresh_token(self) -> None:
        """Wait, then be done."""
        self.asked.set()
        self.may.wait(20)


@pytest.fixture
def silent() -> Iterator[SilentSession]:
    session = SilentSession()
    yield session
    session.may.set()


def get(session: InterruptibleSession) -> requests.Response:
    return session.request(
        "GET",
        "https://tpu/v2?secret=x",
        params={"a": "b"},
        data=b"d",
        headers={},
        timeout=(1, 2),
        allow_redirects=False,
    )


def test_an_answer_and_a_failure_come_through(silent: SilentSession) -> None:
    """As from the session itself, with everything that was asked."""
    silent.may.set()
    session = InterruptibleSession(silent, stopped=lambda: False)
    assert get(session) is silent.answer
    assert silent.told == ["GET https://tpu/v2?secret=x {'a': 'b'} b'd' {} (1, 2) False"]
    session.refresh_token()

    silent.answer = requests.ConnectionError("gone")
    with pytest.raises(requests.ConnectionError, match="gone"):
        get(session)


def test_a_silent_connection_ends_when_everything_must_stop(silent: SilentSession) -> None:
    """Long before the read timeout, and without the query in the text."""
    session = InterruptibleSession(silent, stopped=silent.asked.is_set, grace=0)
    with pytest.raises(InterruptedByUser, match=r"waiting for GET https://tpu/v2$"):
        get(session)
    with pytest.raises(InterruptedByUser, match="a new access token"):
        session.refresh_token()


def test_an_answer_that_comes_at_once_is_taken_even_then(silent: SilentSession) -> None:
    """What was done is better known than not: an answer has a moment to come."""
    session = InterruptibleSession(silent, stopped=silent.may.is_set)
    threading.Timer(0.05, silent.may.set).start()
    assert get(session) is silent.answer
