"""Files that are fetched in several requests: nothing is lost, nothing wrong is kept, and whoever
stops them does not wait for a server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.errors import ApiError, InterruptedByUser, WeightsError
from tpuflex.operate import resumed_download
from tpuflex.operate.resumed_download import Download, EmptyAnswer, fetch_all

CONTENT = bytes(range(200))
MOST = 4


@dataclass
class Source:
    """Answers each request with so many of the bytes that were asked for, and may then break.

    Attributes:
        answers: how many bytes an answer has, and whether the line breaks after them; the last one
            is given for ever.
        content: what it has.
        starts: what was asked for.
        failures: what each request that failed was told as, with the number in a row.
    """

    answers: list[tuple[int, bool]]
    content: bytes = CONTENT
    starts: list[int] = field(default_factory=list)
    failures: list[tuple[type[Exception], int]] = field(default_factory=list)

    @contextmanager
    def blocks(self, start: int) -> Iterator[Iterator[bytes]]:
        """One answer."""
        self.starts.append(start)
        count, breaks = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

        def content() -> Iterator[bytes]:
            yield from (bytes([each]) for each in self.content[start : start + count])
            if breaks:
                raise ConnectionError

        yield content()

    def failed(self, error: Exception, failures: int) -> None:
        """Have another request made, so often."""
        self.failures.append((type(error), failures))
        if failures >= MOST:
            raise ApiError("no more comes")

    def download(self, place: Path) -> Download:
        """What is fetched from it."""
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        wrong = WeightsError("another content")
        return Download(
            place, len(CONTENT), hashlib.sha256, sha256, self.blocks, self.failed, wrong
        )


def ignored(_count: int) -> None:
    """Progress that nobody looks at."""


def test_an_answer_without_content_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    """It is told as one, the next request asks for the same, and what has come stays."""
    source = Source([(150, False), (0, False), (0, True), (30, False), (0, False), (50, False)])
    fetch_all([source.download(tmp_path / "f")], ignored)
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert source.starts == [0, 150, 150, 150, 180, 180]
    assert source.failures == [(EmptyAnswer, 1), (ConnectionError, 2), (EmptyAnswer, 1)]


@given(
    before=st.integers(0, len(CONTENT)),
    answers=st.lists(st.tuples(st.integers(0, 120), st.booleans()), min_size=1, max_size=9),
)
def test_whatever_a_line_does_nothing_that_has_come_is_lost(
    tmp_path_factory: pytest.TempPathFactory, before: int, answers: list[tuple[int, bool]]
) -> None:
    """The file is whole, or what has come of it is kept, and another run brings the rest alone."""
    place = tmp_path_factory.mktemp("fetched") / "f"
    part = place.with_name("f.part")
    part.write_bytes(CONTENT[:before])
    source = Source(list(answers))
    try:
        fetch_all([source.download(place)], ignored)
    except ApiError:
        had = part.read_bytes()
        assert len(had) >= before
        assert CONTENT.startswith(had)
        source = Source([(len(CONTENT), False)])
        fetch_all([source.download(place)], ignored)
        assert source.starts == [len(had)]
    assert place.read_bytes() == CONTENT
    assert not part.exists()


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"x"])
def test_a_file_of_full_length_and_another_sum_is_removed(tmp_path: Path, content: bytes) -> None:
    """Going on with it could never end well: the next run fetches it anew."""
    source = Source([(len(content), False)], content)
    with pytest.raises(WeightsError, match="another content"):
        fetch_all([source.download(tmp_path / "f")], ignored)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stopped_by", [InterruptedByUser("enough"), KeyboardInterrupt()])
def test_a_source_that_sends_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: BaseException
) -> None:
    """Ctrl-C ends a download in the middle of an answer, also where it is a flag that progress
    looks at; what comes later is written no more."""
    monkeypatch.setattr(resumed_download, "_LOOK", 0.01)
    monkeypatch.setattr(resumed_download, "_GRACE", 0.01)
    asked, released, ended = Event(), Event(), Event()
    source = Source([(len(CONTENT), False)])

    @contextmanager
    def blocks(_start: int) -> Iterator[Iterator[bytes]]:
        def content() -> Iterator[bytes]:
            yield CONTENT[:10]
            asked.set()
            assert released.wait(60)
            yield CONTENT[10:]

        try:
            yield content()
        finally:
            ended.set()

    def arrived(count: int) -> None:
        if not count and asked.is_set():
            raise stopped_by

    monkeypatch.setattr(source, "blocks", blocks)
    with pytest.raises(type(stopped_by)):
        fetch_all([source.download(tmp_path / "f")], arrived)
    assert not ended.is_set()
    released.set()
    assert ended.wait(60)  # the request is ended
    assert (tmp_path / "f.part").stat().st_size <= 10
    assert not (tmp_path / "f").exists()
