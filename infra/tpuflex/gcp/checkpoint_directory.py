"""The files of a checkpoint's directory, and nothing that lies elsewhere.

A downloaded checkpoint is foreign: a symbolic link in it may point to any file that the user can
read, which a push would publish. So what is opened is a regular file within the directory; the
links of a Hugging Face cache, into the ``blobs`` beside its snapshots, are the one exception.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.errors import WeightsError

#: So many wrong files are named in one error.
_NAMED = 10
_HINT = "Name the directory that holds config.json and the *.safetensors files."


def checkpoint_files(directory: Path) -> tuple[str, ...]:
    """The paths below ``directory`` of all its files, with forward slashes, sorted; hidden ones
    are left out, they are caches and version control.

    Raises:
        WeightsError: there is no such directory, it holds no checkpoint or cannot be read, or
            something in it is no regular file of its own.
    """
    if not directory.is_dir():
        raise WeightsError(f"{directory} is not a directory", hint=_HINT)
    names = sorted(_names(directory))
    if not any(name.rpartition("/")[2] == "config.json" for name in names):
        raise WeightsError(f"{directory} is not a checkpoint: it holds no config.json", hint=_HINT)
    problems = [problem for name in names if (problem := _problem(directory, name))]
    if problems:
        more = f"\n  and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise WeightsError(
            f"{directory} holds what cannot be pushed:\n  " + "\n  ".join(problems[:_NAMED]) + more,
            hint="Remove it, or put a copy of what you mean in its place. Nothing was sent.",
        )
    return tuple(names)


def open_file(directory: Path, name: str) -> BinaryIO:
    """The file ``name`` of ``directory``, opened only if it still is a regular file of its own.

    Raises:
        WeightsError: it is not any more.
        OSError: it cannot be read.
    """
    problem = _problem(directory, name)
    if problem:
        raise WeightsError(f"{directory}: {problem}", hint="Leave the directory alone.")
    # What it was a moment ago it may not be now: no link is followed, and a pipe does not block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(os.path.realpath(directory / name), flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise WeightsError(f"{directory}: {name} is not a regular file any more")
    return file


def _names(directory: Path) -> Iterator[str]:
    """Everything in ``directory`` that is not a directory; links to directories, too."""

    def refuse(error: OSError) -> None:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error

    for folder, folders, files in os.walk(directory, onerror=refuse):
        where = Path(folder).relative_to(directory)
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            if not name.startswith(".") and name != MANIFEST_NAME:
                yield (where / name).as_posix()


def _problem(directory: Path, name: str) -> str:
    """What is wrong with the file ``name`` of ``directory``; empty if nothing is."""
    path = directory / name
    try:
        real = Path(os.path.realpath(path, strict=True))
        mode = real.stat().st_mode
    except OSError as error:
        return f"{name!r} leads nowhere ({error.strerror})"
    if stat.S_ISDIR(mode):
        return f"{name!r} is a link to a directory ({real})"
    if not any(real.is_relative_to(place) for place in _places(directory)):
        return f"{name!r} is a link to a file elsewhere ({real})"
    return "" if stat.S_ISREG(mode) else f"{name!r} is not a regular file"


def _places(directory: Path) -> tuple[Path, ...]:
    """Where the files of ``directory`` may lie: in it, and for a snapshot of a Hugging Face cache
    in the blobs beside the snapshots.

    https://huggingface.co/docs/huggingface_hub/guides/manage-cache
    """
    root = directory.resolve()
    return (root, root.parent.parent / "blobs") if root.parent.name == "snapshots" else (root,)
