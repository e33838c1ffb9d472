"""Write the files of a new project or a new stack; nothing that is there is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpuflex.errors import TpuflexError


def write_new(root: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write each text to its path below ``root``.

    Returns:
        The files, in the order given.

    Raises:
        TpuflexError: one of them is there already; then none is written.
        OSError: a file cannot be written.
    """
    files = {root / path: text for path, text in texts.items()}
    for file in files:
        if file.exists() or file.is_symlink():
            raise _in_the_way(file)
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x", encoding="utf-8") as new:
                new.write(text)
        except FileExistsError as error:  # made by another since
            raise _in_the_way(file) from error
    return tuple(files)


def _in_the_way(file: Path) -> TpuflexError:
    return TpuflexError(
        f"There is a file {file} already, and `tpuflex init` changes none.",
        hint="Take another name (--stack), another directory, or move the file away.",
    )
