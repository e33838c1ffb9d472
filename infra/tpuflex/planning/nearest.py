"""The nearest configurations that fit, for a request that does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from tpuflex.catalog.rows import Accelerator
from tpuflex.planning.obstacles import fits
from tpuflex.planning.request import DEFAULT_UTILIZATION, MemoryRequest

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
    """The sentence that offers ``nearest`` to whoever wrote ``request``."""
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
    for exponent in reversed(range(request.accelerator.chips.bit_length())):
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
            yield replace(request, accelerator=new, tensor_parallel_size=new.chips)


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
