"""The memory plan of a server: what lies on each chip, what fits, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpuflex.catalog.rows import Accelerator
from tpuflex.planning.compile_buckets import compile_buckets
from tpuflex.planning.concerns import concerns
from tpuflex.planning.coverage import not_covered
from tpuflex.planning.layout import lay_out
from tpuflex.planning.nearest import instruction, nearest_that_fit
from tpuflex.planning.obstacles import obstacles
from tpuflex.planning.remark import Remark
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The memory of each chip, in bytes, and what it holds.

    The three parts add up to ``hbm_bytes``. On the CPU of the embedded cloud there is one "chip",
    and ``hbm_bytes`` is what weights and cache take of the machine's memory.

    Attributes:
        request: what the plan is of.
        chips: chips among which each layer is split.
        hbm_bytes: what the runtime reports as usable on one chip.
        weight_bytes: weights on one chip.
        kv_bytes: KV cache on one chip.
        workspace_bytes: the rest, for programs and activations; negative where the weights alone
            are larger than the chip.
        kv_bytes_per_token: bytes of K and V of one token on one chip.
        block_size: tokens in a block of the cache.
        blocks: blocks of the cache, as `cache_config_info` reports them.
        cached_tokens: tokens that the cache holds, as vLLM logs them.
        full_length_sequences: sequences of ``max_model_len`` that fit at once; vLLM logs it as the
            maximum concurrency.
        token_buckets: numbers of tokens that programs are compiled for.
        request_buckets: numbers of requests that programs are compiled for.
        backbones: programs of the model itself, which take longest to compile; None where not
            known.
        programs: all calls of the compiler at start-up; None where not known.
        problems: why it cannot be served, each with the nearest that can.
        concerns: what to know although it fits.
    """

    request: MemoryRequest | CpuMemoryRequest
    chips: int
    hbm_bytes: int
    weight_bytes: int
    kv_bytes: int
    workspace_bytes: int
    kv_bytes_per_token: int
    block_size: int
    blocks: int
    cached_tokens: int
    full_length_sequences: float
    token_buckets: tuple[int, ...]
    request_buckets: tuple[int, ...]
    backbones: int | None
    programs: int | None
    problems: tuple[Remark, ...] = ()
    concerns: tuple[Remark, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it can be served."""
        return not self.problems


def plan_memory(
    request: MemoryRequest, accelerators: Iterable[Accelerator] = ()
) -> MemoryPlan | NotPlannable:
    """The plan of ``request``, or why there is none.

    Args:
        request: what is to be served.
        accelerators: types that may be offered instead where it does not fit.
    """
    if (reason := not_covered(request)) is not None:
        return reason
    layout = lay_out(request)
    buckets = compile_buckets(request)
    found = tuple(obstacles(request, layout))
    nearest = instruction(request, nearest_that_fit(request, accelerators)) if found else ""
    return MemoryPlan(
        request=request,
        chips=request.tensor_parallel_size,
        hbm_bytes=layout.hbm_bytes,
        weight_bytes=layout.weight_bytes,
        kv_bytes=layout.kv_bytes,
        workspace_bytes=layout.hbm_bytes - layout.weight_bytes - layout.kv_bytes,
        kv_bytes_per_token=layout.kv_bytes_per_token,
        block_size=layout.block_size,
        blocks=layout.blocks,
        cached_tokens=layout.cached_tokens,
        full_length_sequences=layout.full_length_sequences,
        token_buckets=buckets.tokens,
        request_buckets=buckets.requests,
        backbones=buckets.backbones,
        programs=buckets.programs,
        problems=tuple(Remark(one.setting, one.what, nearest) for one in found),
        concerns=() if found else tuple(concerns(request, layout)),
    )
