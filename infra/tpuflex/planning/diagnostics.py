"""What keeps a request from being served, and what to know of one that fits: its diagnostics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

from tpuflex.catalog.rows import Implementation, Model
from tpuflex.planning.compatibility import Level, compatibility
from tpuflex.planning.figure import GIB, gib, kib
from tpuflex.planning.kv_cache import (
    block_layout,
    block_table_fits,
    cache_layers,
    can_be_split,
    kv_bytes_per_token,
)
from tpuflex.planning.layout import Layout, lay_out
from tpuflex.planning.quantization import ANOTHER_CHECKPOINT, needs_pytorch, refused_method
from tpuflex.planning.request import MemoryRequest


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that forbids a plan, or that its reader should know.

    Attributes:
        setting: the key below ``tpuflex:`` that it is about, such as
            ``serving.flags.max_model_len``.
        what: what is wrong, a sentence without its full stop.
        nearest: what to write instead, a whole sentence; empty where nothing is to be written.
    """

    setting: str
    what: str
    nearest: str = ""

    @property
    def key(self) -> str:
        """The key of the stack file that it is about."""
        return f"tpuflex:{self.setting}"

    def to_json(self) -> dict[str, str]:
        """The diagnostic in a JSON document."""
        return {"key": self.key, "what": self.what, "nearest": self.nearest}


def problems(request: MemoryRequest, layout: Layout) -> Iterator[Diagnostic]:
    """What stands in the way of ``request``, of which ``layout`` is the memory."""
    yield from _quantization(request)
    yield from _parallelism(request)
    yield from _context(request)
    if request.quantized_on_load:
        yield from _loading(request, layout)
        return
    budget = int(layout.hbm_bytes * request.gpu_memory_utilization)
    device = request.accelerator.device
    if layout.pool_bytes <= 0:
        yield Diagnostic(
            "slice.accelerator_type",
            f"the weights of {request.model.name} take {gib(layout.weight_bytes)} of each {device}"
            f" of {request.accelerator.name}, and gpu_memory_utilization "
            f"{request.gpu_memory_utilization:g} gives weights and cache {gib(budget)}",
        )
    elif layout.weight_bytes + layout.kv_bytes > layout.hbm_bytes:
        yield Diagnostic(
            "serving.extra_args",
            f"{layout.blocks:,} blocks take {gib(layout.kv_bytes)} of each {device}, and beside"
            f" the weights there are {gib(layout.hbm_bytes - layout.weight_bytes)}",
        )
    elif layout.blocks < layout.blocks_per_sequence:
        needed = layout.blocks_per_sequence * layout.block_bytes
        yield Diagnostic(
            "serving.flags.max_model_len",
            f"one sequence of {request.max_model_len:,} tokens needs {gib(needed)} of KV cache on "
            f"each {device}, and {gib(layout.pool_bytes)} are left beside the weights "
            f"({layout.cached_tokens:,} tokens)",
        )


def _quantization(request: MemoryRequest) -> Iterator[Diagnostic]:
    """What the files say of their quantisation, by the rules that hold for the flag."""
    method, model = request.model.quantization, request.model
    if method is None:
        return
    if (refused := refused_method(method)) is not None:
        problem = f"the files of {model.name} {refused}"
        yield Diagnostic("model.weights", problem, ANOTHER_CHECKPOINT)
    elif needs_pytorch(method) and not request.by_pytorch:
        yield Diagnostic(
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


def _context(request: MemoryRequest) -> Iterator[Diagnostic]:
    asked, scaled, remedy = request.max_model_len, request.rope_context, ""
    if not (problem := beyond_context(request.model, asked)):
        return
    if scaled is not None and asked <= scaled:
        remedy = (
            f"Write max_position_embeddings: {scaled} in hf_overrides, too: vLLM takes no length"
            f" from the scaling of RoPE. Or write max_model_len {request.model.max_context}."
        )
    yield Diagnostic("serving.flags.max_model_len", problem, remedy)


def _loading(request: MemoryRequest, layout: Layout) -> Iterator[Diagnostic]:
    """What is quantised while it is loaded has to be loaded first."""
    if layout.weight_bytes > layout.hbm_bytes:
        yield Diagnostic(
            "slice.accelerator_type",
            f"the weights of {request.model.name} are quantised after loading, and to load them "
            f"takes {gib(layout.weight_bytes)} of each {request.accelerator.device}, which has "
            f"{gib(layout.hbm_bytes)}",
        )


def _parallelism(request: MemoryRequest) -> Iterator[Diagnostic]:
    key = "serving.flags.tensor_parallel_size"
    tp, model = request.tensor_parallel_size, request.model
    device = request.accelerator.device
    if tp > request.accelerator.devices:
        yield Diagnostic(key, f"{tp} {device}s are more than {request.accelerator.name} has")
    heads = [f"{model.attention_heads} query heads"] if model.attention_heads % tp else []
    for number in sorted({layer.kv_heads for layer in cache_layers(model)}):
        if not can_be_split(number, tp):
            heads.append(f"{number} key-value heads")
    if heads:
        yield Diagnostic(
            key, f"{model.name} has {' and '.join(heads)}, which {tp} {device}s cannot share evenly"
        )


@dataclass(frozen=True, slots=True)
class _Thin:
    """Below how many free bytes programs and activations may not fit, and what that was taken from.

    Guesses from a few reports (docs/memory.md): there is no formula.
    """

    free: int
    evidence: str


_THIN: dict[Implementation, _Thin] = {
    "flax_nnx": _Thin(
        13 * GIB // 10, "Gemma 4 E2B failed with 0.78 GiB on v5e, and served with 1.26 GiB"
    ),
    "torchax": _Thin(
        6 * GIB,
        "about 6 GiB of programs were reported of Gemma 4 26B and 31B on tpu7x, though 12B served "
        "with 2.5 GiB on v6e",
    ),
}

#: A cache below this share of the weights changes much when the weights differ a little.
_SMALL_CACHE = 0.1


def concerns(request: MemoryRequest, layout: Layout) -> Iterator[Diagnostic]:
    """What to know about ``request``, which fits, and of which ``layout`` is the memory."""
    if request.quantized_on_load:
        yield from _quantized_on_load(layout)
    else:
        yield from _preemption(request, layout)
        yield from _small_cache(layout)
    yield from _workspace(request, layout)
    yield from _eight_bit_cache(request)
    if not block_table_fits(request):
        yield Diagnostic(
            "serving.flags.block_size",
            f"blocks of {request.block_size} tokens make block tables larger than half of the "
            "chip's scalar memory, and the back-end checks that only when it chooses the size",
            f"Leave it out, or write {lay_out(replace(request, block_size=None)).block_size}.",
        )
    row = request.accelerator
    if (idle := row.devices - request.tensor_parallel_size) > 0:
        yield Diagnostic(
            "serving.flags.tensor_parallel_size",
            f"{idle} of the {row.devices} {row.device}s of {row.name} hold nothing",
            f"Write {row.devices}, or a smaller accelerator type.",
        )
    if not row.flex_start_api:
        yield Diagnostic(
            "slice.accelerator_type",
            f"the Cloud TPU API, which tpuflex asks for capacity, does not have {row.name}: this is"
            " a plan only",
        )
    yield from _reports(request)
    yield from _unproven(request)


def _quantized_on_load(layout: Layout) -> Iterator[Diagnostic]:
    yield Diagnostic(
        "serving.flags.additional_config",
        "the weights are quantised after they are loaded, and how much they take then is not "
        "published: the plan counts them in bfloat16, so the cache holds more than its "
        f"{layout.cached_tokens:,} tokens",
    )


def _preemption(request: MemoryRequest, layout: Layout) -> Iterator[Diagnostic]:
    fitting = layout.full_length_sequences
    if fitting >= request.max_num_seqs:
        return
    each = _longest_of_all(request, layout)
    nearest = f"Write {max(int(fitting), 1)} for none at any length"
    smaller = replace(request, kv_cache_dtype="fp8")
    more = lay_out(smaller).full_length_sequences
    if more > 1.05 * fitting:
        nearest += f", or kv_cache_dtype fp8, with which {more:.1f} fit"
    yield Diagnostic(
        "serving.flags.max_num_seqs",
        f"{floor(10 * fitting) / 10} sequences of {request.max_model_len:,} tokens fit, and up to "
        f"{request.max_num_seqs} are admitted: once they hold more than about {each:,} tokens "
        "each, some are preempted and computed again",
        f"{nearest}.",
    )


def _longest_of_all(request: MemoryRequest, layout: Layout) -> int:
    """The greatest length at which all admitted sequences fit at once, in tokens.

    By the blocks that a sequence of that length takes: where layers keep their window only, short
    sequences take almost as many as long ones.
    """
    fits, too_long = 0, request.max_model_len
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        shorter = replace(request, max_model_len=length, block_size=layout.block_size)
        if block_layout(shorter).blocks_per_sequence * request.max_num_seqs <= layout.blocks:
            fits = length
        else:
            too_long = length
    return fits


def _workspace(request: MemoryRequest, layout: Layout) -> Iterator[Diagnostic]:
    free = layout.hbm_bytes - int(layout.hbm_bytes * request.gpu_memory_utilization)
    device = request.accelerator.device
    thin = _THIN[request.path]
    if free >= thin.free:
        return
    share = int(100 * (1 - thin.free / layout.hbm_bytes)) / 100
    yield Diagnostic(
        "serving.flags.gpu_memory_utilization",
        f"{request.gpu_memory_utilization:g} leaves {gib(free)} of each {device} for programs"
        f" and activations, which may be too little: {thin.evidence}",
        f"Write {share:g} or less if it runs out of memory." if share > 0 else "",
    )


def _eight_bit_cache(request: MemoryRequest) -> Iterator[Diagnostic]:
    if request.kv_cache_dtype != "fp8":
        return
    tp, model = request.tensor_parallel_size, request.model
    eight, sixteen = (kv_bytes_per_token(model, tp, dtype) for dtype in ("fp8", "bfloat16"))
    if eight == sixteen:
        yield Diagnostic(
            "serving.flags.kv_cache_dtype",
            f"fp8 takes {kib(eight)} per token and chip, exactly what bfloat16 takes: with one "
            "key-value head per chip, its rows are padded",
            "Remove it: it costs accuracy and saves nothing here.",
        )


def _small_cache(layout: Layout) -> Iterator[Diagnostic]:
    if layout.pool_bytes < _SMALL_CACHE * layout.weight_bytes:
        change = layout.weight_bytes / layout.pool_bytes
        yield Diagnostic(
            "slice.accelerator_type",
            f"{gib(layout.pool_bytes)} of cache beside {gib(layout.weight_bytes)} of weights: if "
            f"the weights take 1 % more, the cache is {change:.0f} % smaller",
        )


def _reports(request: MemoryRequest) -> Iterator[Diagnostic]:
    """Whether anybody is known to have served the model on these chips."""
    model, row = request.model, request.accelerator
    reports = compatibility(model, row)
    if reports.level in (Level.SERVED, Level.GENERATION):
        return
    places = (
        f"{one.accelerator} ({one.source.date.isoformat()}, {_first_words(one.what)})"
        for one in model.seen
        if one.result == "served"
    )
    elsewhere = ", ".join(dict.fromkeys(places))
    failed = reports.seen
    yield Diagnostic(
        "slice.accelerator_type",
        f"the only report of {model.name} on {row.name} is of a failure "
        f"({failed[-1].source.date.isoformat()}): {failed[-1].what.rstrip('.')}"
        if failed
        else f"no report of {model.name} on {row.name} is known",
        f"Reported to serve: {elsewhere}." if elsewhere else "",
    )


def _first_words(what: str) -> str:
    """The first of what a report says of a run: its data type, or who ran it."""
    return re.split("[,;:]", what, maxsplit=1)[0]


def _unproven(request: MemoryRequest) -> Iterator[Diagnostic]:
    model = request.model
    if request.path == "torchax" and not request.weights_known:
        yield Diagnostic(
            "model.name",
            f"{model.name} is served by its PyTorch implementation, which holds more than the "
            "parameters: this plan adds a copy of a tied head and 0.5 GiB on each chip, as in two "
            "logs of Gemma 4 12B",
        )
    tower = not request.text_only and not request.weights_known
    if tower and set(model.modalities) != {"text"} and model.vision_params is None:
        yield Diagnostic(
            "model.name",
            f"what the parts of {model.name} for images take is not known, and not in this plan",
        )
