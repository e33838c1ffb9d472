"""The KV cache on one chip: which layers own one, bytes per token, and blocks.

Read from tpu-inference 0.32.0 (``kernels/ragged_paged_attention/v3/kernel.py:261-275`` and
``kernel_hd64.py:236-251``, ``runner/kv_cache_manager.py:480-700``,
``layers/vllm/backends/flash_attn.py:110-145``, ``utils.py:325-340``) and from
``v1/core/kv_cache_utils.py`` of vLLM 0.32.0, on 2026-11-21. docs/memory.md has the formulas in one
place, and what was seen in logs beside what they give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tpuflex.catalog.rows import Model
from tpuflex.planning.figure import ceiling, multiple, power_of_two
from tpuflex.planning.request import CacheType, MemoryRequest

#: Bytes of a number in the cache.
CACHE_BYTES: dict[CacheType, int] = {"bfloat16": 2, "fp8": 1}
#: Width of a vector register: heads are padded to it, and pages of 64-wide heads hold K beside V.
_LANES = 128
#: Width of a head for which the back-end has a kernel of its own.
_NARROW = 64

#: Half of a v6e's scalar memory, which the block tables of all sequences must fit in, and the bytes
#: of one entry.
_BLOCK_TABLE_BYTES = 1024 * 1024 // 2
_BLOCK_ENTRY_BYTES = 4
_SMALLEST_BLOCK, _LARGEST_BLOCK = 16, 256
#: Longer contexts get the smallest block: larger ones spill vector memory.
_LONG_CONTEXT = 8192

#: Up to this factor between the numbers of full and sliding-window layers, vLLM pads the fewer.
_PADDED_GROUP = 1.5


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """A layer that owns a cache.

    Attributes:
        kv_heads: key-value heads, of all chips.
        head_dim: width of a head.
        window: sliding window in tokens; None where the layer attends to the whole context.
    """

    kv_heads: int
    head_dim: int
    window: int | None


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """How the blocks of the cache are cut.

    Attributes:
        block_bytes: bytes that one block takes on one chip.
        blocks_per_sequence: blocks that a sequence of the greatest length holds.
    """

    block_bytes: int
    blocks_per_sequence: int


def full_attention_layers(model: Model, first: int) -> int:
    """How many of the ``first`` layers attend to the whole context."""
    every = model.full_attention_every
    return first if every is None else first // every


def cache_layers(model: Model) -> Counter[CacheLayer]:
    """The layers that own a cache, with their numbers; the last ones may share another's."""
    owners = max(model.layers - model.kv_shared_layers, 0)
    full = full_attention_layers(model, owners)
    heads, width = model.global_kv_heads or model.kv_heads, model.global_head_dim or model.head_dim
    kinds: Counter[CacheLayer] = Counter()
    kinds[CacheLayer(heads, width, None)] += full
    kinds[CacheLayer(model.kv_heads, model.head_dim, model.window)] += owners - full
    return +kinds  # without the kinds of no layer


def padded_head_dim(head_dim: int) -> int:
    """The width of a head on the chip: 64, or a multiple of 128."""
    return _NARROW if head_dim == _NARROW else multiple(head_dim, _LANES)


def can_be_split(kv_heads: int, tensor_parallel_size: int) -> bool:
    """Whether so many key-value heads can be spread over so many chips, or repeated on them."""
    return kv_heads % tensor_parallel_size == 0 or tensor_parallel_size % kv_heads == 0


def layer_token_bytes(layer: CacheLayer, tensor_parallel_size: int, dtype: CacheType) -> int:
    """Bytes of K and V of one token on one chip, in one layer.

    Rows are packed to 32 bits: with one head per chip, the two rows of K and V take as much in
    8 bits as in 16.
    """
    heads = ceiling(layer.kv_heads, tensor_parallel_size)
    size = CACHE_BYTES[dtype]
    packing = 4 // size
    if layer.head_dim == _NARROW:
        return multiple(heads, packing) * _LANES * size
    return multiple(2 * heads, packing) * padded_head_dim(layer.head_dim) * size


def kv_bytes_per_token(model: Model, tensor_parallel_size: int, dtype: CacheType) -> int:
    """Bytes of K and V of one token on one chip, in all layers that own a cache."""
    return sum(
        count * layer_token_bytes(layer, tensor_parallel_size, dtype)
        for layer, count in cache_layers(model).items()
    )


def default_block_size(max_model_len: int, max_num_seqs: int) -> int:
    """The block size that the back-end chooses when none is asked for."""
    base = (
        _SMALLEST_BLOCK
        if max_model_len > _LONG_CONTEXT
        else min(max(power_of_two(max_model_len) // 16, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    )
    return max(base, _smallest_block_of_table(max_model_len, max_num_seqs))


def block_table_fits(request: MemoryRequest) -> bool:
    """Whether the block tables fit; the back-end sees to it only when it chooses the block size."""
    return request.block_size is None or request.block_size >= _smallest_block_of_table(
        request.max_model_len, request.max_num_seqs
    )


def block_size(request: MemoryRequest) -> int:
    """Tokens in one block."""
    return request.block_size or default_block_size(request.max_model_len, request.max_num_seqs)


def block_layout(request: MemoryRequest) -> BlockLayout:
    """How the cache of ``request`` is cut.

    The JAX path keeps the whole context in all layers, whatever their window. The PyTorch path
    does so where heads differ in width (Gemma 4), and uses the window elsewhere (Gemma 3).
    """
    tokens, layers = block_size(request), cache_layers(request.model)
    tp, dtype = request.tensor_parallel_size, request.kv_cache_dtype
    if keeps_window(request):
        return grouped_layout(
            layers,
            lambda layer: layer_token_bytes(layer, tp, dtype),
            tokens=tokens,
            max_model_len=request.max_model_len,
            in_flight=request.max_num_batched_tokens * (2 if request.async_scheduling else 1),
        )
    return BlockLayout(
        block_bytes=tokens * kv_bytes_per_token(request.model, tp, dtype),
        blocks_per_sequence=ceiling(request.max_model_len, tokens),
    )


def keeps_window(request: MemoryRequest) -> bool:
    """Whether sliding-window layers keep their window only."""
    layers = cache_layers(request.model)
    return (
        request.path == "torchax"
        and any(layer.window is not None for layer in layers)
        and any(layer.window is None for layer in layers)
        and len({padded_head_dim(layer.head_dim) for layer in layers}) == 1
    )


def grouped_layout(
    layers: Counter[CacheLayer],
    token_bytes: Callable[[CacheLayer], int],
    *,
    tokens: int,
    max_model_len: int,
    in_flight: int,
) -> BlockLayout:
    """How vLLM cuts a cache of layers with windows and without.

    Layers of a kind are cut into groups of equal size, and a block id is a block in each layer of
    one group. All blocks take the same bytes: those of layers with narrower heads hold more tokens,
    or are padded. Read from ``unify_kv_cache_spec_page_size`` and
    ``_get_kv_cache_groups_uniform_page_size`` of ``v1/core/kv_cache_utils.py`` and
    ``SlidingWindowSpec`` of ``v1/kv_cache_interface.py``; equal to what the server reports on the
    CPU (tests/acceptance/vllm/test_against_vllm.py). No boot log of such a model on a TPU is known.

    Args:
        layers: the layers that own a cache, with their numbers.
        token_bytes: bytes of one token in a layer.
        tokens: tokens of a block in the layers whose tokens take most.
        max_model_len: longest sequence, in tokens.
        in_flight: tokens that are computed but not settled, beside a window's.
    """
    widest = max(token_bytes(layer) for layer in layers)
    group = min(layers.values())
    if max(layers.values()) < _PADDED_GROUP * group:
        group = max(layers.values())
    blocks = 0
    for layer, count in layers.items():
        held = tokens if widest % token_bytes(layer) else tokens * widest // token_bytes(layer)
        needed = ceiling(max_model_len, held)
        if layer.window is not None:
            needed = ceiling(min(layer.window - 1 + in_flight, max_model_len), held) + 1
        blocks += ceiling(count, group) * needed
    return BlockLayout(block_bytes=group * tokens * widest, blocks_per_sequence=blocks)


def _smallest_block_of_table(max_model_len: int, max_num_seqs: int) -> int:
    entries = max(_BLOCK_TABLE_BYTES // max_num_seqs // _BLOCK_ENTRY_BYTES, 1)
    return power_of_two(ceiling(max_model_len, entries))
