"""How the tensors of a checkpoint, as they are stored, divide among chips. Pure.

For quantised checkpoints, whose bytes do not follow from the model's shape. What the TPU back-end
splits, repeats and pads is as in :mod:`tpuflex.planning.weights`. No published file was held
against a measurement; the one that is known is 26B-A4B in FP8, 27.99 GiB (docs/memory.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpuflex.catalog.rows import Model
from tpuflex.planning.rounding import ceiling, multiple
from tpuflex.planning.safetensors_header import Tensor, total_bytes

_VISION = {
    "vision_tower",
    "vision_model",
    "embed_vision",
    "vision_embedder",
    "multi_modal_projector",
}
_AUDIO = {"audio_tower", "embed_audio"}
_HEAD = "lm_head.weight"
#: Bounds of clipped projections, which the TPU back-end does not allocate.
_CLIPPING = ("input_min", "input_max", "output_min", "output_max")
#: Buffers that older files hold, and that no server loads.
_BUFFERS = ("rotary_emb.inv_freq",)
#: Segments of the names of matrices that each chip holds whole, as it does all vectors.
_REPLICATED = {
    "router",
    "gate",
    "per_layer_input_gate",
    "per_layer_projection",
    "per_layer_model_projection",
    "position_embedding_table",
}
_INTO_EXPERTS = ("gate_proj", "up_proj", "gate_up_proj")
_EXPERT_LANES = 128


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Bytes of a checkpoint that a server loads.

    Attributes:
        sharded: bytes that tensor parallelism spreads over the chips.
        replicated: bytes that each chip holds whole.
        into_experts: those of ``sharded`` that are the experts' two matrices that go in, which the
            back-end pads.
    """

    sharded: int
    replicated: int
    into_experts: int

    @classmethod
    def of(cls, loaded: Iterable[Tensor]) -> StoredWeights:
        """Those of ``loaded``, tensors that a server loads."""
        tensors = list(loaded)
        replicated = total_bytes(tensor for tensor in tensors if _is_replicated(tensor))
        return cls(
            sharded=total_bytes(tensors) - replicated,
            replicated=replicated,
            into_experts=total_bytes(tensor for tensor in tensors if _goes_into_expert(tensor)),
        )

    def per_chip(self, model: Model, tensor_parallel_size: int) -> int:
        """Bytes on each of ``tensor_parallel_size`` chips, rounded up."""
        sharded = self.sharded
        if model.experts:
            part = multiple(ceiling(model.expert_size, tensor_parallel_size), _EXPERT_LANES)
            padded = part * tensor_parallel_size
            sharded += ceiling(self.into_experts * (padded - model.expert_size), model.expert_size)
        return ceiling(sharded, tensor_parallel_size) + self.replicated


def loaded_tensors(tensors: Iterable[Tensor], *, tied: bool) -> tuple[Tensor, ...]:
    """Those of ``tensors`` that a server on TPUs loads: no audio tower, no second copy of a tied
    head, no bounds of clipped projections."""
    return tuple(
        tensor
        for tensor in tensors
        if not _segments(tensor) & _AUDIO
        and not tensor.name.endswith((*_CLIPPING, *_BUFFERS))
        and not (tied and tensor.name.endswith(_HEAD))
    )


def is_vision(tensor: Tensor) -> bool:
    """Whether ``tensor`` is of the vision tower, or of what leads from it to the text model."""
    return bool(_segments(tensor) & _VISION)


def is_text(tensor: Tensor) -> bool:
    """Whether ``tensor``, which a server loads, is of the text model."""
    return not is_vision(tensor)


def _is_replicated(tensor: Tensor) -> bool:
    return len(tensor.shape) < 2 or bool(_segments(tensor) & _REPLICATED)


def _goes_into_expert(tensor: Tensor) -> bool:
    segments = _segments(tensor)
    return "experts" in segments and bool(segments & set(_INTO_EXPERTS))


def _segments(tensor: Tensor) -> set[str]:
    return set(tensor.name.split("."))
