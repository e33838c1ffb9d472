"""The access log: a line for each request, whatever the disk does."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.test_counters import GOOD, REFUSED
from tpuflex.errors import AccessError
from tpuflex.gateway.access_log import AccessLog, open_access_log


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(each) for each in path.read_text().splitlines()]


def test_a_line_for_each_request(tmp_path: Path) -> None:
    """With what became of it, in a file that only this user can read."""
    with open_access_log("access.jsonl", tmp_path, 1) as log:
        assert log is not None
        log.ended(replace(GOOD, seconds=1.23456789))
        log.ended(REFUSED)
    first, second = lines(tmp_path / "access.jsonl")

    assert first["time"]
    assert {**first, "time": None} == {
        "time": None,
        "id": "1",
        "client": "mobile",
        "request_class": "interactive",
        "model": "served",
        "upstream": "prod/prod-g7",
        "pool": 0,
        "status": 200,
        "reason": None,
        "streamed": True,
        "moved": None,
        "waited_s": 0.2,
        "first_token_s": 0.8,
        "seconds": 1.2346,
        "prompt_tokens": 7,
        "generated_tokens": 3,
        "cached": False,
    }
    assert (second["status"], second["reason"]) == (503, "overloaded")
    assert (tmp_path / "access.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    """As by logrotate, which need not tell the gateway."""
    path, written = tmp_path / "access.jsonl", threading.Event()
    with open_access_log(path.name, tmp_path, 1) as log:
        assert log is not None
        log.ended(GOOD)
        while not path.read_bytes():
            written.wait(0.01)
        path.rename(tmp_path / "access.jsonl.1")
        log.ended(REFUSED)

    assert [each["status"] for each in lines(tmp_path / "access.jsonl.1")] == [200]
    assert [each["status"] for each in lines(path)] == [503]


def test_what_is_not_taken_is_dropped_and_said() -> None:
    """A disk that hangs holds up nothing, and memory has an end; then the log says how many are
    not there."""
    hangs, goes_on = threading.Event(), threading.Event()
    written: list[bytes] = []

    def write(data: bytes) -> None:
        hangs.set()
        goes_on.wait()
        if not written:
            written.append(b"")
            raise OSError("the disk is full")
        written.append(data)

    log = AccessLog(write)
    with log.writing():
        log.ended(GOOD)
        hangs.wait()
        for _ in range(10_100):
            log.ended(REFUSED)
        assert log.dropped == 100
        goes_on.set()
    found = [json.loads(each) for each in b"".join(written).splitlines()]

    assert log.dropped == 101
    assert sum("status" in each for each in found) == 10_000
    assert [each["dropped"] for each in found if "dropped" in each] == [101]


def test_standard_output_as_a_log(tmp_path: Path) -> None:
    """For a container whose output is collected."""
    path = tmp_path / "stdout"
    with path.open("wb") as file, open_access_log("-", tmp_path, file.fileno()) as log:
        assert log is not None
        log.ended(GOOD)

    assert [each["status"] for each in lines(path)] == [200]


def test_without_a_name_there_is_none(tmp_path: Path) -> None:
    """And nothing is made."""
    with open_access_log(None, tmp_path, 1) as log:
        assert log is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["no/such/folder.jsonl", "."])
def test_a_file_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    """It is said at the start, before a request comes."""
    with (
        pytest.raises(AccessError, match=r"access log .* cannot be written"),
        open_access_log(name, tmp_path, 1),
    ):
        pass
