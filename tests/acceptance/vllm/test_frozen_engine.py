"""A real vLLM whose engine stands still, behind the guard of the startup script."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
import requests

from tests.security.vllm_host import VllmHost, boot, image_is_installed
from tests.startup.cloud import API_KEY
from tpuflex.measure.server import ServerClient
from tpuflex.measure.verify import Verification, examine

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmHost]:
    """A host that serves."""
    found = boot(tmp_path_factory.mktemp("vllm"))
    yield found
    found.stop()


@contextmanager
def frozen(host: VllmHost) -> Iterator[int]:
    """Stop the engine and its workers; how many processes that are. The API server goes on."""
    processes = [psutil.Process(int(path.name)) for path in host.processes()]
    engines = [each for each in processes if "VLLM::" in "".join(each.cmdline())]
    for each in engines:
        each.send_signal(signal.SIGSTOP)
    try:
        yield len(engines)
    finally:
        for each in engines:
            each.send_signal(signal.SIGCONT)


def test_a_frozen_engine_is_not_verified(host: VllmHost) -> None:
    """Its /health answers 200 and no token comes: `verify` fails, in bounded time, by its tokens
    alone; and holds again once the engine goes on."""
    server = ServerClient(
        f"http://127.0.0.1:{host.port}/v1", "direct", "tiny", API_KEY, requests.Session()
    )

    def verified() -> Verification:
        return examine(server, "dev", lambda _version: "")

    assert verified().exit_code == 0
    with frozen(host) as processes:
        stopped = verified()

    assert processes >= 2
    assert stopped.exit_code == 7
    assert {each.name: each.text for each in stopped.checks if each.problem} == {
        "completion": "/health answers 200, and no token came within 10 s",
        "tokens move": "the engine counted none meanwhile",
    }
    assert verified().exit_code == 0
