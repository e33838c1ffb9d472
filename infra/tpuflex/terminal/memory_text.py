"""A memory plan in a sentence."""

from __future__ import annotations

from tpuflex.planning.figure import gib
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import NotPlannable


def memory_line(plan: MemoryPlan | NotPlannable) -> str:
    """What one chip holds, in two lines; or why that is not known, in one."""
    if isinstance(plan, NotPlannable):
        return f"not known: {plan.reason}"
    if plan.problems:
        return f"does not fit: {plan.problems[0].what}"
    rest = f", {gib(plan.workspace_bytes)} left for programs" if plan.workspace_bytes else ""
    each = " on each chip" if plan.chips > 1 else ""
    least = "at least " if plan.is_lower_bound else ""
    own = "; by rows of yours" if any(row.own for row in plan.row_sources.values()) else ""
    return (
        f"{gib(plan.weight_bytes)} weights, {gib(plan.kv_bytes)} KV cache{rest}{each};\n"
        f"{least}{plan.cached_tokens:,} tokens cached,"
        f" {plan.full_length_sequences:,.1f} sequences of {plan.request.max_model_len:,}{own}"
    )
