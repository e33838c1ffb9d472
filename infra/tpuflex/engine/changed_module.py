"""A Go module that is changed before the engine is built with it.

It is downloaded by the lock, which compares its checksum, and copied: Go has an ``-overlay`` for
this, but not for files of its module cache.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tpuflex.errors import EngineError


@dataclass(frozen=True, slots=True)
class Change:
    """What is written in place of what, exactly once, in a file of a module."""

    file: str
    old: str
    new: str


def locked_version(module: str, lock: Path) -> str:
    """The version of ``module`` in the ``go.mod`` at ``lock``.

    Raises:
        EngineError: it is not there.
    """
    found = re.search(rf"^\s*{re.escape(module)} (\S+)", lock.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise EngineError(
            f"{lock} has no {module}, which is changed.", hint="Take its changes out of the table."
        )
    return found[1]


def copy_module(module: str, version: str, modules: Path, target: Path) -> None:
    """Copy a module from the cache ``modules`` to ``target``.

    Raises:
        EngineError: it cannot be copied.
    """
    try:
        shutil.copytree(modules / f"{module}@{version}", target)
    except (OSError, shutil.Error) as error:
        raise EngineError(f"{module} cannot be copied: {error}.") from error
    if not (target / "go.mod").exists():
        # As Go does for one that is older than modules are.
        (target / "go.mod").write_text(f"module {module}\n", "utf-8")


def change(module: str, directory: Path, changes: Iterable[Change], hint: str) -> list[Path]:
    """Make ``changes`` in a copy of ``module``; the files that were changed.

    Raises:
        EngineError: with ``hint``: it is not the one that they are for.
    """
    files = []
    for each in changes:
        file = directory / each.file
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise EngineError(
                f"{module} has no {each.file}: {error.strerror}.", hint=hint
            ) from error
        if (count := text.count(each.old)) != 1:
            begins = each.old.strip().splitlines()[0]
            raise EngineError(
                f"{each.file} of {module} has {count} times, not once, what begins `{begins}`.",
                hint=hint,
            )
        file.write_text(text.replace(each.old, each.new), "utf-8")
        files.append(file)
    return list(dict.fromkeys(files))
