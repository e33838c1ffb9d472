"""The modules that the build of the engine changes, as far as the changes look at them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tpuflex.engine.build import LOCK
from tpuflex.engine.changed_module import Change, locked_version
from tpuflex.engine.late_tables import MODULES
from tpuflex.engine.listeners import CHANGES, SDK

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells whose a connection is"
)

UTIL = "go/common/util"


def published_modules(cache: Path) -> None:
    """A cache of modules with those that are changed."""
    for module in (SDK, *MODULES):
        directory = cache / f"{module}@{locked_version(module, LOCK / 'go.mod')}"
        if module == SDK:
            published_sdk(directory)
        else:
            published(directory, MODULES[module])


def published_sdk(root: Path) -> None:
    """An SDK of which only what is changed is there."""
    published(root / UTIL, CHANGES)


def published(root: Path, changes: Iterable[Change]) -> None:
    """A module of which only what is changed is there."""
    for change in changes:
        file = root / change.file
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(f"// A comment.\n\npackage {file.parent.name}\n\n")
        file.write_text(file.read_text() + f"{change.old}\n")
