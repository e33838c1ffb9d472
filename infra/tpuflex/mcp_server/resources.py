"""What a client can read as a resource: stack files, runbooks, and files of benchmarks.

Names are looked up in what there is, so that none leads elsewhere; links are not followed, and long
files are refused.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.types import Resource

from tpuflex.files.trusted import open_regular
from tpuflex.mcp_server.answers import UNTRUSTED
from tpuflex.mcp_server.workspace import benchmark_files
from tpuflex.settings.stack_yaml import without_ciphertexts
from tpuflex.terminal.manual import page_names

if TYPE_CHECKING:
    from tpuflex.mcp_server.workspace import Workspace

#: Bytes of a resource.
_LARGEST = 1024 * 1024
STACKS, RUNBOOKS, BENCHMARKS = "stacks", "runbooks", "benchmarks"
_TITLES = {STACKS: "Stack file", RUNBOOKS: "Runbook", BENCHMARKS: "Benchmark"}
#: URI template and MIME type of each kind.
TEMPLATES = {
    STACKS: ("tpuflex://stacks/{name}", "application/yaml"),
    RUNBOOKS: ("tpuflex://runbooks/{name}", "text/markdown"),
    BENCHMARKS: ("tpuflex://benchmarks/{name}", "text/plain"),
}


def resource_files(workspace: Workspace, kind: str) -> dict[str, Path]:
    """The files of ``kind`` that there are now, by name."""
    if kind == RUNBOOKS:
        folder, pages = f"{RUNBOOKS}/", page_names().items()
        return {name[len(folder) :]: page for name, page in pages if name.startswith(folder)}
    if kind == BENCHMARKS:
        return benchmark_files(workspace.root)
    project = workspace.project
    return {name: project.stack_file(name) for name in project.stack_names()}


def said_of(kind: str) -> dict[str, str] | None:
    """What is said beside each of ``kind``: runbooks alone come with tpuflex."""
    return None if kind == RUNBOOKS else {"untrusted": UNTRUSTED}


def listed(workspace: Workspace) -> list[Resource]:
    """All that there is now."""
    return [
        Resource(
            uri=template.format(name=name),
            name=name,
            title=f"{_TITLES[kind]} {name}",
            mime_type=mime_type,
            _meta=said_of(kind),
        )
        for kind, (template, mime_type) in TEMPLATES.items()
        for name in resource_files(workspace, kind)
    ]


def read(workspace: Workspace, kind: str, name: str) -> str:
    """The text of the resource ``name``, without secrets and what is encrypted.

    Raises:
        ResourceNotFoundError: there is none.
        ResourceError: it is a link, or too long.
    """
    file = resource_files(workspace, kind).get(name)
    if file is None:
        raise ResourceNotFoundError(f"There is no {kind} resource {name!r}.")
    try:
        with open_regular(file, os.O_RDONLY | os.O_NOFOLLOW) as opened:
            content = opened.read(_LARGEST + 1)
    except OSError as error:
        why = "is a link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        raise ResourceError(f"{kind} resource {name!r} {why}.") from error
    if len(content) > _LARGEST:
        raise ResourceError(f"{kind} resource {name!r} has more than {_LARGEST:,} bytes.")
    text = content.decode(errors="replace")
    if kind == RUNBOOKS:
        return text
    if kind == STACKS:
        return workspace.scrubber(name)(without_ciphertexts(text))
    return workspace.scrubber(None)(text)
