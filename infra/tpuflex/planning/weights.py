"""Bytes of weights on one chip.

On a chip lies its share of what tensor parallelism splits (embeddings, projections, feed-forward
blocks, experts), and the whole of what it repeats (norms, routers, small projections, the vision
tower's table of positions). Read from tpu-inference 0.32.0 (``models/jax/gemma4.py``,
``gemma4_mm.py``, ``qwen2.py``, ``qwen3.py``,
``layers/common/process_weights/moe_weights.py``) on 2026-11-21; agrees to 0.01 GiB with every boot
log of a bfloat16 model on the JAX path that is known (docs/memory.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tpuflex.catalog.rows import Family, Model, StoredBytes
from tpuflex.planning.figure import GIB, ceiling, multiple
from tpuflex.planning.kv_cache import full_attention_layers, padded_head_dim
from tpuflex.planning.request import MemoryRequest

#: Bytes of a parameter in bfloat16.
PARAMETER_BYTES = 2
#: What the PyTorch path holds on each chip beyond its parameters, in parameters: 0.5 GiB. The logs
#: of Gemma 4 12B have 0.51 GiB more on one chip and 0.47 GiB more on each of four; why, and whether
#: other models have less, is not known.
_PYTORCH_REST = GIB // 2 // PARAMETER_BYTES
#: Experts are cut into pieces of a multiple of this width.
_EXPERT_LANES = 128


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters.

    Attributes:
        sharded: those that tensor parallelism spreads over the chips.
        replicated: those that each chip holds whole.
    """

    sharded: int = 0
    replicated: int = 0

    def __add__(self, other: Parameters) -> Parameters:
        return Parameters(self.sharded + other.sharded, self.replicated + other.replicated)

    @property
    def total(self) -> int:
        """All parameters."""
        return self.sharded + self.replicated


@dataclass(frozen=True, slots=True)
class _Norms:
    """Norms of a layer of one family: as multiples of the hidden size, and on query and key."""

    hidden: int
    query_and_key: bool
    layer_scalar: bool = False


_NORMS: dict[Family, _Norms] = {
    "gemma4": _Norms(4, query_and_key=True, layer_scalar=True),
    "gemma3": _Norms(4, query_and_key=True),
    "llama": _Norms(2, query_and_key=False),
    "qwen2": _Norms(2, query_and_key=False),
    "qwen3": _Norms(2, query_and_key=True),
    "qwen3_moe": _Norms(2, query_and_key=True),
}
#: Families whose projections to Q, K and V have a bias, which is split as they are.
_BIASED: frozenset[Family] = frozenset({"qwen2"})


def text_parameters(model: Model) -> int:
    """Parameters of the text model by its shape alone, as the JAX path allocates them.

    That is with the key and value projections of layers that share another's cache, which Gemma
    4's checkpoints do not hold, and without padding.
    """
    return _text(model, lambda head_dim: head_dim).total


def weight_bytes(request: MemoryRequest) -> int:
    """Bytes of weights on each chip, rounded up."""
    if request.weight_bytes is not None:
        return request.weight_bytes
    tp = request.tensor_parallel_size
    if request.model.stored is not None:
        return _stored_bytes(request.model, request.model.stored, tp)
    parameters = _text(request.model, padded_head_dim) + _padding(request) + _vision(request)
    # What the shape does not explain cannot be told to be split.
    unexplained = max(request.model.text_params - text_parameters(request.model), 0)
    return ceiling(parameters.sharded * PARAMETER_BYTES, tp) + PARAMETER_BYTES * (
        parameters.replicated + unexplained
    )


def _stored_bytes(model: Model, stored: StoredBytes, tp: int) -> int:
    sharded = stored.sharded
    if model.experts:
        padding = _expert_padding(model, tp)
        sharded += ceiling(stored.into_experts * padding, model.expert_size)
    return ceiling(sharded, tp) + stored.replicated


def _text(model: Model, width: Callable[[int], int]) -> Parameters:
    embedding = model.vocab_size * model.hidden_size
    found = Parameters(embedding * (1 if model.tied_embeddings else 2), model.hidden_size)
    return (
        found
        + _per_layer_embedding(model)
        + _attention(model, width)
        + _feed_forward(model)
        + _norms(model, width)
    )


@dataclass(frozen=True, slots=True)
class _Attention:
    """Layers of one kind: how many, and their heads.

    ``key_value`` is the number of projections to K and V: one for both in full layers of Gemma 4
    with heads of their own (``attention_k_eq_v``). The cache holds K and V all the same.
    """

    layers: int
    kv_heads: int
    head_dim: int
    key_value: int = 2


def _kinds(model: Model) -> tuple[_Attention, _Attention]:
    full = full_attention_layers(model, model.layers)
    return (
        _Attention(
            full,
            model.global_kv_heads or model.kv_heads,
            model.global_head_dim or model.head_dim,
            2 if model.global_kv_heads is None else 1,
        ),
        _Attention(model.layers - full, model.kv_heads, model.head_dim),
    )


def _attention(model: Model, width: Callable[[int], int]) -> Parameters:
    rows = _projection_rows(model)
    return Parameters(
        sum(
            kind.layers
            * width(kind.head_dim)
            * (
                rows * (model.attention_heads + kind.key_value * kind.kv_heads)
                + model.hidden_size * model.attention_heads  # back from the heads
            )
            for kind in _kinds(model)
        )
    )


def _projection_rows(model: Model) -> int:
    """Parameters of one column of the projections to Q, K and V."""
    return model.hidden_size + (1 if model.family in _BIASED else 0)


def _feed_forward(model: Model) -> Parameters:
    narrow = model.intermediate_size or 0
    wide_layers = min(model.wide_layers, model.layers) if model.wide_intermediate_size else 0
    dense = model.layers * narrow + wide_layers * ((model.wide_intermediate_size or 0) - narrow)
    experts = model.layers * model.experts * model.expert_size
    router = model.hidden_size * model.experts
    if model.family == "gemma4" and model.experts:
        # Three norms around the experts, a scale of the router's input and one of each expert.
        router += 4 * model.hidden_size + model.experts
    return Parameters(3 * model.hidden_size * (dense + experts), model.layers * router)


def _norms(model: Model, width: Callable[[int], int]) -> Parameters:
    norms = _NORMS[model.family]
    found = model.layers * (norms.hidden * model.hidden_size + norms.layer_scalar)
    if norms.query_and_key:
        found += sum(2 * kind.layers * width(kind.head_dim) for kind in _kinds(model))
    return Parameters(replicated=found)


def _per_layer_embedding(model: Model) -> Parameters:
    """Per-layer embeddings (PLE): a table that is split, and projections that are repeated."""
    width = model.per_layer_embedding
    if not width:
        return Parameters()
    layers, hidden = model.layers, model.hidden_size
    projection_and_norm = hidden * layers * width + width
    gate_projection_and_norm = layers * (2 * hidden * width + hidden)
    return Parameters(
        model.vocab_size * layers * width, projection_and_norm + gate_projection_and_norm
    )


def _padding(request: MemoryRequest) -> Parameters:
    """What is allocated beyond the parameters so that chips get equal parts."""
    model, tp = request.model, request.tensor_parallel_size
    # Of the three matrices of an expert, the back-end pads the two that go in.
    padding = 2 * model.layers * model.experts * model.hidden_size * _expert_padding(model, tp)
    # Gemma 4 on JAX cuts a head into parts; the others repeat it.
    if not (model.family == "gemma4" and request.path == "flax_nnx"):
        for kind in _kinds(model):
            width = _projection_rows(model) * padded_head_dim(kind.head_dim)
            padding += kind.layers * kind.key_value * width * max(tp - kind.kv_heads, 0)
    if request.path == "torchax":
        # A tied head is a copy there.
        copy = model.vocab_size * model.hidden_size if model.tied_embeddings else 0
        return Parameters(padding + copy, _PYTORCH_REST)
    return Parameters(padding)


def _expert_padding(model: Model, tp: int) -> int:
    """How much wider than it is an expert is allocated on ``tp`` chips."""
    return multiple(ceiling(model.expert_size, tp), _EXPERT_LANES) * tp - model.expert_size


def _vision(request: MemoryRequest) -> Parameters:
    """The vision tower; counted whole on each chip where it is not known what of it is split."""
    total = request.model.vision_params
    if total is None or request.text_only:
        return Parameters()
    replicated = request.model.vision_replicated_params
    replicated = total if replicated is None else replicated
    return Parameters(total - replicated, replicated)
