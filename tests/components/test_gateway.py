"""A gateway is run by whoever wants one: nothing of its section is deployed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.components.pulumi_plan import Plan
from tests.unit.stack_sections import sections

GATEWAY: dict[str, Any] = {
    "host": "::1",
    "clients": {"app": {"key_sha256": 64 * "0", "limits": {"requests_per_minute": 60}}},
}


def test_a_change_of_the_section_plans_nothing(deployed: Callable[..., Plan]) -> None:
    """Neither of the engine's resources, nor of what hosts boot with."""
    without, plan = deployed(sections()), deployed(sections({"gateway": GATEWAY}))

    assert plan.inputs == without.inputs
    assert plan.outputs == without.outputs
