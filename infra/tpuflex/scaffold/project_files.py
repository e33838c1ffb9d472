"""The files of a new project, beside its stack files: texts by path."""

from __future__ import annotations

import re
from pathlib import Path

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


def stack_path(stack: str) -> str:
    """Path of a stack file within a new project."""
    return f"{STACKS}/Pulumi.{stack}.yaml"


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
