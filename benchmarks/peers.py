"""Other tools for TPUs, in environments of their own below .tpuflex/peers, made on demand.

Each runs with a home directory of its own, which begins empty: no account, no configuration. What
it would report of its use is switched off.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".tpuflex" / "peers"
_SERVER_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool of somebody else's.

    Attributes:
        name: its name on PyPI.
        version: the version that is compared.
        extras: optional parts that its commands need.
        program: what it is called on PATH.
    """

    name: str
    version: str
    program: str
    extras: str = ""

    @property
    def _environment(self) -> Path:
        return PLACE / f"{self.name}-{self.version}"

    @property
    def path(self) -> str:
        """Its program."""
        return str(self._environment / "bin" / self.program)

    @property
    def home(self) -> Path:
        """Its home directory."""
        return self._environment / "home"

    @property
    def environ(self) -> dict[str, str]:
        """Its environment."""
        return {
            "PATH": f"{self._environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        }

    def install(self) -> None:
        """Install it, unless it is there; its home is emptied."""
        if not Path(self.path).exists():
            print(f"Installing {self.name} {self.version}", file=sys.stderr)
            shutil.rmtree(self._environment, ignore_errors=True)
            subprocess.run([sys.executable, "-P", "-m", "venv", self._environment], check=True)
            pip = str(self._environment / "bin" / "pip")
            what = f"{self.name}{self.extras}=={self.version}"
            subprocess.run([pip, "install", "--quiet", what], check=True)
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it in its own home."""
        return subprocess.run(
            [self.path, *words],
            cwd=self.home,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )


DSTACK = Peer("dstack", "0.22.5", "dstack", "[server]")
SKYPILOT = Peer("skypilot", "0.14.1", "sky")
XPK = Peer("xpk", "1.16.0", "xpk")
TPU_RUNNER = Peer("tpu-runner", "0.1.12", "tpu-runner")
PEERS = (TPU_RUNNER, XPK, DSTACK, SKYPILOT)


@contextmanager
def dstack_server() -> Iterator[None]:
    """dstack's own server on loopback, which its command line asks; it has no back-end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    log = DSTACK.home / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [DSTACK.path, "server", "--host", "127.0.0.1", "--port", port],
            cwd=DSTACK.home,
            env=DSTACK.environ,
            stdout=output,
            stderr=output,
        )
        try:
            end = time.monotonic() + _SERVER_SECONDS
            while "is running" not in log.read_text():
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit(f"dstack's server does not come up:\n{log.read_text()}")
                time.sleep(0.5)
            yield
        finally:
            server.terminate()
            server.wait()


@contextmanager
def skypilot_server() -> Iterator[None]:
    """SkyPilot's own API server on loopback, which its command line starts and asks."""
    SKYPILOT.call("api", "start")
    try:
        yield
    finally:
        SKYPILOT.call("api", "stop")
