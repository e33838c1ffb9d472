"""The metadata of a node: the startup script, its configuration, and how the host behaves."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tpuflex.boot.document import BootConfig
from tpuflex.catalog import environment
from tpuflex.errors import BootError
from tpuflex.host.report import CONFIG_KEY

#: Metadata values end at 256 KiB (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata);
#: the rest is for the other keys of a node's metadata.
LIMIT_BYTES = 224 * 1024

#: The table of refused variables, which the host goes by as well.
_ENVIRONMENT = Path(environment.__file__)
#: Ends a Python file within the script.
_END = "END_OF_PYTHON_FILE"

#: Lines that are comments: of Bash, and of Python within it, which begins them alike.
_COMMENTS = re.compile(r"^[ \t]*#(?: .*)?\n", re.MULTILINE)

_DIRECTORY = Path(__file__).parents[1] / "startup"


def node_metadata(config: BootConfig) -> dict[str, str]:
    """The metadata of a node that boots with ``config``."""
    return {**host_metadata(), CONFIG_KEY: config.to_json()}


def host_metadata() -> dict[str, str]:
    """The part of a node's metadata that is the same for every stack.

    The host reports through guest attributes, which need no inbound connection. SSH works only
    through OS Login, so that access ends with the IAM role that granted it.
    """
    return {
        "startup-script": startup_script(),
        "enable-guest-attributes": "TRUE",
        "enable-oslogin": "TRUE",
        "block-project-ssh-keys": "true",
        "serial-port-enable": "false",
    }


@cache
def startup_script() -> str:
    """The files of ``startup/`` in order: what a host of any stack runs at every boot.

    Its Python files are within, as text (:func:`python_source`), and all of it without lines that
    are comments, of which a host reads none and a metadata value has no room for 30 KiB.

    Raises:
        BootError: the files are missing from the installation, or have outgrown the limit.
    """
    files = sorted(_DIRECTORY.glob("[0-9][0-9]-*.sh"))
    if not files:
        raise BootError(
            f"the startup scripts are missing from {_DIRECTORY}",
            hint="Install tpuflex again.",
        )
    parts = [_COMMENTS.sub("", file.read_text(encoding="utf-8")).rstrip() for file in files]
    parts.insert(1, python_source((*sorted(_DIRECTORY.glob("*.py")), _ENVIRONMENT)))
    script = "".join(f"{part}\n\n" for part in parts)
    if len(script.encode()) > LIMIT_BYTES:
        raise BootError(
            f"the startup script has {len(script.encode())} bytes, more than {LIMIT_BYTES}"
        )
    return script


def python_source(files: Iterable[Path]) -> str:
    """The shell function ``python_source NAME``, which prints one of the Python files.

    They travel within the script, because a host has nothing else of ours when it boots; as
    code alone: what explains it would take a sixth of what a metadata value may have.
    """
    cases = []
    for file in files:
        text = code_of(file.read_text(encoding="utf-8")).rstrip()
        if _END in text:
            raise BootError(f"{file} holds {_END}, which ends it in the startup script")
        cases.append(f"    {file.stem})\n        cat <<'{_END}'\n{text}\n{_END}\n        ;;\n")
    return f"python_source() {{\n    case $1 in\n{''.join(cases)}    *) return 1 ;;\n    esac\n}}"


def code_of(source: str) -> str:
    """``source``, a Python file, without docstrings, and without lines that are only a comment or
    empty; all else to the letter. What consists of its docstring alone has ``pass`` instead."""
    lines = source.splitlines(keepends=True)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, documented) or ast.get_docstring(node) is None:
            continue
        said = node.body[0]
        first, last = said.lineno - 1, said.end_lineno or said.lineno
        alone = len(node.body) == 1 and not isinstance(node, ast.Module)
        lines[first:last] = [""] * (last - first)
        if alone:
            lines[first] = f"{' ' * said.col_offset}pass\n"
    # What a line of a text looks like is not a comment and not an empty line: the tokens tell.
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_alone = token.type in (tokenize.COMMENT, tokenize.NL) and not token.line[
            : token.start[1]
        ].strip(" ")
        if is_alone:
            lines[token.start[0] - 1] = ""
    return "".join(lines)
