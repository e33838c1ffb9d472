"""The Go toolchain on PATH, and versions as each tool writes them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex.files.trusted import child_environment

#: The Go version that the engine's modules ask for (the `go` line of `lock/go.mod`).
MINIMUM_GO = (1, 25, 11)

Version = tuple[int, int, int]

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> Version | None:
    """The first version number in ``text``: ``v3.256.0``, ``go1.26.8``, ``go1.27``."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def show_version(version: Version) -> str:
    """``(3, 256, 0)`` as ``3.256.0``."""
    return ".".join(str(part) for part in version)


@dataclass(frozen=True, slots=True)
class Go:
    """The Go toolchain on PATH.

    Attributes:
        path: the executable, or None when there is none.
        usable: whether it is new enough.
        described: what was found, in a few words.
    """

    path: Path | None
    usable: bool
    described: str


def find_go(environ: Mapping[str, str]) -> Go:
    """Look for Go on PATH, and whether it is new enough."""
    found = shutil.which("go", path=environ.get("PATH", ""))
    if found is None:
        return Go(None, False, "no Go on PATH")
    version = parse_version(_go_version(Path(found), environ))
    if version is None:
        return Go(Path(found), False, f"{found} does not say its version")
    if version < MINIMUM_GO:
        older = f"{found} is {show_version(version)}, older than {show_version(MINIMUM_GO)}"
        return Go(Path(found), False, older)
    return Go(Path(found), True, f"Go {show_version(version)} from {found}")


def _go_version(go: Path, environ: Mapping[str, str]) -> str:
    """What ``go version`` would print, read from the toolchain's VERSION file when it is there:
    running ``go`` at all writes telemetry into the user's home."""
    stated = go.resolve().parent.parent / "VERSION"
    if stated.is_file():
        return stated.read_text("utf-8", errors="replace").partition("\n")[0]
    local = {**child_environment(environ), "GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run(
            [go, "version"], env=local, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout
