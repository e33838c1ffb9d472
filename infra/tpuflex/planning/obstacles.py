"""What makes a server impossible: it would not start, or never serve a sequence of full length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tpuflex.planning.kv_cache import cache_layers, can_be_split
from tpuflex.planning.layout import Layout, lay_out
from tpuflex.planning.remark import gib
from tpuflex.planning.request import MemoryRequest


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a request cannot be served.

    Attributes:
        setting: the key below ``tpuflex:`` that it is about.
        what: what is wrong, a sentence without its full stop.
    """

    setting: str
    what: str


def fits(request: MemoryRequest) -> bool:
    """Whether nothing stands in the way of ``request``."""
    return not any(obstacles(request, lay_out(request)))


def obstacles(request: MemoryRequest, layout: Layout) -> Iterator[Obstacle]:
    """What stands in the way of ``request``, of which ``layout`` is the memory."""
    yield from _parallelism(request)
    longest = request.model.max_context
    if longest is not None and request.max_model_len > longest:
        yield Obstacle(
            "serving.flags.max_model_len",
            f"{request.max_model_len:,} tokens are more than the {longest:,} that "
            f"{request.model.name} takes",
        )
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
