"""What the watch does by itself, on a host that is told rather than asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import watch_host
from watch import Watch
from watch_host import Answer, Metadata
from watch_rules import deadline
from watch_state import Container, Limits, Server

_KEY = "2126-11-24T12:00:00Z"


class _EndError(Exception):
    """The end of a test's time."""


class _Host:
    """Clock, metadata server, server and docker of a host that serves; nothing runs on it."""

    ahead = 0.0

    def __init__(self, drain: str, closed: Callable[[], bool]) -> None:
        self.key, self.closed, self.at = drain, closed, 1000.0
        self.told: list[tuple[str, bool]] = []

    def now(self) -> float:
        return self.at

    def pause(self, seconds: float) -> None:
        self.at += seconds
        if self.at > 1020:
            raise _EndError

    def drain(self, _seconds: float = 0) -> str:
        return self.key

    def tell(self, document: dict[str, Any]) -> bool:
        self.told.append((document["phase"], self.closed()))
        return True

    def look(self) -> Server:
        return Server(steps=5)

    def container(self) -> Container:
        return Container("running")

    def write(self, *_words: str) -> None:
        return


@pytest.mark.parametrize(("key", "told"), [("", ("serving", False)), (_KEY, ("draining", True))])
def test_a_watch_that_starts_again_opens_what_need_not_be_closed(
    tmp_path: Path, key: str, told: tuple[str, bool]
) -> None:
    """One that ended in a drain has left the guard closed: its successor, to which the drain is
    over, does not say that a host serves which admits nothing."""
    assert not key or deadline(key)
    closed = tmp_path / "closed"
    closed.touch()
    host: Any = _Host(key, closed.exists)
    with pytest.raises(_EndError):
        Watch(host, host, host, host, host, closed, Limits(600, 1800)).run()
    assert set(host.told) == {told}


@pytest.mark.parametrize(
    ("ago_s", "is_asked"), [((3600,) * 10, True), ((-3600,) * 10, True), ((30,) * 10, False)]
)
def test_a_clock_that_went_back_silences_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ago_s: tuple[float, ...], *, is_asked: bool
) -> None:
    """Only the last minute's queries count; those of the future were made before the clock went."""
    monkeypatch.setattr(watch_host, "ask", lambda *_args, **_more: Answer(200))
    asked = tmp_path / "asked"
    asked.write_text("".join(f"{int((time.time() - ago) * 1000)}\n" for ago in ago_s))
    metadata = Metadata("http://127.0.0.1:9", asked, 10, time.time)
    assert metadata.tell({}) is is_asked
