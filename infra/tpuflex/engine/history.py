"""What Pulumi has done to a stack: the history that its backend keeps."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_plugin.printable import printable
from tpuflex.engine.backend import stack_history
from tpuflex.engine.commands import Target

#: The file of a run is named by when it ended, in nanoseconds.
_FILE = re.compile(r".+-(\d{19})\.history\.json(\.gz)?")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the engine that has ended.

    Attributes:
        kind: Pulumi's word: ``update``, ``destroy``, ``refresh``, ``import``.
        began: when.
        ended: when.
        result: ``succeeded``, ``failed`` or ``in-progress``.
        changes: how many resources, by what was done to them (``create``, ``same``).
    """

    kind: str
    began: datetime
    ended: datetime
    result: str
    changes: Mapping[str, int]


def runs_in_files(backend: Path, project: str, stack: str, since: datetime) -> tuple[Run, ...]:
    """The runs on a stack that have ended at ``since`` or later, by the file backend's history, in
    no order; a file that cannot be read is left out."""
    runs = []
    for file in (backend / ".pulumi" / "history" / project / stack).glob("*.history.json*"):
        named = _FILE.fullmatch(file.name)
        if named is None or int(named[1]) / 1e9 < since.timestamp():
            continue
        try:
            content = file.read_bytes()
            runs.append(_run(json.loads(gzip.decompress(content) if named[2] else content)))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return tuple(runs)


def runs_of(target: Target, since: datetime) -> tuple[Run, ...]:
    """The runs on the stack of ``target`` that have ended at ``since`` or later, as the engine
    lists them.

    Raises:
        EngineError: the backend cannot be read.
    """
    runs = map(_run, stack_history(target))
    return tuple(run for run in runs if run.ended >= since)


def _run(document: Mapping[str, Any]) -> Run:
    changes = document.get("resourceChanges") or {}
    return Run(
        kind=printable(str(document["kind"])),
        began=_time(document["startTime"]),
        ended=_time(document["endTime"]),
        result=printable(str(document["result"])),
        changes={printable(str(what)): int(count) for what, count in changes.items()},
    )


def _time(value: object) -> datetime:
    """In files they are seconds since the epoch, from the engine RFC 3339."""
    if isinstance(value, int):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(str(value))
