"""What the watch does by itself, on a host that is told rather than asked."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import watch_host
import watch_server
from watch import Watch, boot_again
from watch_host import Answer, Asked, Metadata
from watch_log import Log
from watch_rules import parse_time
from watch_server import ModelServer, read_server
from watch_state import Container, Limits, Server

_KEY = "2126-11-24T12:00:00Z"


class _EndError(Exception):
    """The end of a test's time."""


class _Host:
    """Clock, metadata server, server and docker of a host that serves; nothing runs on it."""

    ahead = 0.0
    metrics = ""

    def __init__(self, drain: str, closed: Callable[[], bool]) -> None:
        self.key, self.closed, self.at = drain, closed, 1000.0
        self.told: list[tuple[str, bool]] = []

    def now(self) -> float:
        return self.at

    def pause(self, seconds: float) -> None:
        self.at += seconds
        if self.at > 1020:
            raise _EndError

    def asked_for(self, _seconds: float = 0) -> Asked:
        return Asked(self.key)

    def tell(self, document: dict[str, Any]) -> bool:
        self.told.append((document["phase"], self.closed()))
        return True

    def look(self) -> Server:
        return Server(steps=5)

    def container(self) -> Container:
        return Container("running")

    def write(self, *_words: object) -> None:
        return


@pytest.mark.parametrize(("key", "told"), [("", ("serving", False)), (_KEY, ("draining", True))])
def test_a_watch_that_starts_again_opens_what_need_not_be_closed(
    tmp_path: Path, key: str, told: tuple[str, bool]
) -> None:
    """One that ended in a drain has left the guard closed: its successor, to which the drain is
    over, does not say that a host serves which admits nothing."""
    assert not key or parse_time(key)
    closed = tmp_path / "closed"
    closed.touch()
    host: Any = _Host(key, closed.exists)
    with pytest.raises(_EndError):
        Watch(host, host, host, host, host, host, closed, "", Limits(600, 1800)).run()
    assert set(host.told) == {told}


def test_a_drain_waits_for_no_completion(tmp_path: Path) -> None:
    """A watch that began anew asks for one, which may take two minutes behind a long queue; who has
    set the key waits for its answer, and not for that."""
    closed = tmp_path / "closed"
    host: Any = _Host(_KEY, closed.exists)
    with pytest.raises(_EndError):
        Watch(host, host, host, host, host, host, closed, "", Limits(600, 1800), anew=True).run()
    assert {phase for phase, _ in host.told} == {"draining"}


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


@pytest.mark.parametrize(
    ("status", "text", "seen"),
    [
        (
            200,
            '{"tpuflex-drain": " 2126-01-01T00:00:00Z\\n", "other": "x"}',
            "2126-01-01T00:00:00Z",
        ),
        (200, '{"tpuflex-drain": " "}', " "),
        (200, '{"other": "x"}', ""),
        (200, '{"tpuflex-drain": {}}', _KEY),
        (200, "[]", _KEY),
        (200, "<html>", _KEY),
        (404, "", _KEY),
        (503, "", _KEY),
        (0, "", _KEY),
    ],
)
def test_a_key_holds_until_the_attributes_are_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, text: str, seen: str
) -> None:
    """What is no list of attributes neither begins nor ends a drain; one of blanks is a key."""
    answers = [Answer(200, json.dumps({"tpuflex-drain": _KEY})), Answer(status, text)]
    monkeypatch.setattr(watch_host, "ask", lambda *_args, **_more: answers.pop(0))
    metadata = Metadata("http://127.0.0.1:9", tmp_path / "asked", 10, time.time)
    assert metadata.asked_for() == Asked(_KEY)
    assert metadata.asked_for() == Asked(seen)


def test_less_than_a_second_is_not_waited_for_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata server knows whole seconds: a drain's next look would come later than it is
    due."""
    asked: list[str] = []

    def answer(url: str, *_args: object, **_more: object) -> Answer:
        asked.append(url)
        return Answer(200, "{}", "e1")

    monkeypatch.setattr(watch_host, "ask", answer)
    metadata = Metadata("http://127.0.0.1:9", tmp_path / "asked", 10, time.time)
    for _ in range(2):
        metadata.asked_for(0.5)
    assert not any("wait_for_change" in url for url in asked)


def test_who_refuses_to_wait_is_asked_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metadata server that refuses to wait, or does not come back from it, still tells the key at
    every second look."""
    asked: list[str] = []

    def answer(url: str, *_args: object, **_more: object) -> Answer:
        asked.append(url)
        waits = "wait_for_change=true" in url
        return Answer(503) if waits else Answer(200, json.dumps({"tpuflex-drain": _KEY}), "e1")

    monkeypatch.setattr(watch_host, "ask", answer)
    metadata = Metadata("http://127.0.0.1:9", tmp_path / "asked", 10, time.time)
    assert [metadata.asked_for(5) for _ in range(4)] == [Asked(_KEY)] * 4
    assert ["wait_for_change=true&last_etag=e1&timeout_sec=5" in url for url in asked] == [
        *(False, True, False, True)
    ]


@pytest.mark.parametrize(
    ("metrics", "requests", "seen"),
    [
        ("vllm:num_requests_running 3.0", '{"in_flight": 4}', Server(4, 3, 0)),
        (
            'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running 2',
            "{}",
            Server(0, 3),
        ),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 1e400", "{}", Server()),
        ("vllm:num_requests_running -5\nvllm:num_requests_waiting +Inf", "{}", Server()),
        ("vllm:iteration_tokens_total_count 7e3", '{"in_flight": 1e999}', Server(steps=7000.0)),
        ("vllm:iteration_tokens_total_count NaN", '{"in_flight": -1}', Server()),
        ("", '{"in_flight": true}', Server()),
        ("", '{"in_flight": ' + "9" * 5000 + "}", Server()),
        ("", "[" * 200_000, Server()),
        ("", "[]", Server()),
    ],
)
def test_what_a_server_says_is_a_count_or_nothing(
    metrics: str, requests: str, seen: Server
) -> None:
    """The container writes it, which runs what somebody else has trained: nothing that it says ends
    the watch, or passes for a number of requests."""
    assert read_server(metrics, requests) == seen


@pytest.mark.parametrize(
    "answer",
    [
        b"Content-Type: multipart/mixed; boundary*=a; boundary*0=b\r\nContent-Length: 2\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + b"x" * 100_000,
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    ],
)
def test_an_answer_that_cannot_be_read_is_none(tmp_path: Path, answer: bytes) -> None:
    """No header and no chunk of a server ends the watch, or fills its memory."""
    (tmp_path / "key").write_text("a-key\n")

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\n" + answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        seen = ModelServer(url, "", tmp_path / "key", "m").look()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()

    assert seen in (None, Server())


# pytest's own limit would use the alarm that is used here.
@pytest.mark.timeout(method="thread")
def test_an_answer_that_drips_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends a byte now and then, without an end, does not hold the watch."""
    monkeypatch.setattr(watch_server, "ANSWER_S", 0.3)
    (tmp_path / "key").write_text("a-key\n")
    done = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not done.wait(0.05):
                connection.sendall(b"X")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert ModelServer(url, "", tmp_path / "key", "m").look() is None
        done.set()
        thread.join()


def test_what_a_server_says_begins_no_line_of_the_log(tmp_path: Path) -> None:
    """A reason may have the server's last lines: none of them passes for a phase of the boot."""
    (tmp_path / "memory").mkdir()
    file = tmp_path / "startup.log"

    log = Log(tmp_path, file, "", lambda: "", lambda _: "")
    log.write("failed: it died: one\n2026-11-24T12:00:00Z phase READY", "ERROR")

    first, second = file.read_text().splitlines()
    assert first.endswith("watch: failed: it died: one")
    assert second == "  | 2026-11-24T12:00:00Z phase READY"


def test_clients_write_no_reason(tmp_path: Path) -> None:
    """What a stranger asks for stands in the server's log: none of it passes for the cause of its
    death."""
    said = "\n".join(
        (
            "RuntimeError: the true cause",
            '(APIServer pid=1) INFO:     10.0.0.9:4 - "GET /Error:%20call%20me HTTP/1.1" 401',
            "ERROR:    ASGI callable returned without completing handshake.",
        )
    )
    (tmp_path / "memory").mkdir()

    log = Log(tmp_path, tmp_path / "startup.log", "", lambda: "", lambda _: said)

    assert log.last_lines(1) == log.last_lines(15) == "RuntimeError: the true cause"


def test_a_restart_runs_the_script_of_this_boot(tmp_path: Path) -> None:
    """A restart runs the file that the boot has left, and does not ask the metadata server."""
    (tmp_path / "startup-script").write_text(f'echo "$TPUFLEX_RESTART" >{tmp_path}/ran')
    boot_again(tmp_path)
    assert (tmp_path / "ran").read_text() == "1\n"
