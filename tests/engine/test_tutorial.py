"""The first part of docs/tutorial.md, typed word by word as a newcomer does, and what it shows.

Real are tpuflex, the engine, its provider and the embedded cloud. The cloud's hosts run nothing and
are READY at once, and one sentence answers for the server: with the real ones, the same commands
are typed by test_end_to_end.py. Questions are answered by `--yes`.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from embedded_cloud import daemon
from tests.docs.blocks import ROOT, Block, blocks
from tests.engine.readme_shell import Shell
from tpuflex.engine.find import Engine
from tpuflex.settings.model import PLACEHOLDER_PROJECT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

#: What asks before it goes on, in a terminal.
ASKS = ("tpuflex up", "tpuflex down", "tpuflex init --template")
ANSWER = "The capital of France is Paris."


class _Answers(BaseHTTPRequestHandler):
    """Answers as a server that is well, and knows one sentence."""

    def do_GET(self) -> None:
        self._send(b"{}")

    def do_POST(self) -> None:
        choice = {"index": 0, "finish_reason": "stop", "delta": {"content": ANSWER}}
        document = {"choices": [choice], "usage": {"completion_tokens": 8}}
        self._send(f"data: {json.dumps(document)}\n\ndata: [DONE]\n\n".encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(endpoint: str) -> Iterator[None]:
    """A server where the stack's endpoint is."""
    place = urlsplit(endpoint)
    server = ThreadingHTTPServer((str(place.hostname), place.port or 80), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def newcomer(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Shell]:
    """A shell in an empty directory, with tpuflex on PATH, and what is large already there."""
    root = tmp_path / "hello"
    home = root / ".tpuflex"
    home.mkdir(parents=True, mode=0o700)
    path = f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"
    if pulumi_engine.source == "path":
        path += f":{pulumi_engine.path.parent}"
    for cache in ("engine", "vllm", "models"):
        shared = ROOT / ".tpuflex" / cache
        shared.mkdir(parents=True, exist_ok=True)
        (home / cache).symlink_to(shared)
    state = home / "emulator"
    daemon.start(state, port=0, stub_hosts=True)
    try:
        yield Shell(root, {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"})
    finally:
        daemon.stop(state)
        shutil.rmtree(root)


def steps() -> list[tuple[list[str], str]]:
    """The lines of each block that is typed, and what the block of text after it shows."""
    tutorial = [block for block in blocks("sh", "text") if block.page == "docs/tutorial.md"]
    found = []
    for number, block in enumerate(tutorial):
        if block.language != "sh" or block.mark:
            continue
        after = tutorial[number + 1 : number + 2]
        shown = after[0].text if after and after[0].language == "text" else ""
        found.append((_lines(block), shown))
    return found


def _lines(block: Block) -> list[str]:
    return block.text.replace("\\\n", " ").splitlines()


def assert_shown(shown: str, printed: str, typed: str) -> None:
    """Every line of ``shown`` is printed, in this order; `…` stands for anything."""
    rest = printed
    for line in shown.splitlines():
        if line == "…":
            continue
        pattern = ".*?".join(re.escape(part) for part in line.split("…"))
        match = re.search(f"^{pattern}", rest, re.MULTILINE)
        assert match, f"{typed}\ndoes not show, or not there: {line}\n{printed}"
        rest = rest[match.end() :]


def test_the_tutorial(newcomer: Shell) -> None:
    """Each command of its first part and of the look at a stack for Google succeeds, in this
    order and without any other, and shows what the page says."""
    typed: list[str] = []
    with ExitStack() as server:
        for lines, shown in steps():
            printed = ""
            for line in lines:
                agreed = " --yes" if line.startswith(ASKS) else ""
                own = line.replace(PLACEHOLDER_PROJECT, "acme-prod-1")
                said = newcomer.type(f"{own}{agreed} 2>&1")
                printed += said
                typed.append(line)
                if line == "tpuflex up":
                    (endpoint,) = re.findall(r"^  endpoint +(http\S+)/v1$", said, re.MULTILINE)
                    server.enter_context(serving(endpoint))
                if line.startswith("tpuflex status"):
                    server.close()
            assert_shown(shown, printed, "\n".join(lines))

    assert len(typed) == 12, typed
