"""What the engine says in any order is told in one."""

from __future__ import annotations

from itertools import permutations

import pytest
from pulumi.automation.events import EngineEvent

from tpuflex.engine.events import Started, progress_of

CAUSES = ("acceleratorType", "runtimeVersion", "zones")


@pytest.mark.parametrize("keys", [*permutations(CAUSES)])
def test_causes_of_a_replacement_have_one_order(keys: tuple[str, ...]) -> None:
    """The engine collects them in a map of Go, which has another order in every run; the comment on
    a pull request would change without a change."""
    metadata = {
        "op": "replace",
        "urn": "urn:pulumi:dev::p::tpuflex:tpu:QueuedResource::slice",
        "type": "tpuflex:tpu:QueuedResource",
        "provider": "",
        "keys": [*keys],
    }
    event = EngineEvent.from_json(
        {"sequence": 1, "timestamp": 0, "resourcePreEvent": {"metadata": metadata}}
    )

    started = progress_of(event)

    assert isinstance(started, Started)
    assert started.step.replaced_for == CAUSES
