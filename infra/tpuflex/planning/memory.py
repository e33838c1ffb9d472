"""The memory plan of a server: what lies on each chip, what fits, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tpuflex.catalog.rows import Accelerator, Model
from tpuflex.planning.compile_buckets import compile_buckets
from tpuflex.planning.concerns import concerns
from tpuflex.planning.coverage import not_covered
from tpuflex.planning.kv_cache import cache_layers, can_be_split
from tpuflex.planning.layout import Layout, lay_out
from tpuflex.planning.quantization import ANOTHER_CHECKPOINT, needs_pytorch, refused_method
from tpuflex.planning.remark import Remark, gib
from tpuflex.planning.request import (
    DEFAULT_UTILIZATION,
    CpuMemoryRequest,
    MemoryRequest,
    NotPlannable,
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a request cannot be served.

    Attributes:
        setting: the key below ``tpuflex:`` that it is about.
        what: what is wrong, a sentence without its full stop.
        remedy: what to write, a whole sentence, where that is not the nearest request that fits.
    """

    setting: str
    what: str
    remedy: str = ""


def fits(request: MemoryRequest) -> bool:
    """Whether nothing stands in the way of ``request``."""
    return not any(obstacles(request, lay_out(request)))


def obstacles(request: MemoryRequest, layout: Layout) -> Iterator[Obstacle]:
    """What stands in the way of ``request``, of which ``layout`` is the memory."""
    yield from _quantization(request)
    yield from _parallelism(request)
    yield from _context(request)
    if request.quantized_on_load:
        yield from _loading(request, layout)
        return
    budget = int(layout.hbm_bytes * request.gpu_memory_utilization)
    if layout.pool_bytes <= 0:
        yield Obstacle(
            "slice.accelerator_type",
            f"the weights of {request.model.name} take {gib(layout.weight_bytes)} of each chip of "
            f"{request.accelerator.name}, and gpu_memory_utilization "
            f"{request.gpu_memory_utilization:g} gives weights and cache {gib(budget)}",
        )
    elif layout.weight_bytes + layout.kv_bytes > layout.hbm_bytes:
        yield Obstacle(
            "serving.extra_args",
            f"{layout.blocks:,} blocks take {gib(layout.kv_bytes)} of each chip, and beside the "
            f"weights there are {gib(layout.hbm_bytes - layout.weight_bytes)}",
        )
    elif layout.blocks < layout.blocks_per_sequence:
        needed = layout.blocks_per_sequence * layout.block_bytes
        yield Obstacle(
            "serving.flags.max_model_len",
            f"one sequence of {request.max_model_len:,} tokens needs {gib(needed)} of KV cache on "
            f"each chip, and {gib(layout.pool_bytes)} are left beside the weights "
            f"({layout.cached_tokens:,} tokens)",
        )


def _quantization(request: MemoryRequest) -> Iterator[Obstacle]:
    """What the files say of their quantisation, by the rules that hold for the flag."""
    method, model = request.model.quantization, request.model
    if method is None:
        return
    if (refused := refused_method(method)) is not None:
        yield Obstacle("model.weights", f"the files of {model.name} {refused}", ANOTHER_CHECKPOINT)
    elif needs_pytorch(method) and not request.by_pytorch:
        yield Obstacle(
            "serving.env.MODEL_IMPL_TYPE",
            f"the weights of {model.name} are quantized by {method}, at which the image's JAX"
            " implementation ends",
            "Write vllm, for its PyTorch implementation.",
        )


def beyond_context(model: Model, tokens: int) -> str:
    """Why no server of ``model`` takes ``tokens`` in one sequence, as far as its context is known;
    empty if one does."""
    if model.max_context is None or tokens <= model.max_context:
        return ""
    return f"{tokens:,} tokens are more than the {model.max_context:,} that {model.name} takes"


def _context(request: MemoryRequest) -> Iterator[Obstacle]:
    asked, scaled, remedy = request.max_model_len, request.rope_context, ""
    if not (problem := beyond_context(request.model, asked)):
        return
    if scaled is not None and asked <= scaled:
        remedy = (
            f"Write max_position_embeddings: {scaled} in hf_overrides, too: vLLM takes no length"
            f" from the scaling of RoPE. Or write max_model_len {request.model.max_context}."
        )
    yield Obstacle("serving.flags.max_model_len", problem, remedy)


def _loading(request: MemoryRequest, layout: Layout) -> Iterator[Obstacle]:
    """What is quantised while it is loaded has to be loaded first."""
    if layout.weight_bytes > layout.hbm_bytes:
        yield Obstacle(
            "slice.accelerator_type",
            f"the weights of {request.model.name} are quantised after loading, and to load them "
            f"takes {gib(layout.weight_bytes)} of each chip, which has {gib(layout.hbm_bytes)}",
        )


def _parallelism(request: MemoryRequest) -> Iterator[Obstacle]:
    key = "serving.flags.tensor_parallel_size"
    tp, model = request.tensor_parallel_size, request.model
    if tp > request.accelerator.chips:
        yield Obstacle(key, f"{tp} chips are more than {request.accelerator.name} has")
    heads = [f"{model.attention_heads} query heads"] if model.attention_heads % tp else []
    for number in sorted({layer.kv_heads for layer in cache_layers(model)}):
        if not can_be_split(number, tp):
            heads.append(f"{number} key-value heads")
    if heads:
        yield Obstacle(
            key, f"{model.name} has {' and '.join(heads)}, which {tp} chips cannot share evenly"
        )


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
        problems=tuple(Remark(one.setting, one.what, one.remedy or nearest) for one in found),
        concerns=() if found else tuple(concerns(request, layout)),
    )
