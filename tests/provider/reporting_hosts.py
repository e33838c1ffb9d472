"""What hosts report of slices that hand over to one another."""

from __future__ import annotations

import json
from typing import Any

from tests.provider.deployment import A, Rig, name

FIRST, SECOND, THIRD = (name(A, generation) for generation in (1, 2, 3))
ERROR = {"phase": "weights", "error": "weights: the bucket has no manifest"}


class Hosts:
    """What hosts report, by the generation of their slice."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, str]] = {}

    def report(self, generation: int, report: dict[str, str]) -> None:
        """Have the host of ``generation`` report that."""
        self._say(generation, "report", report)

    def serving(self, generation: int, phase: str, **more: Any) -> None:
        """Have it say that of serving."""
        self._say(generation, "serving", {"phase": phase, **more})

    def query(self, owner: str) -> list[tuple[str, str, str]]:
        """The guest attributes of ``owner``."""
        return [("tpuflex", key, text) for key, text in self._said.get(owner, {}).items()]

    def _say(self, generation: int, key: str, value: dict[str, Any]) -> None:
        owner = name(A, generation).replace("queuedResources", "nodes")
        self._said.setdefault(owner, {})[key] = json.dumps(value)


def renew(rig: Rig, word: str) -> None:
    """Ask for a new run."""
    rig.args["rerun"] = word
