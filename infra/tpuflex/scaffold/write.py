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
        TpuflexError: one of them is there already, or would lie outside of ``root`` (by
            ``stackConfigDir``, or through a link); then none is written.
        OSError: a file cannot be written.
    """
    files = {root / path: text for path, text in texts.items()}
    for file in files:
        require_inside(file, root)
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


def require_inside(path: Path, root: Path) -> None:
    """Refuse a place to which ``stackConfigDir`` of a checkout, or a link in it, leads.

    Raises:
        TpuflexError: ``path`` is outside of ``root``.
    """
    if not path.resolve().is_relative_to(root.resolve()):
        raise TpuflexError(
            f"{path} is outside of the project {root}, and tpuflex writes no stack there.",
            hint="Write a directory of the project at stackConfigDir in Pulumi.yaml.",
        )


def _in_the_way(file: Path) -> TpuflexError:
    return TpuflexError(
        f"There is a file {file} already, and `tpuflex init` changes none.",
        hint="Take another name (--stack), another directory, or move the file away.",
    )
