"""Install the serving image's packages and report how far it is."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from embedded_cloud.installer_output import InstallerOutput
from embedded_cloud.locked_install import Installer, forget_lock, installers
from tpuflex.errors import EmulatorError
from tpuflex.trusted_files import child_environment

_UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|Name or service not known|Temporary failure in name|"
    r"Could not fetch URL|ConnectionError|Max retries exceeded|Network is unreachable"
)
#: Where sources lie that a server of a small Llama on a CPU does not import, nearly half of all:
#: compiling them beforehand costs time and helps nobody. One that is imported all the same is
#: compiled then. Found by the access times of a served image's .pyc files (2026-11-26).
_NEVER_SERVED = "|".join(
    (
        r"/tests?/",
        r"/benchmarks/",
        r"/site-packages/(anthropic|dns|fastapi_cloud_cli|fsspec|mcp|numba|pip|pygments|rich)/",
        r"/site-packages/(sentry_sdk|supervisor|typer)/",
        r"/huggingface_hub/(cli|inference)/",
        r"/numpy/(distutils|f2py)/",
        r"/openai/(resources|types/(admin|beta|live|realtime))/",
        r"/sympy/(combinatorics|physics|stats)/",
        r"/torch/(_vendor/quack|distributed/(checkpoint|elastic|pipelining))/",
        r"/torch/testing/_internal/(distributed/rpc|generated|opinfo)/",
        r"/transformers/(cli|exporters|pipelines)/",
        r"/transformers/models/(?!auto/|deepseek_v|gemma|gpt2/|llama/|qwen|t5/)\w+/",
        r"/vllm/distributed/kv_transfer/kv_connector/v1/\w+/",
        r"/vllm/model_executor/models/(?!__|adapters|config|deepseek|gemma|interfaces|laguna)"
        r"(?!llama|module|qwen|registry|utils|vision)",
        r"/vllm/models/(?!common/|deepseek_v4/)\w+/",
        r"/vllm/v1/kv_offload/tiering/",
    )
)
#: Seconds without output after which progress repeats what it is doing.
_QUIET = 5.0


def install(python: Path, lock: Path, total: int, progress: Callable[[str], None]) -> None:
    """Install and byte-compile, with a line to ``progress`` per large download and step.

    Args:
        python: interpreter of the virtual environment that is filled.
        lock: requirements file with hashes.
        total: how many distributions it names.
        progress: gets the lines.

    Raises:
        EmulatorError: neither uv nor pip could; the message holds the end of pip's output.
    """
    environ = {
        **child_environment(os.environ),
        # pip asks `rustc` for its version, and rustup's rustc then makes ~/.rustup.
        "RUSTUP_HOME": str(python.parents[1] / "rustup"),
    }
    said = ""
    for installer in installers(python, lock, environ):
        if said:
            why = said.splitlines()[-1].strip()
            progress(f"serving image: {installer.name} installs, because uv could not: {why}")
        output = InstallerOutput(total)
        code = _run(installer, output, progress)
        forget_lock(python)
        if code == 0:
            break
        said = output.end
    else:
        raise _failure(said)
    progress("serving image: compiling")
    compile_all = [str(python), "-P", "-m", "compileall", "-q", "-j", "0", "-x", _NEVER_SERVED]
    packages = next(python.parents[1].glob("lib/python*/site-packages"))
    # Some packages contain sources for other Pythons on purpose, so the exit code says nothing.
    subprocess.run([*compile_all, str(packages)], capture_output=True, check=False, umask=0o022)


def _run(installer: Installer, output: InstallerOutput, progress: Callable[[str], None]) -> int:
    """Run ``installer`` with its progress, and return its exit code."""
    with subprocess.Popen(
        installer.command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=installer.environment,
        umask=0o022,
    ) as process:
        try:
            for line in _lines(process.stdout):
                if line is None or output.take(line):
                    progress(f"serving image: {output.state}")
        except BaseException:
            process.kill()
            raise
    return process.returncode


def _failure(said: str) -> EmulatorError:
    if _UNREACHABLE.search(said):
        return EmulatorError(
            f"the package index cannot be reached to install the serving image:\n{said}",
            hint="Check the network and pip's settings (`pip config list`), then run it again.",
        )
    return EmulatorError(
        f"pip could not install the serving image:\n{said}",
        hint="Run it again; what was left unfinished is discarded.",
    )


def _lines(stream: IO[str] | None) -> Iterator[str | None]:
    """Lines of ``stream`` as they come, and None after every quiet period."""
    if stream is None:
        return
    lines: queue.Queue[str | None] = queue.Queue()

    def read(source: IO[str]) -> None:
        for line in source:
            lines.put(line.rstrip())
        lines.put(None)

    threading.Thread(target=read, args=(stream,), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_QUIET)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line
