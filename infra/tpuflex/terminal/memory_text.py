"""A memory plan in words and figures: the line of a plan, the rows of its table."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.planning.figure import gib
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable


def memory_title(plan: MemoryPlan) -> str:
    """The model, and on what it is planned."""
    return f"{plan.request.model.name} on {_place(plan.request)}"


def memory_line(plan: MemoryPlan | NotPlannable) -> str:
    """What one chip holds, in two lines; or why that is not known, in one."""
    if isinstance(plan, NotPlannable):
        return f"not known: {plan.reason}"
    if plan.problems:
        return f"does not fit: {plan.problems[0].what}"
    rest = f", {gib(plan.workspace_bytes)} left for programs" if plan.workspace_bytes else ""
    each = " on each chip" if plan.chips > 1 else ""
    least = "at least " if _is_lower_bound(plan) else ""
    own = "; by rows of yours" if any(row.own for row in plan.row_sources.values()) else ""
    return (
        f"{gib(plan.weight_bytes)} weights, {gib(plan.kv_bytes)} KV cache{rest}{each};\n"
        f"{least}{plan.cached_tokens:,} tokens cached,"
        f" {plan.full_length_sequences:,.1f} sequences of {plan.request.max_model_len:,}{own}"
    )


def memory_figures(plan: MemoryPlan) -> Iterator[tuple[str, str, str]]:
    """Each figure of ``plan``, its value, and what it means."""
    request = plan.request
    each = ", on each chip" if plan.chips > 1 else ""
    if isinstance(request, MemoryRequest):
        usable = f"what a server can use of a {request.accelerator.generation} chip"
        cache = f"{request.gpu_memory_utilization:g} of the memory, less the weights"
        dtype: str = request.kv_cache_dtype
    else:
        usable = "weights and KV cache together"
        cache = "VLLM_CPU_KVCACHE_SPACE, in whole blocks"
        dtype = f"{8 * request.cache_bytes} bits"
    yield "memory", gib(plan.hbm_bytes), usable
    yield "weights", gib(plan.weight_bytes), f"tensor parallel size {plan.chips}{each}"
    yield "KV cache", gib(plan.kv_bytes), cache
    if plan.workspace_bytes > 0:
        yield "workspace", gib(plan.workspace_bytes), "the rest, for programs and activations"
    yield "KV per token", f"{plan.kv_bytes_per_token:,} B", f"{dtype}, all layers{each}"
    yield "block", f"{plan.block_size:,} tokens", "unit in which the cache is given out"
    yield "blocks", f"{plan.blocks:,}", "as the server reports them"
    least = "at least; " if _is_lower_bound(plan) else ""
    yield "cached tokens", f"{plan.cached_tokens:,}", f"{least}of all running sequences together"
    yield (
        "full sequences",
        f"{plan.full_length_sequences:,.2f}",
        f"of {request.max_model_len:,} tokens at once; up to {request.max_num_seqs:,} are run",
    )
    if plan.token_buckets:
        sizes = f"{len(plan.token_buckets)} x {len(plan.request_buckets)}"
        yield "buckets", sizes, "sizes of a step, in tokens and in requests"
    if plan.programs:
        text_only = isinstance(request, MemoryRequest) and request.text_only
        tower = not text_only and set(request.model.modalities) != {"text"}
        rest = "; those of the vision tower are not counted" if tower else ""
        yield "programs", f"{plan.programs:,}", f"compiled before the first answer{rest}"


def verdict(plan: MemoryPlan) -> str:
    """Whether it fits, in a few words."""
    if plan.problems:
        return "does not fit"
    return "fits, with reservations" if plan.concerns else "fits"


def _is_lower_bound(plan: MemoryPlan) -> bool:
    """Whether the cache turns out larger: the weights shrink after they are loaded."""
    return isinstance(plan.request, MemoryRequest) and plan.request.quantized_on_load


def _place(request: MemoryRequest | CpuMemoryRequest) -> str:
    if isinstance(request, CpuMemoryRequest):
        return "the CPU of this machine"
    row = request.accelerator
    return f"{row.name} ({row.chips} {'chip' if row.chips == 1 else 'chips'})"
