"""The blocks of commands in README, and a shell to type them in."""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.engine.embedded import ROOT


def commands(after: str) -> list[str]:
    """The commands of the first block behind the text ``after``, without their comments."""
    text = (ROOT / "README.md").read_text().partition(after)[2]
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = block[1].replace("\\\n", "").splitlines()
    return [" ".join(line.partition(" #")[0].split()) for line in lines]


def write_weights(directory: Path) -> None:
    """A checkpoint of a few bytes, in place of what is downloaded."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text('{"model_type": "llama"}')
    header = b"{}"
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


@dataclass
class Shell:
    """A shell in a fresh clone.

    Attributes:
        root: its directory.
        environ: its variables.
        said: what the last line printed on standard error.
    """

    root: Path
    environ: dict[str, str]
    said: str = ""

    def type(self, line: str) -> str:
        """Type ``line``, which succeeds; returns what it prints on standard output."""
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{line}:\n{done.stdout}\n{done.stderr}"
        self.said = done.stderr
        return done.stdout

    def enter(self, line: str) -> None:
        """Take over the variables that ``line`` sets."""
        lines = self.type(f"{line}; env -0").split("\0")
        self.environ = dict(line.split("=", 1) for line in lines if "=" in line)
