"""Parameters of a vision tower by what config.json says of it. Pure.

Counted as transformers 5.19 makes them (``modeling_gemma4.py``, ``modeling_siglip.py``,
``modeling_gemma3.py``; read, and built on the meta device, on 2026-11-22). The bounds of clipped
projections, which are scalars beside each, are left out: the TPU back-end allocates none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tpuflex.planning.hub_config import VisionConfig
from tpuflex.planning.weights import Parameters

#: What a Gemma 4 config.json leaves out.
_GEMMA4 = VisionConfig(
    hidden_size=768,
    intermediate_size=3072,
    num_hidden_layers=16,
    num_attention_heads=12,
    num_key_value_heads=12,
    head_dim=64,
    patch_size=16,
    position_embedding_size=10240,
)
_COLOURS = 3


def vision_parameters(vision: VisionConfig, text_hidden: int) -> Parameters | None:
    """Parameters of ``vision`` and of its projection to a text model ``text_hidden`` wide.

    Returns:
        None where the tower is none that is known, or config.json leaves out what it takes.
    """
    count = _TOWERS.get(vision.model_type)
    return None if count is None else count(vision, text_hidden)


def _gemma4(vision: VisionConfig, text_hidden: int) -> Parameters:
    whole = _GEMMA4.model_copy(update=vision.model_dump(exclude_none=True))
    numbers = [getattr(whole, name) for name in ("hidden_size", "intermediate_size", "head_dim")]
    hidden, inner, head_dim = (int(number) for number in numbers)
    layers = whole.num_hidden_layers or 0
    heads = (whole.num_attention_heads or 0) + (whole.num_key_value_heads or 0)
    layer = 2 * hidden * heads * head_dim + 3 * hidden * inner
    patches = hidden * _COLOURS * (whole.patch_size or 0) ** 2
    sharded = patches + layers * layer + hidden * text_hidden
    norms = layers * (4 * hidden + 2 * head_dim) + (2 * hidden if whole.standardize else 0)
    return Parameters(sharded, 2 * (whole.position_embedding_size or 0) * hidden + norms)


def _siglip(vision: VisionConfig, text_hidden: int) -> Parameters | None:
    hidden, inner, layers = vision.hidden_size, vision.intermediate_size, vision.num_hidden_layers
    patch, image = vision.patch_size, vision.image_size
    if not (hidden and inner and layers and patch and image):
        return None
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = 2 * hidden * inner + inner + hidden
    norms = 4 * hidden
    embedding = hidden * _COLOURS * patch**2 + hidden + (image // patch) ** 2 * hidden
    projector = hidden * text_hidden + hidden
    tower = embedding + layers * (attention + feed_forward + norms) + 2 * hidden
    # What the PyTorch path, which serves it, splits is not known: all of it is counted whole.
    return Parameters(replicated=tower + projector)


_TOWERS: Mapping[str, Callable[[VisionConfig, int], Parameters | None]] = {
    "gemma4_vision": _gemma4,
    "siglip_vision_model": _siglip,
}
