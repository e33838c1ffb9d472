"""Run by vLLM's interpreter: import vLLM once, then fork one server after the other.

A server of its own would be four processes that each import vLLM, which takes eight seconds of a
processor: the API server, the engine, its worker, and one that looks at the model's class. Forks of
one process that has imported all of it run the same code.

A line of stdin is the arguments of a server as a JSON list. The server leads a process group, and
says `PID <its id>` before all else; `ENDED` follows when the whole group has ended. The arguments
of the command are the architectures of the models.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import multiprocessing
import os
import runpy
import sys
from multiprocessing import resource_tracker

_SERVER = "vllm.entrypoints.openai.api_server"
#: What the server's processes import while they start.
_LATER = (
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker",
)
#: Of <linux/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Fork servers until stdin ends."""
    for module in _LATER:
        importlib.import_module(module)
    registry = importlib.import_module("vllm").ModelRegistry
    for architecture in sys.argv[1:]:
        # vLLM looks at a class that is registered where it is, else in a process that imports it.
        registry.register_model(architecture, registry.models[architecture].load_model_cls())
    # On a CPU vLLM asks for `spawn`, to bind the threads of OpenMP: a matter of speed.
    fork = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda _method=None: fork  # type: ignore[assignment]
    # Unlinks the shared memory of a worker that was killed; one of the server's is killed with it.
    resource_tracker.ensure_running()
    # A worker whose engine has ended becomes our child, and is waited for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        if (leader := os.fork()) == 0:
            os.setpgid(0, 0)
            _serve(json.loads(line))
        os.setpgid(leader, leader)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-leader, 0)
        print("\nENDED", flush=True)


def _serve(arguments: list[str]) -> None:
    """Be a server, as ``python -m`` makes one."""
    print("PID", os.getpid(), flush=True)
    sys.argv[1:] = arguments
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
