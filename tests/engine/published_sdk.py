"""What the build of the engine changes in Pulumi's SDK, as far as the changes look at it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tpuflex.engine.listeners import CHANGES

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells whose a connection is"
)

UTIL = "go/common/util"


def published_sdk(root: Path) -> None:
    """An SDK of which only what is changed is there."""
    for change in CHANGES:
        file = root / UTIL / change.file
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(f"// A comment.\n\npackage {file.parent.name}\n\n")
        file.write_text(file.read_text() + f"{change.old}\n")
