"""Write the locks: every distribution with its version and the hashes of all its files.

``make lock`` runs it. A lock holds for Python 3.11 to 3.13 on Linux and macOS, and names no package
index: the one that is configured has to have the same files.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = "requirements/dev.lock"
#: Each lock, and what of pyproject.toml, or which other file, it is made of. Those after the first
#: agree with the first, except for environments of their own.
LOCKS = {
    FIRST: (
        *("--extra", "embedded", "--extra", "gateway", "--extra", "measure", "--extra", "mcp"),
        *("--group", "dev", "pyproject.toml"),
    ),
    "requirements/lowest.lock": (
        *("--resolution", "lowest-direct"),
        *("--extra", "embedded", "--extra", "gateway", "--extra", "measure", "--extra", "mcp"),
        *("--group", "test", "--group", "build", "pyproject.toml"),
    ),
    "requirements/run.lock": ("--extra", "embedded", "--group", "build", "pyproject.toml"),
    "requirements/install.lock": ("--group", "install"),
    "requirements/maintenance.lock": ("--group", "maintenance"),
    "requirements/release.lock": ("--group", "release"),
    "requirements/site.lock": ("--group", "site"),
    "infra/tpuflex/engine/lock/go.lock": ("--group", "go"),
    "requirements/recording.lock": ("--group", "recording"),
    "requirements/gateway-tools.lock": ("--group", "gateway-tools"),
    "requirements/litellm.lock": ("--group", "litellm"),
    "requirements/vllm-router.lock": ("--group", "vllm-router"),
    "requirements/policy-pack.lock": ("--group", "policy-pack"),
    "requirements/jax.lock": ("requirements/jax.in",),
}
ALONE = {
    FIRST,
    "requirements/litellm.lock",
    "requirements/lowest.lock",
    "requirements/policy-pack.lock",
}


def command(lock: str, chosen: tuple[str, ...], options: list[str]) -> list[str]:
    """The command that writes ``lock``."""
    agrees = () if lock in ALONE else ("--constraint", FIRST)
    return [
        *(str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--universal"),
        *("--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"),
        *(*agrees, *chosen, *options, "--output-file", lock),
    ]


if __name__ == "__main__":
    for name, groups in LOCKS.items():
        subprocess.run(command(name, groups, sys.argv[1:]), cwd=ROOT, check=True)
