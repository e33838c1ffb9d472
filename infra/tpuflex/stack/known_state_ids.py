"""The ids of Pulumi states that this home has seen, kept in private files.

A resource belongs to a stack if it carries the id of one of the stack's states. A state is gone
after a `tpuflex down`, and may be lost; its remembered id still proves ownership of what is left in
the cloud. Without these files such resources count as foreign and cannot be swept.

One file for each id and stack, so that concurrent commands cannot overwrite each other's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex.advice import Advice
from tpuflex.errors import EngineError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.naming import digest, is_state_id

_DIRECTORY = "state-ids"


@dataclass(frozen=True, slots=True)
class KnownStateIds:
    """The ids of the states of one Pulumi project that a home has seen.

    Attributes:
        home: state directory of tpuflex.
        project: Pulumi project.
    """

    home: Path
    project: str

    def remember(self, stack: str, ids: Iterable[str]) -> None:
        """Note that ``ids`` are those of states of ``stack``."""
        for id_ in ids:
            if not is_state_id(id_):
                raise ValueError(f"{id_!r} is no state id")
            file = self._directory / f"{id_}-{digest(self.project, stack, length=8)}.json"
            if not file.exists():
                own_directory(self._directory)
                entry = {"id": id_, "project": self.project, "stack": stack}
                write_private(file, json.dumps(entry))

    def by_stack(self) -> Mapping[str, frozenset[str]]:
        """The ids by stack.

        Raises:
            EngineError: a file is damaged.
        """
        found: defaultdict[str, set[str]] = defaultdict(set)
        for file in sorted(self._directory.glob("*.json")):
            entry = _read(file)
            if entry["project"] == self.project:
                found[entry["stack"]].add(entry["id"])
        return {stack: frozenset(ids) for stack, ids in found.items()}

    def of(self, stack: str) -> frozenset[str]:
        """The ids of ``stack``; raises as :meth:`by_stack`."""
        return self.by_stack().get(stack, frozenset())

    @property
    def _directory(self) -> Path:
        return self.home / _DIRECTORY


def _read(file: Path) -> Mapping[str, str]:
    try:
        entry = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(file) from error
    texts = ("id", "project", "stack")
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in texts):
        raise _damaged(file)
    if not is_state_id(entry["id"]):
        raise _damaged(file)
    return entry


def _damaged(file: Path) -> EngineError:
    return EngineError(
        f"{file} is damaged.",
        hint=Advice(
            "Delete it. What that state has left behind is then listed as foreign: {sweep}."
        ),
    )
