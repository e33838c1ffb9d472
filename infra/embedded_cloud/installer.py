"""Run pip for the serving image and report its progress."""

from __future__ import annotations

import collections
import os
import queue
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tpuflex.errors import EmulatorError
from tpuflex.trusted_files import child_environment

_DOWNLOADING = re.compile(r"\s*Downloading (\S+) \((.+)\)")
_UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|Name or service not known|Temporary failure in name|"
    r"Could not fetch URL|ConnectionError|Max retries exceeded|Network is unreachable"
)
#: Sources that no server imports, a quarter of all: they are not compiled beforehand.
_NEVER_SERVED = (
    r"/tests?/|/pip/|/transformers/models/\w+/"
    r"(modeling|modular|convert|(image_|video_)?processing|feature_extraction)_"
)
#: Seconds without output from pip after which progress repeats what it is doing.
_QUIET = 5.0


@dataclass(frozen=True, slots=True)
class PipRun:
    """One installation.

    Attributes:
        python: interpreter of the virtual environment that is filled.
        requirements: requirements file with hashes.
        total: how many distributions it names.
    """

    python: Path
    requirements: Path
    total: int

    def command(self) -> list[str]:
        """The pip command: nothing but the pinned wheels, checked by hash."""
        return [
            *(str(self.python), "-P", "-m", "pip", "install"),
            *("--no-deps", "--require-hashes", "--only-binary", ":all:"),
            # A cache would take as much disk again.
            *("--no-cache-dir", "--no-compile", "--no-input", "--disable-pip-version-check"),
            *("--progress-bar", "off", "-r", str(self.requirements)),
        ]


def run_pip(run: PipRun, progress: Callable[[str], None]) -> None:
    """Install and byte-compile, with a line to ``progress`` per large download and step.

    Raises:
        EmulatorError: pip failed; the message holds the end of its output.
    """
    tail: collections.deque[str] = collections.deque(maxlen=15)
    with subprocess.Popen(
        run.command(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # pip asks `rustc` for its version, and rustup's rustc then makes ~/.rustup.
        env={
            **child_environment(os.environ),
            "RUSTUP_HOME": str(run.python.parent.parent / "rustup"),
        },
        umask=0o022,
    ) as process:
        try:
            _follow(_lines(process.stdout), run.total, tail, progress)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _failure("\n".join(tail))
    progress("serving image: compiling")
    compile_all = [str(run.python), "-P", "-m", "compileall", "-q", "-j", "0", "-x", _NEVER_SERVED]
    packages = next(run.python.parents[1].glob("lib/python*/site-packages"))
    # Some packages contain sources for other Pythons on purpose, so the exit code says nothing.
    subprocess.run([*compile_all, str(packages)], capture_output=True, check=False, umask=0o022)


def _follow(
    lines: collections.abc.Iterable[str | None],
    total: int,
    tail: collections.deque[str],
    progress: Callable[[str], None],
) -> None:
    """Keep the end of pip's output in ``tail``, and say how far it is."""
    state = "asking the package index"
    done = 0
    for line in lines:
        if line is None:
            progress(f"serving image: {state}")
            continue
        tail.append(line)
        if download := _DOWNLOADING.match(line):
            done += 1
            name = download[1].rsplit("/", 1)[-1].split("-")[0]
            state = f"downloading {name}, {download[2]} ({done} of {total} packages)"
            if "MB" in download[2] or done % 25 == 0:
                progress(f"serving image: {state}")
        elif line.startswith("Installing collected packages"):
            state = f"unpacking {total} packages"
            progress(f"serving image: {state}")


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


def _lines(stream: IO[str] | None) -> collections.abc.Iterator[str | None]:
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
