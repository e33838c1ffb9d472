"""What hosts report of slices that hand over to one another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi.automation.errors import CommandError

from embedded_cloud.faults.rule import parse_rule
from tests.provider.deployment import A, Rig, live, name

Json = dict[str, Any]

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


def half(rig: Rig, hosts: Hosts) -> None:
    """Have the first slice serve, and its successor not come to."""
    rig.up()
    hosts.report(2, ERROR)
    renew(rig, "again")
    with pytest.raises(CommandError):
        rig.up()
    assert live(rig) == [FIRST, SECOND]
    rig.ephemeral.clear()


def fail_to_delete_the_first(rig: Rig) -> None:
    """Have an `up` fail because the first slice, which is replaced, may not be deleted."""
    denied: Json = {
        "kind": "answer",
        "status": 403,
        "message": "denied",
        "code": "PERMISSION_DENIED",
    }
    where: Json = {"method": "DELETE", "path": "slice-g1"}
    rig.cloud.cloud.faults.book.add(parse_rule({"where": where, "times": 0, "effect": denied}))
    with pytest.raises(CommandError, match="denied"):
        rig.up()
    rig.cloud.cloud.faults.forget()
