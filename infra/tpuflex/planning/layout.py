"""The memory of one chip, cut into weights, cache and the rest: the arithmetic of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.planning.kv_cache import block_layout, block_size, kv_bytes_per_token
from tpuflex.planning.request import MemoryRequest
from tpuflex.planning.weights import weight_bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """The memory of one chip.

    Attributes:
        hbm_bytes: what the runtime reports as usable.
        weight_bytes: weights.
        pool_bytes: what utilisation leaves for the cache after the weights; negative where the
            weights alone are too large.
        kv_bytes_per_token: bytes of K and V of one token, as if no layer had a window.
        block_size: tokens in a block.
        block_bytes: bytes of a block.
        blocks: blocks that fit, or that were asked for.
        blocks_per_sequence: blocks of a sequence of ``max_model_len``.
        max_model_len: longest sequence, in tokens.
    """

    hbm_bytes: int
    weight_bytes: int
    pool_bytes: int
    kv_bytes_per_token: int
    block_size: int
    block_bytes: int
    blocks: int
    blocks_per_sequence: int
    max_model_len: int

    @property
    def kv_bytes(self) -> int:
        """Bytes of the cache."""
        return self.blocks * self.block_bytes

    @property
    def full_length_sequences(self) -> float:
        """Sequences of ``max_model_len`` that fit at once; vLLM's "maximum concurrency"."""
        return self.blocks / self.blocks_per_sequence

    @property
    def cached_tokens(self) -> int:
        """Tokens that fit, as vLLM counts them: in sequences of ``max_model_len``."""
        return int(self.full_length_sequences * self.max_model_len)


def lay_out(request: MemoryRequest) -> Layout:
    """The memory of each chip of ``request``.

    The budget is that of ``worker/tpu_worker.py:512-570`` of tpu-inference 0.32.0: a share of all
    chips' memory, less what is in use after loading. Nothing is kept for programs and activations,
    which live in the rest.
    """
    chips, weights = request.tensor_parallel_size, weight_bytes(request)
    pool = int(request.gpu_memory_utilization * (request.hbm_bytes * chips) - weights * chips)
    cut = block_layout(request)
    fitting = max(pool // (cut.block_bytes * chips), 0)
    return Layout(
        hbm_bytes=request.hbm_bytes,
        weight_bytes=weights,
        pool_bytes=pool // chips,
        kv_bytes_per_token=kv_bytes_per_token(request.model, chips, request.kv_cache_dtype),
        block_size=block_size(request),
        block_bytes=cut.block_bytes,
        blocks=fitting if request.blocks is None else request.blocks,
        blocks_per_sequence=cut.blocks_per_sequence,
        max_model_len=request.max_model_len,
    )
