"""The files of a new project, beside its stack files: texts by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tpuflex.errors import TpuflexError
from tpuflex.naming import slug

#: Directory of the stack files (``stackConfigDir``), and of the schema for editors.
STACKS = "stacks"
SCHEMA_FILE = "stack.schema.json"
IGNORE_FILE = ".gitignore"
#: Where this repository keeps that schema.
_DOCS_SCHEMA = "docs/stack.schema.json"
#: Name of a project or a stack, as Pulumi takes it
#: (https://www.pulumi.com/docs/iac/concepts/projects/, and tokens.StackName in its sources).
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

_MANIFEST = """\
# `tpuflex up` and plain `pulumi up` work on the same state. Plain `pulumi` finds Python and the
# provider on PATH: activate the environment that tpuflex is installed in.
name: {name}
description: A private vLLM endpoint on Cloud TPU Flex-start capacity
runtime: python
stackConfigDir: {stacks}
"""
_PROGRAM = '''\
"""The Pulumi program: read the stack file, deploy the endpoint.

Plain `pulumi` runs this file; `tpuflex` runs the same program without it.
"""

from tpuflex.program import main

main()
'''
#: State, engine and embedded cloud; downloaded weights; the virtual environment, if it is here.
_IGNORED = ".tpuflex/\nmodels/\n.venv/\n__pycache__/\n"


def project_name(directory: str) -> str:
    """A project name made of the name of its directory."""
    return slug(directory)[:100].rstrip("-")


def schema_of(root: Path, stacks: Path) -> str | None:
    """The schema for editors that stack files in ``stacks`` can name: a path from there; None if
    the project in ``root`` has none."""
    if stacks.parent == root and (root / _DOCS_SCHEMA).is_file():
        return f"../{_DOCS_SCHEMA}"
    return SCHEMA_FILE if (stacks / SCHEMA_FILE).is_file() else None


def project_files(name: str) -> dict[str, str]:
    """The texts of a new project's files by their paths, without its stack files."""
    return {
        "Pulumi.yaml": _MANIFEST.format(name=name, stacks=STACKS),
        "__main__.py": _PROGRAM,
        IGNORE_FILE: _IGNORED,
    }


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
    require_free(root, files)
    written: list[Path] = []
    try:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as new:
                written.append(file)
                new.write(text)
    except FileExistsError as error:  # made by another since
        _remove(written)
        raise _in_the_way(file) from error
    except BaseException:  # Ctrl-C, a full disk: no half of a project is left
        _remove(written)
        raise
    return tuple(files)


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink()


def require_free(root: Path, files: Iterable[Path]) -> None:
    """Refuse to write ``files`` below ``root`` over others, or outside of it.

    Raises:
        TpuflexError: one of them is there already, or would lie outside.
    """
    for file in files:
        require_inside(file, root)
        if file.exists() or file.is_symlink():
            raise _in_the_way(file)


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
