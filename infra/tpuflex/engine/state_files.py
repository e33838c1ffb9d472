"""The files of Pulumi's file backend, and the repair of what a kill leaves half-written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tpuflex.advice import Advice
from tpuflex.errors import EngineError


def file_backend(url: str) -> Path | None:
    """The directory of the file backend ``url``; None for any other kind of backend."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(parts.netloc + parts.path or "~").expanduser()


def remove_truncated_files(backend: Path, project: str, stack: str) -> tuple[Path, ...]:
    """Remove the files of a stack that a kill has truncated, and return them.

    Beside each file the backend keeps ``FILE.attrs``, and it writes that in place: a kill
    leaves it empty, and every later command says "failed to load checkpoint: EOF". Without it
    the backend uses its defaults. Files are written as ``*.tmp`` and then renamed, so what is
    in place is whole, and it is what every finished write left there.

    Only to be called while no living engine holds the stack's lock.
    """
    top = backend / ".pulumi"
    to_delete = _truncated(top.glob("meta.yaml.attrs"))
    for folder in (top / "stacks" / project, top / "stacks"):
        to_delete += [
            *_truncated(folder.glob(f"{stack}.json*.attrs")),
            *folder.glob(f"{stack}.json*.tmp"),
        ]
    for kind in ("locks/organization", "history", "backups"):
        folder = top / kind / project / stack
        to_delete += [*_truncated(folder.glob("*.attrs")), *folder.glob("*.tmp")]
    for file in to_delete:
        file.unlink(missing_ok=True)
    return tuple(to_delete)


def state_in_file(backend: Path, project: str, stack: str) -> dict[str, Any]:
    """The state of a stack as the file backend stores it, secrets encrypted; empty where there is
    none, or none that can be read."""
    file = backend / ".pulumi" / "stacks" / project / f"{stack}.json"
    try:
        return dict(json.loads(file.read_bytes())["checkpoint"]["latest"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def stacks_in_files(backend: Path, project: str) -> tuple[str, ...]:
    """The stacks of ``project`` that the file backend has a state of, sorted."""
    files = (backend / ".pulumi" / "stacks" / project).glob("*.json")
    return tuple(sorted(file.stem for file in files))


def has_state(environ: Mapping[str, str], project: str, stack: str) -> bool | None:
    """Whether there is a state of ``stack`` in a file; None where states are kept elsewhere."""
    backend = file_backend(environ.get("PULUMI_BACKEND_URL", ""))
    if backend is None:
        return None
    stacks = backend / ".pulumi" / "stacks"
    # Compressed where PULUMI_SELF_MANAGED_STATE_GZIP asks for it; without a project until 3.61.
    files = (f"{project}/{stack}.json", f"{stack}.json")
    return any((stacks / f"{file}{ending}").is_file() for file in files for ending in ("", ".gz"))


def damage_error(environ: Mapping[str, str]) -> EngineError | None:
    """The error for a state file that was cut short or damaged, with what restores it; None if all
    are whole, or not in files.

    The engine renames a state into place and keeps the one before beside it as ``FILE.bak``, so
    this is a disk that was full or failed, or another program.

    Args:
        environ: the engine's environment, which names the backend.
    """
    backend = file_backend(environ.get("PULUMI_BACKEND_URL", ""))
    if backend is None:
        return None
    stacks = backend / ".pulumi" / "stacks"
    for file in sorted((*stacks.glob("*.json"), *stacks.glob("*/*.json"))):
        if not _complete(file):
            return EngineError(f"{file} is damaged: {_size(file)}", hint=_restored(file))
    return None


def _size(file: Path) -> str:
    size = file.stat().st_size
    return f"it has {size} bytes that are not whole JSON." if size else "it is empty."


def _restored(file: Path) -> Advice:
    """How to get a state back where ``file`` is damaged."""
    before, there = Path(f"{file}.bak"), shlex.quote(str(file))
    if before.is_file() and _complete(before):
        copy = f"cp {shlex.quote(str(before))} {there}"
        return Advice(
            "The state before the last change is beside it: {copy}\nThen: {recover}", copy=copy
        )
    return Advice(
        "Move it away: mv {there} {away}\n"
        "Then rebuild the state from the cloud: {recover} --take-over",
        there=there,
        away=shlex.quote(f"{file}.damaged"),
    )


def _truncated(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if not _complete(file)]


def _complete(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    except OSError:
        return True  # gone meanwhile, or not ours to read: not ours to remove
    return True
