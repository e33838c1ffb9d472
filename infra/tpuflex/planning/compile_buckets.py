"""Shapes that the TPU back-end compiles before it serves.

A program is compiled for each bucket of tokens, and some for each bucket of requests; a step is
padded to the next bucket. Read from tpu-inference 0.32.0 (``runner/utils.py:163-253``,
``runner/tpu_runner.py:1079-1181``, ``runner/compilation_manager.py``) on 2026-11-21; boot logs
confirm the buckets, the programs for sampling and those of the backbone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tpuflex.planning.figure import multiple
from tpuflex.planning.request import CacheType, MemoryRequest

_FEWEST_REQUESTS = 8
#: Largest bucket that is compiled before the cache is allocated, too.
_EARLY_TOKENS = 1024
#: Values in 32 bits of the cache; the smallest bucket is no smaller.
_PACKING: dict[CacheType, int] = {"bfloat16": 2, "fp8": 4}
#: More buckets are not listed: no server would end its start.
MOST_BUCKETS = 1000


@dataclass(frozen=True, slots=True)
class CompileBuckets:
    """What start-up compiles.

    Attributes:
        tokens: buckets of tokens, ascending; the last is the greatest step.
        requests: buckets of requests, ascending.
        backbones: programs of the model itself, by far the longest to compile; None where not
            known.
        programs: calls of the compiler, of which some repeat a shape; without those of the vision
            tower. None where not known.
    """

    tokens: tuple[int, ...]
    requests: tuple[int, ...]
    backbones: int | None
    programs: int | None


def compile_buckets(request: MemoryRequest) -> CompileBuckets:
    """The buckets of ``request`` and how many programs they make."""
    tokens = tuple(_token_buckets(request))
    requests = tuple(_request_buckets(max(request.max_num_seqs, _FEWEST_REQUESTS)))
    if not request.precompile:
        return CompileBuckets(tokens, requests, 0, 0)
    if request.speculative:  # compiles programs of its own, for which there is no formula
        return CompileBuckets(tokens, requests, None, None)
    multimodal = not request.text_only and set(request.model.modalities) != {"text"}
    attention = len(requests) if request.attention_request_buckets else 1
    backbones = len(tokens) * attention * (2 if multimodal else 1)
    return CompileBuckets(
        tokens, requests, backbones, backbones + _others(request, tokens, requests, multimodal)
    )


def _others(
    request: MemoryRequest, tokens: tuple[int, ...], requests: tuple[int, ...], multimodal: bool
) -> int:
    """Programs beside the backbone."""
    early = 5 * len(requests) + sum(size <= _EARLY_TOKENS for size in tokens)
    embedding = 2 * len(tokens) if multimodal else 0
    substitution = (
        len({*tokens, *requests}) * (1 + len(requests)) if request.async_scheduling else 0
    )
    selection = sum(chosen <= size for size in tokens for chosen in requests)
    logits = structured = len(requests)
    return early + embedding + substitution + selection + logits + structured


def count_token_buckets(request: MemoryRequest) -> int:
    """About how many buckets of tokens there are (one more or less), without making them."""
    smallest, largest, gap = _bounds(request)
    doubled = max((gap or largest) // smallest, 1).bit_length()
    stepped = max(largest - gap, 0) // gap if gap else 1
    return doubled + stepped + len(request.compilation_sizes)


def _token_buckets(request: MemoryRequest) -> list[int]:
    smallest, largest, gap = _bounds(request)
    sizes = _generated(smallest, largest, gap)
    return sorted(
        {*(size for size in sizes if size <= largest), largest, *request.compilation_sizes}
    )


def _bounds(request: MemoryRequest) -> tuple[int, int, int]:
    """Smallest and largest bucket of tokens, and the step between large ones."""
    smallest = max(request.min_token_bucket, _PACKING[request.kv_cache_dtype])
    largest = multiple(request.max_num_batched_tokens, smallest)
    return smallest, largest, request.bucket_padding_gap


def _generated(smallest: int, largest: int, gap: int) -> Iterator[int]:
    """Sizes up to ``largest`` and perhaps one above it: doubled, from ``gap`` on in steps."""
    size = smallest
    while size <= min(gap or largest, largest):
        yield size
        size *= 2
    size //= 2
    while gap and size < largest:
        size += gap
        yield size


def _request_buckets(largest: int) -> Iterator[int]:
    size = _FEWEST_REQUESTS
    while size < largest:
        yield size
        size *= 2
    yield largest
