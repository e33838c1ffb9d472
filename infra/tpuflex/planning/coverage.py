"""What the planner has no source for, and so does not plan."""

from __future__ import annotations

from tpuflex.planning.compile_buckets import MOST_BUCKETS, count_token_buckets
from tpuflex.planning.kv_cache import cache_layers
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable

#: vLLM keeps lengths and numbers of sequences in 32 bits.
_LARGEST = 2**31 - 1
_NUMBERS = (
    "tensor_parallel_size",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "blocks",
    "min_token_bucket",
)


def not_covered(request: MemoryRequest) -> NotPlannable | None:
    """Why ``request`` is not planned, or None."""
    row = request.accelerator
    if row.hosts > 1:
        return NotPlannable(f"{row.name} has {row.hosts} hosts, whose memory is not described")
    if row.hbm_bytes_per_chip is None:
        return NotPlannable(
            f"how much memory the runtime reports for a {row.generation} chip is not known"
        )
    if not 0 < request.gpu_memory_utilization <= 1:
        return NotPlannable(
            f"gpu_memory_utilization {request.gpu_memory_utilization:g} is not between 0 and 1"
        )
    if (reason := not_countable(request)) is not None:
        return reason
    if request.min_token_bucket & (request.min_token_bucket - 1):
        return NotPlannable(
            f"MIN_TOKEN_BUCKET is {request.min_token_bucket}, which is no power of two"
        )
    if (buckets := count_token_buckets(request)) > MOST_BUCKETS:
        return NotPlannable(
            f"VLLM_TPU_BUCKET_PADDING_GAP {request.bucket_padding_gap} makes about {buckets:,} "
            f"buckets of tokens, each a program to compile"
        )
    return None


def not_countable(request: MemoryRequest | CpuMemoryRequest) -> NotPlannable | None:
    """Why ``request`` cannot be counted: a number that no server takes, or no cache at all."""
    for name in _NUMBERS:
        value = getattr(request, name, None)
        if value is not None and not 1 <= value <= _LARGEST:
            return NotPlannable(f"{name} is not between 1 and {_LARGEST:,}")
    if not cache_layers(request.model):
        return NotPlannable(f"no layer of {request.model.name} owns a KV cache")
    return None
