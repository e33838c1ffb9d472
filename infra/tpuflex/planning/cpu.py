"""The memory of a server on the CPU of the embedded cloud.

Rules of vLLM's CPU back-end, which differ from the TPU's: the cache has a size of its own
(`VLLM_CPU_KVCACHE_SPACE`), heads are not padded, and blocks have 128 tokens by default. Read from
vLLM 0.32.0 (``vllm/platforms/cpu.py``, ``v1/worker/cpu_worker.py``, ``v1/kv_cache_interface.py``,
``v1/core/kv_cache_utils.py``) on 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.planning.coverage import not_countable
from tpuflex.planning.figure import GIB, ceiling
from tpuflex.planning.kv_cache import BlockLayout, CacheLayer, cache_layers, grouped_layout
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.remark import Remark, gib
from tpuflex.planning.request import CpuMemoryRequest, NotPlannable
from tpuflex.planning.weights import text_parameters


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


def _problems(request: CpuMemoryRequest, blocks: int, cut: BlockLayout) -> Iterator[Remark]:
    if blocks < cut.blocks_per_sequence:
        size = cut.blocks_per_sequence * cut.block_bytes
        yield Remark(
            "serving.env.VLLM_CPU_KVCACHE_SPACE",
            f"one sequence of {request.max_model_len:,} tokens needs {gib(size)} of KV cache",
            f'Write "{ceiling(size, GIB)}" or more, or a smaller max_model_len.',
        )


def _concerns(request: CpuMemoryRequest, sequences: float) -> Iterator[Remark]:
    if sequences < request.max_num_seqs:
        yield Remark(
            "serving.flags.max_num_seqs",
            f"{sequences:.1f} sequences of {request.max_model_len:,} tokens fit, and up to "
            f"{request.max_num_seqs} are admitted: when they grow long, some are preempted and "
            "computed again",
            f"Write {int(sequences)} for none at any length, or more VLLM_CPU_KVCACHE_SPACE.",
        )
