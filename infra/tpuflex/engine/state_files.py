"""The files of Pulumi's file backend, and what a kill leaves half-written among them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit


def file_backend(url: str) -> Path | None:
    """The directory of the file backend ``url``; None for any other kind of backend."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(parts.netloc + parts.path or "~").expanduser()


def mend_files(backend: Path, project: str, stack: str) -> tuple[Path, ...]:
    """Remove what a kill cut short among the files of a stack, and name it.

    Beside each file the backend keeps ``FILE.attrs``, and it writes that in place: a kill
    leaves it empty, and every later command says "failed to load checkpoint: EOF". Without it
    the backend uses its defaults. Files are written as ``*.tmp`` and then renamed, so what is
    in place is whole, and it is what every finished write left there.

    Only to be called while no living engine holds the stack's lock.
    """
    top = backend / ".pulumi"
    condemned = _torn(top.glob("meta.yaml.attrs"))
    for folder in (top / "stacks" / project, top / "stacks"):
        condemned += [
            *_torn(folder.glob(f"{stack}.json*.attrs")),
            *folder.glob(f"{stack}.json*.tmp"),
        ]
    for kind in ("locks/organization", "history", "backups"):
        folder = top / kind / project / stack
        condemned += [*_torn(folder.glob("*.attrs")), *folder.glob("*.tmp")]
    for file in condemned:
        file.unlink(missing_ok=True)
    return tuple(condemned)


def _torn(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if not _whole(file)]


def _whole(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    except OSError:
        return True  # gone meanwhile, or not ours to read: not ours to remove
    return True
