"""What servers had counted when this home looked at them, kept in its private files.

One look does not tell since when a server is idle (:mod:`tpuflex.operate.activity`). A file for
each stack holds the first look with the present counters. What is damaged is forgotten: then
idleness is known from the next look on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tpuflex.naming import digest
from tpuflex.operate.activity import Counters, Observation
from tpuflex.trusted_files import distrust, own_directory, write_private

_DIRECTORY = "activity"


@dataclass(frozen=True, slots=True)
class SeenActivity:
    """The looks at the servers of one Pulumi project.

    Attributes:
        home: state directory of tpuflex.
        project: Pulumi project.
        environ: may name a user to trust (:data:`~tpuflex.trusted_users.TRUSTED_UID_VARIABLE`).
    """

    home: Path
    project: str
    environ: Mapping[str, str] = field(default_factory=dict)

    def of(self, stack: str) -> tuple[Observation, ...]:
        """The look at the server of ``stack`` that is remembered; a file that others could write
        tells nothing."""
        file = self._file(stack)
        if not file.is_file() or distrust(file, self.environ):
            return ()
        try:
            document: dict[str, Any] = json.loads(file.read_text("utf-8"))
            counters = Counters(*(float(document[k]) for k in ("started", "finished", "tokens")))
            return (Observation(datetime.fromisoformat(document["at"]), counters),)
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def remember(self, stack: str, look: Observation) -> None:
        """Note ``look``, unless an earlier one saw the same counters, and nothing in flight."""
        if look.in_flight:
            self._file(stack).unlink(missing_ok=True)
            return
        if any(each.counters == look.counters for each in self.of(stack)):
            return
        own_directory(self.home / _DIRECTORY)
        counters = look.counters
        entry = {
            "at": look.at.isoformat(),
            "started": counters.started,
            "finished": counters.finished,
            "tokens": counters.tokens,
        }
        self._file(stack).unlink(missing_ok=True)
        write_private(self._file(stack), json.dumps(entry))

    def _file(self, stack: str) -> Path:
        return self.home / _DIRECTORY / f"{digest(self.project, stack, length=16)}.json"
