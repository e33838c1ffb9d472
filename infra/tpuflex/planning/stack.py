"""The memory plan of a server or a stack, on Google or on the embedded cloud."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tpuflex.planning.diagnostics import Diagnostic, beyond_context
from tpuflex.planning.figure import GIB, ceiling, gib
from tpuflex.planning.flags import cpu_request_from_flags, request_from_flags
from tpuflex.planning.kv_cache import BlockLayout, CacheLayer, cache_layers, grouped_layout
from tpuflex.planning.memory import MemoryPlan, not_countable, plan_memory
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable
from tpuflex.planning.weights import text_parameters

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Model

    # Its classes take longer to make than a plan.
    from tpuflex.settings.model import StackSettings


def plan_cpu_memory(request: CpuMemoryRequest) -> MemoryPlan | NotPlannable:
    """The plan of ``request``: one "chip", whose memory is what weights and cache take."""
    if (reason := not_countable(request)) is not None:
        return reason
    layers = cache_layers(request.model)

    def token_bytes(layer: CacheLayer) -> int:
        return 2 * layer.kv_heads * layer.head_dim * request.cache_bytes

    cut = grouped_layout(
        layers,
        token_bytes,
        tokens=request.block_size,
        max_model_len=request.max_model_len,
        in_flight=request.max_num_batched_tokens,  # the CPU never schedules a step ahead
    )
    blocks = request.kv_space_bytes // cut.block_bytes
    weights = request.parameter_bytes * text_parameters(request.model)
    cache = blocks * cut.block_bytes
    sequences = blocks / cut.blocks_per_sequence
    problems = tuple(_problems(request, blocks, cut))
    return MemoryPlan(
        request=request,
        chips=1,
        hbm_bytes=weights + cache,
        weight_bytes=weights,
        kv_bytes=cache,
        workspace_bytes=0,
        kv_bytes_per_token=sum(count * token_bytes(layer) for layer, count in layers.items()),
        block_size=request.block_size,
        blocks=blocks,
        cached_tokens=int(sequences * request.max_model_len),
        full_length_sequences=sequences,
        token_buckets=(),
        request_buckets=(),
        backbones=None,
        programs=None,
        problems=problems,
        concerns=() if problems else tuple(_concerns(request, sequences)),
    )


def _problems(request: CpuMemoryRequest, blocks: int, cut: BlockLayout) -> Iterator[Diagnostic]:
    if problem := beyond_context(request.model, request.max_model_len):
        remedy = f"Write {request.model.max_context} or less."
        yield Diagnostic("serving.flags.max_model_len", problem, remedy)
    if blocks < cut.blocks_per_sequence:
        size = cut.blocks_per_sequence * cut.block_bytes
        yield Diagnostic(
            "serving.env.VLLM_CPU_KVCACHE_SPACE",
            f"one sequence of {request.max_model_len:,} tokens needs {gib(size)} of KV cache",
            f'Write "{ceiling(size, GIB)}" or more, or a smaller max_model_len.',
        )


def _concerns(request: CpuMemoryRequest, sequences: float) -> Iterator[Diagnostic]:
    if sequences < request.max_num_seqs:
        yield Diagnostic(
            "serving.flags.max_num_seqs",
            f"{sequences:.1f} sequences of {request.max_model_len:,} tokens fit, and up to "
            f"{request.max_num_seqs} are admitted: when they grow long, some are preempted and "
            "computed again",
            f"Write {int(sequences)} for none at any length, or more VLLM_CPU_KVCACHE_SPACE.",
        )


def memory_request(settings: StackSettings) -> MemoryRequest | CpuMemoryRequest | NotPlannable:
    """What ``settings`` ask of memory, or why it cannot be planned."""
    catalog = settings.catalog
    if settings.checkpoint is not None and settings.checkpoint.unknown is not None:
        return NotPlannable(settings.checkpoint.unknown.message)
    model = settings.served
    if model is None:
        near = catalog.nearest_models(settings.model.name, count=1)
        like = f" (did you mean {near[0]}?)" if near else ""
        return NotPlannable(
            f"{settings.model.name} is not in the catalog{like}: add its row, or plan it with "
            "`tpuflex memory --model-dir`"
        )
    accelerator = catalog.accelerator(settings.slice.accelerator_type)
    if accelerator is None:
        return NotPlannable(f"{settings.slice.accelerator_type} is not in the catalog")
    flags = {
        "tensor_parallel_size": accelerator.devices,
        **settings.serving.given_flags,
    }
    chips = None if settings.cloud == "embedded" else accelerator
    return server_request(model, chips, flags, settings.serving.env)


def server_request(
    model: Model,
    accelerator: Accelerator | None,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
) -> MemoryRequest | CpuMemoryRequest | NotPlannable:
    """What a server asks of memory, on ``accelerator`` or, without one, on the CPU of the embedded
    cloud; the other arguments are those of :func:`tpuflex.planning.flags.request_from_flags`."""
    if accelerator is None:
        return cpu_request_from_flags(model, flags, environment)
    return request_from_flags(model, accelerator, flags, environment)


def plan_stack(settings: StackSettings) -> MemoryPlan | NotPlannable:
    """The memory plan of ``settings``, or why there is none."""
    return plan_request(memory_request(settings), settings.catalog)


def plan_request(
    request: MemoryRequest | CpuMemoryRequest | NotPlannable, catalog: Catalog
) -> MemoryPlan | NotPlannable:
    """The memory plan of ``request``, with accelerator types of ``catalog`` where it does not fit;
    or why there is none."""
    match request:
        case NotPlannable():
            return request
        case CpuMemoryRequest():
            return plan_cpu_memory(request)
        case MemoryRequest():
            return plan_memory(request, catalog.accelerators.values())


def planned_memory(settings: StackSettings) -> dict[str, object] | None:
    """The memory plan for scripts, as `tpuflex memory --json` prints it, or None."""
    plan = plan_stack(settings)
    return None if isinstance(plan, NotPlannable) else plan.to_json()
