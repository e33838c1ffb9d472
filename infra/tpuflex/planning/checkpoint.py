"""A checkpoint as a row of the catalog: from its config.json and its safetensors headers. Pure.

The row holds the shape, which the planner's rules need. The headers, where they were read, prove
it: a checkpoint whose tensors are not what its config.json describes is refused, because every
figure computed from either would be wrong.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from tpuflex.catalog.rows import Modality, Model, Source, StoredBytes
from tpuflex.errors import UnknownModelError, WeightsError
from tpuflex.planning.hub_config import (
    HubConfig,
    VisionConfig,
    full_attention_every,
    longest_context,
    quantization_of,
    read_config,
)
from tpuflex.planning.kv_cache import full_attention_layers
from tpuflex.planning.safetensors_header import Tensor, total_bytes
from tpuflex.planning.weights import Parameters, text_parameters

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


def stored_bytes(loaded: Iterable[Tensor]) -> StoredBytes:
    """Bytes of ``loaded``, tensors that a server loads, by how they are spread over chips."""
    tensors = list(loaded)
    replicated = total_bytes(tensor for tensor in tensors if _is_replicated(tensor))
    return StoredBytes(
        sharded=total_bytes(tensors) - replicated,
        replicated=replicated,
        into_experts=total_bytes(tensor for tensor in tensors if _goes_into_expert(tensor)),
    )


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


#: Element types of weights that are not quantised, by their names in config.json.
_FLOATS = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
#: Stands in the row until its text parameters are counted.
_UNCOUNTED = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the files of a model say of it.

    Attributes:
        where: the place of the files.
        quantization: method by which its weights are quantised, such as ``fp8``, by vLLM's name;
            None if they are not.
        row: its row of the catalog; None where no memory plan can be made of its config.json.
        unknown: why there is no row, if there is none.
        dtype: type in which most of its text weights are stored, such as ``bfloat16``; None if
            neither config.json nor the headers say.
        weight_bytes: bytes of all its tensors, exact; None where no headers were read.
    """

    where: str
    quantization: str | None
    row: Model | None = None
    unknown: WeightsError | None = None
    dtype: str | None = None
    weight_bytes: int | None = None

    @property
    def model(self) -> Model:
        """Its row.

        Raises:
            WeightsError: there is none, for the reason :attr:`unknown`.
        """
        if self.row is None:
            raise self.unknown or WeightsError(f"{self.where} was not read")
        return self.row


def describe(
    config: dict[str, JsonValue],
    tensors: Sequence[Tensor] | None,
    *,
    name: str,
    source: Source,
    where: str,
) -> Checkpoint:
    """The checkpoint that ``config`` and ``tensors`` describe.

    Args:
        config: its config.json.
        tensors: the tensors that its files' headers list; None if they were not read.
        name: what to call the model.
        source: where it was read, and when.
        where: names config.json in errors.

    Raises:
        WeightsError: the headers are not those of the model that config.json describes.
    """
    weight_bytes = None if tensors is None else total_bytes(tensors)
    method = None
    try:
        method = quantization_of(config, where)
        parsed = read_config(config, where)
        shape = _row(parsed, name, source, where)
    except WeightsError as error:
        return Checkpoint(source.where, method, unknown=error, weight_bytes=weight_bytes)
    model = shape.model_copy(update={"text_params": text_parameters(shape), "quantization": method})
    if parsed.architecture.family == "qwen3_moe" or model.experts:
        model = model.model_copy(update={"active_params": _active(model)})
    if tensors is None:
        return Checkpoint(source.where, method, model, dtype=parsed.dtype)
    loaded = loaded_tensors(tensors, tied=model.tied_embeddings)
    _check_tensors(model, loaded, where)
    vision = sum(tensor.elements for tensor in loaded if is_vision(tensor))
    if method is not None:
        model = model.model_copy(update={"stored": stored_bytes(loaded)})
    elif vision and model.vision_params is None:
        model = model.model_copy(update={"vision_params": vision})
    return Checkpoint(
        source.where,
        method,
        model,
        dtype=_stored_dtype(loaded) or parsed.dtype,
        weight_bytes=weight_bytes,
    )


def check_model(config: dict[str, JsonValue], tensors: Sequence[Tensor], where: str) -> None:
    """Check that ``config`` and ``tensors`` are a whole model, as far as rules for its architecture
    are known.

    Raises:
        WeightsError: they are none.
    """
    nowhere = Source(where=where[:600], date=dt.date.min)
    found = describe(config, tensors, name="model", source=nowhere, where=where)
    if found.unknown is not None and not isinstance(found.unknown, UnknownModelError):
        raise found.unknown


def _row(config: HubConfig, name: str, source: Source, where: str) -> Model:
    """The row of ``config``, whose text parameters are not counted yet."""
    text, family = config.text, config.architecture.family
    every = full_attention_every(config, where) if family in ("gemma3", "gemma4") else None
    mixed = family == "qwen3_moe" or text.enable_moe_block
    wide = text.use_double_wide_mlp and text.num_kv_shared_layers > 0
    if not mixed and text.intermediate_size is None:
        raise UnknownModelError(f"{where}: intermediate_size is missing")
    values = {
        "name": name,
        "family": family,
        "implementation": config.architecture.implementation,
        "layers": text.num_hidden_layers,
        "hidden_size": text.hidden_size,
        # Qwen3-MoE's config.json has the width of a dense block, of which the model has none.
        "intermediate_size": None if family == "qwen3_moe" else text.intermediate_size,
        "wide_intermediate_size": 2 * text.intermediate_size
        if wide and text.intermediate_size
        else None,
        "wide_layers": text.num_kv_shared_layers if wide else 0,
        "attention_heads": text.num_attention_heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "full_attention_every": every,
        "window": text.sliding_window if every else None,
        "kv_shared_layers": text.num_kv_shared_layers,
        "vocab_size": text.vocab_size,
        "tied_embeddings": text.tie_word_embeddings,
        "max_context": longest_context(
            text.max_position_embeddings, text.rope_parameters or text.rope_scaling, family
        ),
        "modalities": _modalities(config),
        "audio_tower": config.audio and "Unified" not in config.architecture.name,
        "text_params": _UNCOUNTED,
        "source": source,
        **(_global_heads(config) if family == "gemma4" else {}),
        **(_experts(config, where) if mixed else {}),
        **_vision(config),
    }
    try:
        return Model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise WeightsError(f"{where} gives no row of the catalog: {key}: {first['msg']}") from error


def _modalities(config: HubConfig) -> tuple[Modality, ...]:
    takes: list[Modality] = ["text"]
    takes += ["image"] if config.vision else []
    takes += ["audio"] if config.audio else []
    takes += ["video"] if config.vision and config.video else []
    return tuple(takes)


def _global_heads(config: HubConfig) -> dict[str, int | None]:
    """Gemma 4's heads of full-attention layers. ``global_kv_heads`` also says that K is V there."""
    text = config.text
    own = text.num_global_key_value_heads or config.kv_heads
    width = text.global_head_dim
    return {
        "global_kv_heads": own if text.attention_k_eq_v else None,
        "global_head_dim": width if width != config.head_dim else None,
        "per_layer_embedding": text.hidden_size_per_layer_input or 0,
    }


def _experts(config: HubConfig, where: str) -> dict[str, int]:
    text = config.text
    count, size, used = text.num_experts, text.moe_intermediate_size, text.num_experts_per_tok
    if not (count and size and used) or used > count:
        raise WeightsError(
            f"{where}: num_experts {count}, moe_intermediate_size {size} and num_experts_per_tok"
            f" {used} describe no mixture of experts"
        )
    return {"experts": count, "expert_size": size, "experts_per_token": used}


def _vision(config: HubConfig) -> dict[str, int | None]:
    if config.vision is None:
        return {}
    found = vision_parameters(config.vision, config.text.hidden_size)
    if found is None:
        return {}
    known = found.sharded > 0
    return {
        "vision_params": found.total,
        "vision_replicated_params": found.replicated if known else None,
    }


def _active(model: Model) -> int:
    """Parameters that one token uses: all but the experts that it does not pass through."""
    idle = model.experts - model.experts_per_token
    return model.text_params - model.layers * idle * 3 * model.hidden_size * model.expert_size


def _check_tensors(model: Model, loaded: Sequence[Tensor], where: str) -> None:
    """Check that the headers describe the model that config.json describes."""
    text = [tensor for tensor in loaded if is_text(tensor)]
    if not model.tied_embeddings and not any(tensor.name.endswith(_HEAD) for tensor in text):
        raise WeightsError(
            f"{where} describes a model whose output head is a tensor of its own, and the headers"
            f" of the safetensors files have no {_HEAD}",
            hint="Save the whole model again. If its head is its embedding table, config.json has"
            " to say so: tie_word_embeddings: true.",
        )
    table = (model.vocab_size, model.hidden_size)
    embeddings = [tensor for tensor in text if tensor.name.endswith("embed_tokens.weight")]
    if len(embeddings) != 1 or embeddings[0].shape != table:
        found = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in embeddings)[:200]
        raise _contradiction(where, f"an embedding table of {list(table)}", found or "none")
    if model.quantization is not None:
        return  # packed weights have other shapes
    odd = Counter(tensor.dtype for tensor in text if tensor.dtype not in _FLOATS.values())
    if odd:
        raise _contradiction(where, "no quantization", f"tensors of the type {', '.join(odd)}")
    held = sum(tensor.elements for tensor in text)
    if held not in _expected(model):
        raise _contradiction(
            where, f"{model.text_params:,} parameters of a text model", f"{held:,}"
        )


def _expected(model: Model) -> tuple[int, int]:
    """Text parameters that a file may hold: with what layers that share another's cache have of
    keys and values, which the server allocates, and without, which transformers does not write."""
    if not model.kv_shared_layers:
        return (model.text_params, model.text_params)
    own = model.layers - model.kv_shared_layers
    full = full_attention_layers(model, model.layers) - full_attention_layers(model, own)
    wide, heads = model.global_head_dim or model.head_dim, model.global_kv_heads or model.kv_heads
    projections = 1 if model.global_kv_heads else 2
    without = full * (projections * model.hidden_size * heads * wide + wide)
    without += (model.kv_shared_layers - full) * (
        2 * model.hidden_size * model.kv_heads * model.head_dim + model.head_dim
    )
    return (model.text_params, model.text_params - without)


def _contradiction(where: str, described: str, found: str) -> WeightsError:
    return WeightsError(
        f"{where} describes {described}; the headers of the safetensors files have {found}",
        hint="Are config.json and the *.safetensors files of the same checkpoint, all of them?",
    )


def _stored_dtype(loaded: Iterable[Tensor]) -> str | None:
    """The type in which most bytes of the text model are stored, as config.json spells it."""
    stored: Counter[str] = Counter()
    for tensor in loaded:
        if is_text(tensor):
            stored[tensor.dtype] += tensor.bytes
    if not stored:
        return None
    most = stored.most_common(1)[0][0]
    names = {dtype: name for name, dtype in _FLOATS.items()}
    return names.get(most, most.lower())
