"""An archive of everything that a diagnosis is drawn from, without secrets, to send to others."""

from __future__ import annotations

import gzip
import io
import json
import os
import platform
import tarfile
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tpuflex.diagnosis.diagnose import Gathered
from tpuflex.errors import TpuflexError, UsageError
from tpuflex.files.trusted import open_regular
from tpuflex.operate.endpoint_events import events
from tpuflex.settings.stack_yaml import without_ciphertexts

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.diagnosis.judge import Diagnosis
    from tpuflex.stack.connection import Connection

#: How far back events are packed.
_EVENTS = timedelta(days=7)
#: Distributions whose versions are packed.
_DISTRIBUTIONS = ("tpuflex", "pulumi", "pulumi-gcp", "grpcio", "protobuf", "requests")


@dataclass(frozen=True, slots=True)
class Bundle:
    """An archive that was written.

    Attributes:
        path: where it is.
        files: what is in it.
        bytes: its size.
    """

    path: Path
    files: tuple[str, ...]
    bytes: int

    def to_json(self) -> dict[str, object]:
        """It under ``bundle`` of the document that ``tpuflex diagnose --bundle --json`` prints."""
        return {"path": str(self.path), "files": list(self.files), "bytes": self.bytes}


def require_free(path: Path) -> None:
    """Refuse a path that a bundle cannot be written to, before anything is read.

    Raises:
        UsageError: the path is taken, has no directory, or does not end in ``.tar.gz``.
    """
    if not path.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"{path} should end in .tar.gz", option="--bundle")
    if os.path.lexists(path):
        raise UsageError(f"{path} exists, and is not replaced", option="--bundle")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a directory", option="--bundle")


def write_bundle(cloud: Connection, found: Gathered, diagnosis: Diagnosis, path: Path) -> Bundle:
    """Write what ``diagnosis`` was drawn from to a new file that only this user can read.

    Args:
        cloud: the stack's cloud, which is asked for the events of the last days.
        found: what was read.
        diagnosis: what that shows.
        path: the new file.

    Raises:
        UsageError: something is there already.
        OSError: it cannot be written.
    """
    scrub = found.scrub
    documents: dict[str, object] = {
        "diagnosis.json": diagnosis.to_json(),
        "versions.json": _versions(),
    }
    if found.status is not None:
        documents["status.json"] = found.status.to_json()
    try:
        documents["events.json"] = events(cloud, cloud.now() - _EVENTS).to_json()
    except TpuflexError as error:
        documents["events.json"] = {"unread": error.brief}
    texts = {
        name: json.dumps(scrub.document(value), indent=2, sort_keys=True, default=str) + "\n"
        for name, value in documents.items()
    }
    for source, lines in found.logs.items():
        texts[f"{source.replace(' ', '-')}.txt"] = "".join(f"{line}\n" for line in lines)
    if (stack_file := _stack_file(cloud)) is not None:
        texts["stack.yaml"] = scrub(stack_file)
    content = _archive(texts)
    try:
        with open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as file:
            file.write(content)
    except FileExistsError as error:
        raise UsageError(f"{path} exists, and is not replaced", option="--bundle") from error
    return Bundle(path, tuple(sorted(texts)), len(content))


def _stack_file(cloud: Connection) -> str | None:
    """The settings as they are written, without what Pulumi has encrypted; None without a file."""
    try:
        text = cloud.stack.file.read_text("utf-8", "replace")
    except OSError:
        return None
    return without_ciphertexts(text)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _archive(texts: dict[str, str]) -> bytes:
    """A tar archive of ``texts``, which names neither user nor machine."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name in sorted(texts):
            content = texts[name].encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"diagnosis/{name}")
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)
