"""What a Hugging Face ``config.json`` says of a model's shape. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from tpuflex.catalog.rows import Family, Implementation, Source
from tpuflex.errors import UnknownModelError, WeightsError

_TRANSFORMERS = Source(
    where="https://github.com/huggingface/transformers/tree/v5.19.0/src/transformers/models"
    " (configuration_*.py, and the classes' state_dict() on the meta device)",
    date=dt.date(2026, 11, 22),
)
_GEMMA4 = {
    "vocab_size": 262144,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "global_head_dim": 512,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "hidden_size_per_layer_input": 256,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
}
_GEMMA3 = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
}
_QWEN2 = {"num_key_value_heads": 32, "max_position_embeddings": 32768}
_QWEN3 = {"head_dim": 128, "max_position_embeddings": 32768}
_QWEN3_MOE = {
    "num_key_value_heads": 4,
    "num_experts": 128,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "max_position_embeddings": 32768,
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """One class of models.

    Attributes:
        name: the class, as `architectures` in config.json spells it.
        family: the rules for its memory.
        implementation: which of the TPU image's two implementations serves it.
        text_key: key of config.json that holds the text model; empty if it is the file itself.
        defaults: what a key means that config.json leaves out.
        source: where the defaults and the tensors' shapes come from.
    """

    name: str
    family: Family
    implementation: Implementation
    text_key: str = ""
    defaults: Mapping[str, int | bool] = field(default_factory=dict)
    source: Source = _TRANSFORMERS


#: Implementations: tpu-inference 0.32, models/common/model_loader.py: JAX where it has a class of
#: its own, except for Qwen3-MoE; Gemma 3 and Gemma 4's unified class have none.
ARCHITECTURES: Mapping[str, Architecture] = {
    row.name: row
    for row in (
        Architecture("LlamaForCausalLM", "llama", "flax_nnx"),
        Architecture("Qwen2ForCausalLM", "qwen2", "flax_nnx", "", _QWEN2),
        Architecture("Qwen3ForCausalLM", "qwen3", "flax_nnx", "", _QWEN3),
        Architecture("Qwen3MoeForCausalLM", "qwen3_moe", "torchax", "", _QWEN3_MOE),
        Architecture("Gemma3ForCausalLM", "gemma3", "torchax", "", _GEMMA3),
        Architecture("Gemma3ForConditionalGeneration", "gemma3", "torchax", "text_config", _GEMMA3),
        Architecture("Gemma4ForCausalLM", "gemma4", "flax_nnx", "", _GEMMA4),
        Architecture(
            "Gemma4ForConditionalGeneration", "gemma4", "flax_nnx", "text_config", _GEMMA4
        ),
        Architecture(
            "Gemma4UnifiedForConditionalGeneration", "gemma4", "torchax", "text_config", _GEMMA4
        ),
    )
}

#: What the text model's part of config.json may say of these keys, if it says anything: other
#: values add tensors, drop experts or change the cache, and no rule here covers that.
COVERED_VALUES: Mapping[str, tuple[JsonValue, ...]] = {
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "use_sliding_window": (False,),
    "decoder_sparse_step": (1,),
    "mlp_only_layers": ([],),
    "use_bidirectional_attention": (None, False, "vision"),
    "per_layer_config": (None, {}),
}


#: Types of RoPE whose `max_position_embeddings` are those of the scaled model: their factor is not
#: applied once more.
_SCALED = {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
#: Keys of config.json that hold objects read here.
QUANTIZATION_KEYS = ("quantization_config", "compression_config")
_FULL = "full_attention"

Size = Annotated[int, Field(ge=1, le=2**31)]
Layers = Annotated[int, Field(ge=0, le=4096)]
PartT = TypeVar("PartT", bound="_Part")
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")]


class _Part(BaseModel):
    """Part of a config.json: of its many keys those that say how much memory the model takes."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class TextConfig(_Part):
    """The text model, under transformers' names."""

    num_hidden_layers: Annotated[int, Field(ge=1, le=4096)]
    hidden_size: Size
    intermediate_size: Size | None = None
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    num_global_key_value_heads: Size | None = None
    global_head_dim: Size | None = None
    attention_k_eq_v: bool = False
    layer_types: Annotated[list[Word], Field(max_length=4096)] | None = None
    sliding_window: Size | None = None
    sliding_window_pattern: Size | None = None
    num_kv_shared_layers: Layers = 0
    use_double_wide_mlp: bool = False
    hidden_size_per_layer_input: Annotated[int, Field(ge=0, le=2**31)] | None = None
    enable_moe_block: bool = False
    num_experts: Size | None = None
    moe_intermediate_size: Size | None = None
    num_experts_per_tok: Size | None = None
    vocab_size: Size
    max_position_embeddings: Size | None = None
    rope_parameters: dict[str, JsonValue] | None = None
    rope_scaling: dict[str, JsonValue] | None = None
    tie_word_embeddings: bool = False


class VisionConfig(_Part):
    """The vision tower, under transformers' names."""

    model_type: Word = ""
    hidden_size: Size | None = None
    intermediate_size: Size | None = None
    num_hidden_layers: Annotated[int, Field(ge=1, le=4096)] | None = None
    num_attention_heads: Size | None = None
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    patch_size: Size | None = None
    image_size: Size | None = None
    position_embedding_size: Size | None = None
    standardize: bool = False


class _Whole(_Part):
    architectures: Annotated[list[str], Field(max_length=16)] | None = None
    dtype: Word | None = None
    vision_config: VisionConfig | None = None
    audio_config: dict[str, JsonValue] | None = None
    video_token_id: int | None = None


class _Quantization(_Part):
    quant_method: Word


#: Methods by the names that files have of them, where vLLM has another (`_verify_quantization` of
#: its config/model.py, and the classes' `override_quantization_method`, 0.32.0).
_METHODS = {
    "awq": "auto_awq",
    "gptq": "auto_gptq",
    "compressed_tensors": "compressed-tensors",
}
#: The same of one type of model.
_METHODS_OF = {
    ("gpt_oss", "mxfp4"): "gpt_oss_mxfp4",
    ("deepseek_v4", "fp8"): "deepseek_v4_fp8",
}
#: ModelOpt's methods by what the names of its algorithms hold; plain FP8 is `modelopt`.
_MODELOPT = {"FP4": "modelopt_fp4", "MXFP8": "modelopt_mxfp8", "MIXED": "modelopt_mixed"}


@dataclass(frozen=True, slots=True)
class HubConfig:
    """A config.json whose architecture is known.

    Attributes:
        architecture: its row of the table.
        text: the text model, with the defaults of its class.
        vision: the vision tower; None where there is none.
        audio: whether there is an audio tower.
        video: whether the model takes videos.
        dtype: type of the weights, such as ``bfloat16``; None if the file does not say.
    """

    architecture: Architecture
    text: TextConfig
    vision: VisionConfig | None
    audio: bool
    video: bool
    dtype: str | None

    @property
    def head_dim(self) -> int:
        """Width of a head; where it is not given, the heads share the hidden size."""
        return self.text.head_dim or self.text.hidden_size // self.text.num_attention_heads

    @property
    def kv_heads(self) -> int:
        """Key-value heads; where they are not given, each query head has its own."""
        return self.text.num_key_value_heads or self.text.num_attention_heads


def read_config(document: dict[str, JsonValue], where: str) -> HubConfig:
    """What ``document`` says of the model's shape.

    Args:
        document: config.json.
        where: names the file in errors.

    Raises:
        UnknownModelError: no rule for the memory of its architecture, or of a value, is known.
        WeightsError: a value is missing, or is impossible.
    """
    whole = _validated(_Whole, _with_dtype(document), where, "")
    architecture = _architecture(whole.architectures, where)
    key = architecture.text_key
    part = _object(document, key, where) if key else document
    _refuse_uncovered(part, where, key)
    dtype = whole.dtype or _validated(_Whole, _with_dtype(part), where, key).dtype
    multimodal = bool(key)
    return HubConfig(
        architecture=architecture,
        text=_text(architecture, document, part, where),
        vision=whole.vision_config if multimodal else None,
        audio=multimodal and whole.audio_config is not None,
        video=multimodal and whole.video_token_id is not None,
        dtype=dtype.removeprefix("torch.") if dtype else None,
    )


def quantization_of(document: dict[str, JsonValue], where: str) -> str | None:
    """The method by which the weights beside ``document`` are quantised, by vLLM's name, whatever
    the architecture; None if they are not.

    Args:
        document: config.json.
        where: names the file in errors.

    Raises:
        WeightsError: it names none where it has to.
    """
    text = document.get("text_config")
    for owner, path in ((document, ""), (text, "text_config")):
        for name in QUANTIZATION_KEYS:
            if isinstance(owner, dict) and owner.get(name) is not None:
                found = _method(_object(owner, name, where), where, _path(path, name))
                return _METHODS_OF.get((str(document.get("model_type")), found), found)
    return None


def _method(found: dict[str, JsonValue], where: str, key: str) -> str:
    producer, inner = found.get("producer"), found.get("quantization")
    algorithm = (inner if isinstance(inner, dict) else found).get("quant_algo")
    by_modelopt = isinstance(producer, dict) and producer.get("name") == "modelopt"
    if by_modelopt and algorithm is not None:
        found = {**found, "quant_method": "modelopt"}
    method = _validated(_Quantization, found, where, key).quant_method.lower()
    if method.startswith("modelopt") and isinstance(algorithm, str):
        return next((name for part, name in _MODELOPT.items() if part in algorithm.upper()), method)
    return _METHODS.get(method, method)


def longest_context(
    positions: int | None, rope: Mapping[str, object] | None, family: Family
) -> int | None:
    """The longest context that vLLM derives, as its `_get_and_verify_max_len` (0.32.0) does.

    Args:
        positions: ``max_position_embeddings`` of the text model.
        rope: its ``rope_parameters``, or ``rope_scaling``; nested by type of layer, or not.
        family: whether its positions are those of the scaled model, whatever the type.

    Returns:
        None if it is not known.
    """
    if positions is None or family == "gemma3":
        return positions
    factor = 1.0
    for each in rope_parts(rope):
        scale = each.get("factor")
        if each.get("rope_type", each.get("type")) not in _SCALED and _is_factor(scale):
            factor = float(str(scale))
    return int(positions * factor)


def scaled_context(rope: Mapping[str, object]) -> int | None:
    """The context that the scaling in ``rope`` is made for; None where it does not say."""
    for each in rope_parts(rope):
        factor, original = each.get("factor"), each.get("original_max_position_embeddings")
        if isinstance(original, int) and _is_factor(factor):
            return int(original * float(str(factor)))
    return None


def rope_parts(rope: Mapping[str, object] | None) -> tuple[Mapping[str, object], ...]:
    """The parameters of RoPE in ``rope``: one set, or one for each type of layer."""
    nested = tuple(each for each in (rope or {}).values() if isinstance(each, Mapping))
    return nested or ((rope,) if rope else ())


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**20


def full_attention_every(config: HubConfig, where: str) -> int | None:
    """Every how many layers one attends to the whole context; None where all do.

    Raises:
        UnknownModelError: the layers follow no such pattern.
    """
    text = config.text
    layers = text.num_hidden_layers
    kinds = text.layer_types
    if kinds is None:
        return text.sliding_window_pattern
    if len(kinds) != layers:
        raise WeightsError(
            f"{where}: layer_types has {len(kinds)} entries, the model {layers} layers"
        )
    if all(kind == _FULL for kind in kinds):
        return None
    every = kinds.index(_FULL) + 1 if _FULL in kinds else 0
    regular = [
        _FULL if every and (index + 1) % every == 0 else "sliding_attention"
        for index in range(layers)
    ]
    if every == 0 or kinds != regular:
        raise UnknownModelError(
            f"{where}: layer_types is not a pattern whose every n-th layer is {_FULL}; how much"
            " cache the others take is not known"
        )
    return every


def _text(
    architecture: Architecture,
    document: dict[str, JsonValue],
    part: dict[str, JsonValue],
    where: str,
) -> TextConfig:
    key = architecture.text_key
    given = {name: value for name, value in part.items() if value is not None}
    # transformers 5 writes these under the names of its own classes.
    for name, other in (
        ("num_experts", "num_local_experts"),
        ("num_experts_per_tok", "top_k_experts"),
    ):
        if other in given:
            given.setdefault(name, given[other])
    if "tie_word_embeddings" in document and document["tie_word_embeddings"] is not None:
        given.setdefault("tie_word_embeddings", document["tie_word_embeddings"])
    text = _validated(TextConfig, {**architecture.defaults, **given}, where, key)
    heads, kv_heads = text.num_attention_heads, text.num_key_value_heads or text.num_attention_heads
    if heads % kv_heads:
        raise WeightsError(
            f"{where}: {heads} attention heads cannot share {kv_heads} key-value heads"
        )
    if text.num_kv_shared_layers >= text.num_hidden_layers:
        raise WeightsError(
            f"{where}: {text.num_kv_shared_layers} of {text.num_hidden_layers} layers share another"
            " layer's keys and values, so none has its own"
        )
    return text


def _architecture(names: Sequence[str] | None, where: str) -> Architecture:
    if not names:
        raise UnknownModelError(
            f"{where} names no architecture", hint="Is it the config.json of a model?"
        )
    found = ARCHITECTURES.get(names[0])
    if found is None or len(names) > 1:
        raise UnknownModelError(
            f"{where}: how much memory {', '.join(names)[:120]} takes on a TPU is not known",
            hint=f"Known architectures: {', '.join(sorted(ARCHITECTURES))}.",
        )
    return found


def _refuse_uncovered(part: dict[str, JsonValue], where: str, key: str) -> None:
    for name, covered in COVERED_VALUES.items():
        value = part.get(name)
        if name in part and not any(
            value == each and type(value) is type(each) for each in covered
        ):
            raise UnknownModelError(
                f"{where}: {_path(key, name)} is {value!r:.60}; how much memory that takes is not"
                " known"
            )


def _with_dtype(part: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """``part`` with the type of the weights under its present name; it was `torch_dtype`."""
    return {"dtype": part.get("torch_dtype"), **part}


def _object(owner: dict[str, JsonValue], key: str, where: str) -> dict[str, JsonValue]:
    found = owner.get(key)
    if not isinstance(found, dict):
        raise WeightsError(f"{where}: {key} is missing, or is no object")
    return found


def _validated(kind: type[PartT], values: dict[str, JsonValue], where: str, key: str) -> PartT:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{_path(key, *map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_context=False)
        ]
        # A server has a default for what is left out; what it is, is not known here.
        left_out = all(each["type"] == "missing" for each in error.errors())
        kind_of_error = UnknownModelError if left_out else WeightsError
        raise kind_of_error(f"{where}: {'; '.join(problems[:5])}") from error


def _path(*parts: str) -> str:
    return ".".join(part for part in parts if part)
