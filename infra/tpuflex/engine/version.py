"""Versions of the Pulumi engine and of Go: what is read, and what is enough."""

from __future__ import annotations

import re

#: The engine version that is built, cached and tested (D10: known to be obtainable as a module).
ENGINE_VERSION = "3.256.0"

#: The oldest engine taken from PATH: event stream over gRPC, inline programs for destroy.
MINIMUM_ENGINE = (3, 230, 0)

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
