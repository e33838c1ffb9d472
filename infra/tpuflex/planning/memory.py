"""The memory plan of a server: what lies on each chip, what fits, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tpuflex.catalog.rows import Accelerator, Source
from tpuflex.planning.compile_buckets import MOST_BUCKETS, compile_buckets, count_token_buckets
from tpuflex.planning.diagnostics import Diagnostic, concerns, problems
from tpuflex.planning.figure import source_json
from tpuflex.planning.kv_cache import cache_layers
from tpuflex.planning.layout import lay_out
from tpuflex.planning.request import (
    DEFAULT_UTILIZATION,
    CpuMemoryRequest,
    MemoryRequest,
    NotPlannable,
)


def fits(request: MemoryRequest) -> bool:
    """Whether nothing stands in the way of ``request``."""
    return not any(problems(request, lay_out(request)))


#: Contexts are offered in multiples of this.
_CONTEXT_STEP = 256


def nearest_that_fit(
    request: MemoryRequest, accelerators: Iterable[Accelerator] = ()
) -> tuple[MemoryRequest, ...]:
    """Requests that fit and are nearest to ``request``, nearest first; itself if it fits.

    First what keeps the context: one change of parallel size, utilisation (up to vLLM's default),
    cache type, or to a larger type of the same generation from ``accelerators``; where none of
    these is enough, all of them together. Then a shorter context, on the fewest chips. Empty where
    nothing fits.
    """
    if fits(request):
        return (request,)
    rows = tuple(accelerators)
    together = tuple(_all_changes(request, rows))
    kept = tuple(_single_changes(request, rows)) or tuple(islice(filter(fits, together), 1))
    smaller = (other for other in _larger_types(request, rows) if _is_smaller(other, kept))
    shorter = tuple(islice(filter(None, map(_longest_context, (request, *smaller))), 1))
    if kept or shorter:
        return (*kept, *shorter)
    return tuple(islice(filter(None, map(_longest_context, together)), 1))


def difference(request: MemoryRequest, other: MemoryRequest) -> str:
    """What to write to get from ``request`` to ``other``, such as ``max_model_len 8,192``."""
    parts = []
    if other.accelerator.name != request.accelerator.name:
        parts.append(f"accelerator_type {other.accelerator.name}")
    if other.tensor_parallel_size != request.tensor_parallel_size:
        parts.append(f"tensor_parallel_size {other.tensor_parallel_size}")
    if other.kv_cache_dtype != request.kv_cache_dtype:
        parts.append(f"kv_cache_dtype {other.kv_cache_dtype}")
    if other.gpu_memory_utilization != request.gpu_memory_utilization:
        parts.append(f"gpu_memory_utilization {other.gpu_memory_utilization:g}")
    if other.max_model_len != request.max_model_len:
        parts.append(f"max_model_len {other.max_model_len}")
    if other.blocks != request.blocks:
        parts.append("no --num-gpu-blocks-override")
    return " with ".join([parts[0], " and ".join(parts[1:])] if len(parts) > 1 else parts)


def instruction(request: MemoryRequest, nearest: tuple[MemoryRequest, ...]) -> str:
    """The sentence that offers ``nearest`` instead of ``request``."""
    if not nearest:
        return "Nothing near it fits, on no accelerator type of the same generation and one host."
    return f"Write {', or '.join(difference(request, other) for other in nearest)}."


def _is_smaller(other: MemoryRequest, kept: tuple[MemoryRequest, ...]) -> bool:
    return all(other.accelerator.chips < one.accelerator.chips for one in kept)


def _single_changes(
    request: MemoryRequest, accelerators: Sequence[Accelerator]
) -> Iterator[MemoryRequest]:
    for change in (_own_blocks, _other_parallel_size, _higher_utilization, _smaller_cache):
        yield from islice(filter(fits, change(request)), 1)
    yield from islice(filter(fits, _larger_types(request, accelerators)), 1)


def _all_changes(
    request: MemoryRequest, accelerators: Sequence[Accelerator]
) -> Iterator[MemoryRequest]:
    """Everything that leaves more for the cache, on the same chips and then on larger types."""
    best = request
    for change in (_own_blocks, _higher_utilization, _smaller_cache):
        best = next(change(best), best)
    for candidate in (best, *_larger_types(best, accelerators)):
        yield candidate
        yield from _other_parallel_size(candidate)


def _other_parallel_size(request: MemoryRequest) -> Iterator[MemoryRequest]:
    """Other numbers of the same chips, powers of two, the largest first."""
    if request.weight_bytes is not None:
        return  # measured for this one
    for exponent in reversed(range(request.accelerator.devices.bit_length())):
        if request.tensor_parallel_size != 1 << exponent:
            yield replace(request, tensor_parallel_size=1 << exponent)


def _own_blocks(request: MemoryRequest) -> Iterator[MemoryRequest]:
    """As many blocks as fit, instead of a number of one's own."""
    if request.blocks is not None:
        yield replace(request, blocks=None)


def _higher_utilization(request: MemoryRequest) -> Iterator[MemoryRequest]:
    if request.gpu_memory_utilization < DEFAULT_UTILIZATION:
        yield replace(request, gpu_memory_utilization=DEFAULT_UTILIZATION)


def _smaller_cache(request: MemoryRequest) -> Iterator[MemoryRequest]:
    if request.kv_cache_dtype == "bfloat16":
        yield replace(request, kv_cache_dtype="fp8")


def _larger_types(
    request: MemoryRequest, accelerators: Sequence[Accelerator]
) -> Iterator[MemoryRequest]:
    """The same on all chips of larger types of the generation, the smallest first.

    A weight that was measured on fewer chips says nothing about more.
    """
    if request.weight_bytes is not None:
        return
    old = request.accelerator
    for new in sorted(accelerators, key=lambda row: row.chips):
        usable = new.hosts == 1 and new.hbm_bytes_per_chip is not None
        if new.generation == old.generation and new.chips > old.chips and usable:
            yield replace(request, accelerator=new, tensor_parallel_size=new.devices)


def _longest_context(request: MemoryRequest) -> MemoryRequest | None:
    """The request with the longest context that fits, found by bisection."""
    low, high = 0, (request.max_model_len - 1) // _CONTEXT_STEP
    while low < high:
        middle = (low + high + 1) // 2
        if fits(replace(request, max_model_len=middle * _CONTEXT_STEP)):
            low = middle
        else:
            high = middle - 1
    return replace(request, max_model_len=low * _CONTEXT_STEP) if low else None


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
    problems: tuple[Diagnostic, ...] = ()
    concerns: tuple[Diagnostic, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it can be served."""
        return not self.problems

    @property
    def is_lower_bound(self) -> bool:
        """Whether the cache turns out larger: the weights shrink after they are loaded."""
        return isinstance(self.request, MemoryRequest) and self.request.quantized_on_load

    @property
    def row_sources(self) -> dict[str, Source]:
        """Where the rows come from that it is computed from, by kind."""
        request = self.request
        sources = {"model": request.model.source}
        if isinstance(request, MemoryRequest):
            sources["accelerator"] = request.accelerator.source
        return sources

    def to_json(self) -> dict[str, object]:
        """The plan in a JSON document; bytes are per chip."""
        return {
            **self.request.to_json(),
            "fits": self.fits,
            "tensor_parallel_size": self.chips,
            "hbm_bytes": self.hbm_bytes,
            "weight_bytes": self.weight_bytes,
            "kv_bytes": self.kv_bytes,
            "workspace_bytes": self.workspace_bytes,
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "block_size": self.block_size,
            "blocks": self.blocks,
            "cached_tokens": self.cached_tokens,
            "full_length_sequences": round(self.full_length_sequences, 2),
            "token_buckets": list(self.token_buckets),
            "request_buckets": list(self.request_buckets),
            "programs": self.programs,
            "problems": [each.to_json() for each in self.problems],
            "concerns": [each.to_json() for each in self.concerns],
            "rows": {kind: source_json(source) for kind, source in self.row_sources.items()},
        }


def plan_memory(
    request: MemoryRequest, accelerators: Iterable[Accelerator] = ()
) -> MemoryPlan | NotPlannable:
    """The plan of ``request``, or why there is none.

    Args:
        request: what to serve.
        accelerators: types that may be offered instead where it does not fit.
    """
    if (reason := not_covered(request)) is not None:
        return reason
    layout = lay_out(request)
    buckets = compile_buckets(request)
    found = tuple(problems(request, layout))
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
        problems=tuple(replace(one, nearest=one.nearest or nearest) for one in found),
        concerns=() if found else tuple(concerns(request, layout)),
    )


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
