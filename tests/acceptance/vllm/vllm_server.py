"""The real vLLM on the CPU, asked for nothing but what it says of its KV cache."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.security.vllm_host import vllm_python
from tpuflex.boot.config import serving_args
from tpuflex.settings.serving import ServingFlags

#: What the server logs once it answers.
_READY = "Application startup complete"
#: Seconds in which a server has to end by itself.
_PATIENCE_S = 60


@dataclass(frozen=True)
class VllmServers:
    """Servers that are started one after the other by `vllm_fork_server.py`.

    Attributes:
        commands: where it reads the arguments of the next one.
        log: what it and the servers print.
    """

    commands: IO[str]
    log: IO[str]

    def metrics_of(self, model: Path, flags: ServingFlags) -> str:
        """What ``/metrics`` says of a server that is started on ``model``, and then stopped. It
        makes the weights up, so that a config.json is enough.

        Args:
            model: directory of the checkpoint.
            flags: flags of the server.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        arguments = [
            *("--model", str(model), "--host", "127.0.0.1", "--port", port),
            *("--load-format", "dummy", "--skip-tokenizer-init"),
            *serving_args(flags, 1),
        ]
        print(json.dumps(arguments), file=self.commands, flush=True)
        lines = itertools.takewhile(lambda line: line != "ENDED\n", self.log)
        leader = int(_line_with("PID ", lines).split()[1])
        try:
            _line_with(_READY, lines)
            return _get(f"http://127.0.0.1:{port}/metrics")
        finally:
            _stop(leader, lines)


@contextlib.contextmanager
def vllm_servers(
    home: Path, architectures: Iterable[str], *, space_gib: int
) -> Iterator[VllmServers]:
    """What starts servers of models of ``architectures``.

    Args:
        home: their home directory.
        architectures: as config.json names them.
        space_gib: GiB of each server's KV cache (``VLLM_CPU_KVCACHE_SPACE``).
    """
    environment = {
        "PATH": os.defpath,
        "HOME": str(home),
        "VLLM_CPU_KVCACHE_SPACE": str(space_gib),
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",  # no pool of threads, which a fork would lack
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with subprocess.Popen(
        [
            str(vllm_python()),
            "-P",
            str(Path(__file__).with_name("vllm_fork_server.py")),
            *architectures,
        ],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield VllmServers(process.stdin, process.stdout)


def _line_with(text: str, lines: Iterable[str]) -> str:
    """The next line with ``text``."""
    tail: collections.deque[str] = collections.deque(maxlen=20)
    for line in lines:
        if text in line:
            return line
        tail.append(line)
    raise AssertionError(f"the server ended:\n{''.join(tail)}")


def _get(url: str) -> str:
    """The answer; the server listens a moment after it has logged that it has started."""
    with requests.Session() as session:
        patience = Retry(connect=10, backoff_factor=0.1)
        session.mount("http://127.0.0.1", HTTPAdapter(max_retries=patience))
        answer = session.get(url, timeout=60)
        answer.raise_for_status()
        return answer.text


def _stop(leader: int, lines: Iterable[str]) -> None:
    """End a server and its workers; its log is read to the end, so that none waits for us."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(leader, signal.SIGTERM)
    kill = threading.Timer(_PATIENCE_S, os.killpg, (leader, signal.SIGKILL))
    kill.start()
    try:
        collections.deque(lines, maxlen=0)
    finally:
        kill.cancel()
