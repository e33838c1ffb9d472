"""The real vLLM on the CPU, asked for nothing but what it says of its KV cache."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.security.vllm_host import vllm_python
from tpuflex.boot.config import serving_args
from tpuflex.settings.serving import ServingFlags

#: What the server logs once it answers.
_READY = "Application startup complete"


def metrics_of(model: Path, flags: ServingFlags, *, space_gib: int) -> str:
    """What ``/metrics`` says of a server that is started on ``model``, and then stopped. It makes
    the weights up, so that a config.json is enough.

    Args:
        model: directory of the checkpoint.
        flags: flags of the server.
        space_gib: GiB of its KV cache (``VLLM_CPU_KVCACHE_SPACE``).
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [
        *(str(vllm_python()), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--host", "127.0.0.1", "--port", port),
        *("--load-format", "dummy", "--skip-tokenizer-init"),
        *serving_args(flags, 1),
    ]
    environment = {
        "PATH": os.defpath,
        "HOME": str(model.parent),
        "VLLM_CPU_KVCACHE_SPACE": str(space_gib),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as server:
        try:
            _await_start(server)
            return _get(f"http://127.0.0.1:{port}/metrics")
        finally:
            _stop(server)


def _await_start(server: subprocess.Popen[str]) -> None:
    """Read the log until the server answers."""
    tail: collections.deque[str] = collections.deque(maxlen=20)
    for line in server.stdout or ():
        tail.append(line)
        if _READY in line:
            return
    raise AssertionError(f"the server ended:\n{''.join(tail)}")


def _get(url: str) -> str:
    """The answer; the server listens a moment after it has logged that it has started."""
    with requests.Session() as session:
        patience = Retry(connect=10, backoff_factor=0.1)
        session.mount("http://127.0.0.1", HTTPAdapter(max_retries=patience))
        answer = session.get(url, timeout=60)
        answer.raise_for_status()
        return answer.text


def _stop(server: subprocess.Popen[str]) -> None:
    """End the server and its workers; its log is read to the end, so that none waits for us."""
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.communicate(timeout=60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
