"""The digest of a plan: the same for two plans that would do the same. Pure.

What was approved, perhaps on another machine, is compared with what would run before anything is
created. While it runs, the engine holds it to the plan that was compared
(:meth:`tpuflex.engine.run.EngineRun.up`)."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan, Step


def plan_digest(plan: EnginePlan) -> str:
    """The SHA-256, in hex, of every step that changes something, whatever their order.

    Inputs as they are and as they will be are part of it, so a state that somebody else has
    changed makes another digest. Values of secrets are not: the engine masks them.
    """
    steps = sorted((_step(step) for step in plan.changes), key=lambda step: str(step["urn"]))
    text = json.dumps(steps, sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(text.encode()).hexdigest()


def _step(step: Step) -> dict[str, object]:
    return {
        "urn": step.urn,
        "operation": step.operation,
        "before": step.before,
        "inputs": step.inputs,
        "deleted_first": step.deleted_first,
        "ends_replaced": step.ends_replaced,
    }
