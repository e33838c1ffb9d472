"""What a refresh finds, by the engine's events."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.automation.events import EngineEvent

from tpuflex.engine.events import Drift, drift_of

TYPE, NAME = "gcp:compute/firewall:Firewall", "vllm-ssh"
URN = f"urn:pulumi:dev::tpuflex::{TYPE}::{NAME}"
RULE = {"priority": 1000, "ranges": ["35.235.240.0/20"], "token": "[secret]", "etag": "a"}


def event(
    new: dict[str, Any] | None,
    *diffs: str,
    op: str = "refresh",
    kind: str = "resOutputsEvent",
    **old: object,
) -> EngineEvent:
    """How the engine ends a step: with the outputs that a resource had, and those that it has."""

    def state(outputs: dict[str, Any]) -> dict[str, Any]:
        return {"type": TYPE, "urn": URN, "id": "x", "custom": True, "outputs": outputs}

    metadata = {
        "op": op,
        "urn": URN,
        "type": TYPE,
        "provider": "",
        "old": {**state(RULE), **old},
        "new": None if new is None else state(new),
        "diffs": [*diffs] or None,
    }
    return EngineEvent.from_json({"sequence": 1, "timestamp": 0, kind: {"metadata": metadata}})


@pytest.mark.parametrize(
    ("told", "found"),
    [
        pytest.param(event(None), (), id="deleted"),
        pytest.param(
            event({**RULE, "priority": 5, "ranges": []}, "ranges", "priority"),
            ("priority", "ranges"),
            id="changed",
        ),
        pytest.param(event(RULE, "token"), ("token",), id="a secret that is not shown"),
        pytest.param(event({**RULE, "etag": "b"}), None, id="what no program writes"),
        pytest.param(event(RULE, "priority"), None, id="due all the same, as a run's renewal"),
        pytest.param(event(None, delete=True), None, id="to be deleted by an update"),
        pytest.param(event(None, custom=False), None, id="a component"),
        pytest.param(event(None, op="delete"), None, id="another step"),
        pytest.param(event(None, kind="resourcePreEvent"), None, id="a step that begins"),
    ],
)
def test_what_a_refresh_finds(told: EngineEvent, found: tuple[str, ...] | None) -> None:
    """What was deleted, and of what was changed only properties that the program writes."""
    assert drift_of(told) == (None if found is None else Drift(TYPE, NAME, found))
