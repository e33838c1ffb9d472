"""A shell in which a user types tpuflex as it was installed."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.wheel.installed import Installed


@dataclass(frozen=True)
class Shell:
    """A project directory of its own, and the tpuflex of a wheel as a command in it."""

    installed: Installed
    project: Path
    home: Path
    environ: dict[str, str]
    private: bool

    def run(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.installed.environment / "bin" / "tpuflex", *arguments],
            cwd=self.project,
            env=self.environ,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        if check:
            assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
        with (self.project / "typed.log").open("a") as log:
            log.write(done.stdout + done.stderr)
        return done

    def json(self, *arguments: str) -> dict[str, Any]:
        document = json.loads(self.run("--json", *arguments).stdout)
        assert isinstance(document, dict)
        return document


@contextmanager
def reached(shell: Shell, endpoint: str) -> Iterator[str]:
    """The endpoint as it is called from here: through `tpuflex tunnel` if it is private."""
    if not shell.private:
        yield endpoint
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(shell.installed.environment / "bin" / "tpuflex"), "tunnel", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=shell.project, env=shell.environ, stdin=subprocess.DEVNULL
    )
    try:
        while True:
            assert process.poll() is None
            with suppress(requests.ConnectionError):
                requests.get(f"http://127.0.0.1:{port}/health", timeout=60)
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)
