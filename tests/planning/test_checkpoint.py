"""Checkpoints become rows of the catalog, exactly; what no rule covers is said to be unknown."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checkpoints import PublishedCheckpoint, gemma4_e2b, header_of, qwen3_30b_a3b, smollm2
from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Model, Source
from tpuflex.errors import UnknownModelError, WeightsError
from tpuflex.planning.checkpoint import Checkpoint, describe
from tpuflex.planning.request import MemoryRequest
from tpuflex.planning.safetensors_header import LENGTH_BYTES, Tensor, read_header
from tpuflex.planning.strict_json import json_object
from tpuflex.planning.weights import weight_bytes

HERE = Source(where="a test", date=dt.date(2026, 11, 22))
#: What a checkpoint cannot say of itself: where the row comes from, and what others saw.
_NOT_IN_A_CHECKPOINT = {"former_names", "source", "note", "gated", "license", "seen", "max_context"}


def tensors_of(checkpoint: PublishedCheckpoint) -> tuple[Tensor, ...]:
    """The tensors of ``checkpoint``, through a header."""
    entries, size = header_of(checkpoint.tensors)
    header = json.dumps(entries).encode()
    return read_header(header, LENGTH_BYTES + len(header) + size, "model.safetensors")


def described(checkpoint: PublishedCheckpoint, *, headers: bool = True) -> Checkpoint:
    """What is read of ``checkpoint``."""
    config = json_object(json.dumps(checkpoint.config).encode(), "config.json")
    tensors = tensors_of(checkpoint) if headers else None
    return describe(config, tensors, name=checkpoint.name, source=HERE, where="config.json")


def facts(model: Model) -> dict[str, Any]:
    """What a checkpoint says of itself in its row."""
    return model.model_dump(exclude=_NOT_IN_A_CHECKPOINT)


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize(
    ("checkpoint", "text_params", "weight_bytes"),
    [
        (smollm2, 134_515_008, 269_030_016),
        (qwen3_30b_a3b, 30_532_122_624, 61_064_245_248),
        (gemma4_e2b, 4_647_449_891, None),
    ],
)
def test_published_checkpoints_agree_with_the_catalog(
    checkpoint: Callable[[], PublishedCheckpoint],
    text_params: int,
    weight_bytes: int | None,
    headers: bool,
) -> None:
    """Headers and config.json of a published model give the row that the catalog has."""
    published = checkpoint()

    found = described(published, headers=headers)

    row = builtin().model(published.name)
    assert row is not None
    assert facts(found.model) == facts(row)
    assert found.model.text_params == text_params
    assert found.dtype == "bfloat16"
    assert found.quantization is None
    if headers and weight_bytes:
        assert found.weight_bytes == weight_bytes == 2 * text_params


def test_e2b_may_leave_out_what_it_does_not_use() -> None:
    """The server allocates k and v of layers that share a cache, whether the files hold them."""
    whole, without = gemma4_e2b(), gemma4_e2b(shared_kv=False)

    assert described(without).model == described(whole).model
    assert described(whole).weight_bytes - (described(without).weight_bytes or 0) == 2 * 18_880_512  # type: ignore[operator]


def test_audio_tower_and_clipping_bounds_are_not_loaded() -> None:
    """The vision tower of the row is what the boot logs' bytes contain, to the parameter."""
    model = described(gemma4_e2b()).model
    assert (model.vision_params, model.vision_replicated_params) == (168_544_256, 15_779_840)
    assert model.audio_tower
    assert model.modalities == ("text", "image", "audio", "video")


def gemma4(layers: int, every: int, **text: object) -> dict[str, Any]:
    """config.json of a Gemma 4 with a vision tower of the large kind."""
    pattern = ["sliding_attention"] * (every - 1) + ["full_attention"]
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "text_config": {
            "num_hidden_layers": layers,
            "layer_types": pattern * (layers // every),
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "sliding_window": 1024,
            **text,
        },
        "video_token_id": 258884,
        "vision_config": {
            "model_type": "gemma4_vision",
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "head_dim": 72,
        },
    }


#: Shapes of published models, docs/memory.md; what is left out is the default of the class.
_OTHERS: Mapping[str, dict[str, Any]] = {
    "google/gemma-4-26B-A4B-it": gemma4(
        30,
        6,
        hidden_size=2816,
        intermediate_size=2112,
        num_attention_heads=16,
        num_key_value_heads=8,
        num_global_key_value_heads=2,
        enable_moe_block=True,
        num_experts=128,
        top_k_experts=8,
        moe_intermediate_size=704,
    ),
    "google/gemma-4-31B-it": gemma4(
        60,
        6,
        hidden_size=5376,
        intermediate_size=21504,
        num_attention_heads=32,
        num_key_value_heads=16,
        num_global_key_value_heads=4,
    ),
    "google/gemma-3-4b-it": {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "image_size": 896,
            "intermediate_size": 4304,
            "num_attention_heads": 16,
            "num_hidden_layers": 27,
            "patch_size": 14,
        },
    },
    "meta-llama/Llama-3.1-8B-Instruct": {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "Qwen/Qwen2.5-7B-Instruct": {
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_window_layers": 28,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "use_sliding_window": False,
        "vocab_size": 152064,
    },
    "Qwen/Qwen3-8B": {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_attention_heads": 32,
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "vocab_size": 151936,
    },
}


@pytest.mark.parametrize("name", sorted(_OTHERS))
def test_configs_agree_with_the_catalog(name: str) -> None:
    """A config.json alone gives the row that the catalog has, defaults of its class included."""
    found = describe(_OTHERS[name], None, name=name, source=HERE, where="config.json")

    row = builtin().model(name)
    assert row is not None
    assert facts(found.model) == facts(row)


def changed(checkpoint: PublishedCheckpoint, **values: object) -> PublishedCheckpoint:
    """``checkpoint`` with other values in config.json; None takes a key away."""
    config = {**checkpoint.config, **values}
    kept = {key: value for key, value in config.items() if value is not None}
    return PublishedCheckpoint(checkpoint.name, kept, checkpoint.tensors)


def text_changed(checkpoint: PublishedCheckpoint, **values: object) -> PublishedCheckpoint:
    """``checkpoint`` with other values in the text_config of its config.json."""
    return changed(checkpoint, text_config={**checkpoint.config["text_config"], **values})


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        (changed(smollm2(), architectures=["MambaForCausalLM"]), "MambaForCausalLM takes on a TPU"),
        (changed(smollm2(), architectures=None), "names no architecture"),
        (changed(smollm2(), architectures=[]), "names no architecture"),
        (changed(smollm2(), hidden_size=None), "hidden_size: Field required"),
        (changed(smollm2(), intermediate_size=None), "intermediate_size is missing"),
        (changed(smollm2(), quantization_config={}), "quantization_config.quant_method: Field"),
        (changed(smollm2(), attention_bias=True), "attention_bias is True"),
        (changed(smollm2(), mlp_bias=1), "mlp_bias is 1"),
        (changed(qwen3_30b_a3b(), use_sliding_window=True), "use_sliding_window is True"),
        (changed(qwen3_30b_a3b(), decoder_sparse_step=2), "decoder_sparse_step is 2"),
        (changed(qwen3_30b_a3b(), mlp_only_layers=[0]), "mlp_only_layers is [0]"),
        (
            text_changed(gemma4_e2b(), use_bidirectional_attention="all"),
            "text_config.use_bidirectional_attention is 'all'",
        ),
        (
            text_changed(
                gemma4_e2b(), layer_types=["full_attention"] * 3 + ["sliding_attention"] * 32
            ),
            "layer_types is not a pattern",
        ),
        (
            text_changed(gemma4_e2b(), layer_types=["chunked_attention"] * 35),
            "layer_types is not a pattern",
        ),
    ],
)
def test_what_no_rule_covers_is_said_to_be_unknown(
    checkpoint: PublishedCheckpoint, problem: str
) -> None:
    """No figure is guessed for an architecture, or a value, that no rule is known for, nor for a
    value that is left out."""
    with pytest.raises(UnknownModelError) as unknown:
        _ = described(checkpoint, headers=False).model
    assert problem in unknown.value.message
    assert unknown.value.message.startswith("config.json")


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        (changed(smollm2(), hidden_size=576.0), "hidden_size: Input should be a valid integer"),
        (changed(smollm2(), hidden_size=True), "hidden_size: Input should be a valid integer"),
        (changed(smollm2(), num_hidden_layers=10**6), "num_hidden_layers: Input should be less"),
        (changed(smollm2(), vocab_size=-1), "vocab_size: Input should be greater"),
        (changed(smollm2(), num_key_value_heads=4), "9 attention heads cannot share 4"),
        (changed(smollm2(), torch_dtype="b\x1b[2J"), "dtype: String should match"),
        (changed(smollm2(), quantization_config=[1]), "quantization_config is missing, or is no"),
        (changed(gemma4_e2b(), text_config=None), "text_config is missing, or is no object"),
        (text_changed(gemma4_e2b(), num_kv_shared_layers=35), "35 of 35 layers share another"),
        (text_changed(gemma4_e2b(), layer_types=["full_attention"]), "has 1 entries, the model 35"),
        (changed(qwen3_30b_a3b(), num_experts_per_tok=129), "describe no mixture of experts"),
    ],
)
def test_impossible_values_are_refused(checkpoint: PublishedCheckpoint, problem: str) -> None:
    """A value that cannot be is refused with its key."""
    with pytest.raises(WeightsError) as refused:
        _ = described(checkpoint, headers=False).model
    assert problem in refused.value.message
    assert not isinstance(refused.value, UnknownModelError)


def without(checkpoint: PublishedCheckpoint, name: str) -> PublishedCheckpoint:
    """``checkpoint`` without one tensor."""
    kept = {key: tensor for key, tensor in checkpoint.tensors.items() if key != name}
    return PublishedCheckpoint(checkpoint.name, checkpoint.config, kept)


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        (changed(smollm2(), num_hidden_layers=29), "describes 130,974,912 parameters"),
        (changed(smollm2(), vocab_size=49153), "an embedding table of [49153, 576]"),
        (
            without(smollm2(), "model.embed_tokens.weight"),
            "headers of the safetensors files have none",
        ),
        (without(smollm2(), "model.layers.7.mlp.up_proj.weight"), "have 133,630,272"),
        (without(qwen3_30b_a3b(), "lm_head.weight"), "have no lm_head.weight"),
    ],
)
def test_headers_that_contradict_the_config_are_refused(
    checkpoint: PublishedCheckpoint, problem: str
) -> None:
    """A config.json beside another model's tensors, or beside half of them, gives no row."""
    with pytest.raises(WeightsError) as refused:
        described(checkpoint)
    assert problem in refused.value.message


def test_a_tied_head_that_is_stored_is_no_parameter() -> None:
    """Some files hold a copy of the tied head, and buffers of old versions: neither is loaded."""
    checkpoint = smollm2()
    tensors = {
        **checkpoint.tensors,
        "lm_head.weight": ("BF16", (49152, 576)),
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (32,)),
    }

    found = described(PublishedCheckpoint(checkpoint.name, checkpoint.config, tensors))

    assert found.model.text_params == 134_515_008
    assert found.weight_bytes == 269_030_016 + 2 * 49152 * 576 + 128


def fp8(checkpoint: PublishedCheckpoint, **config: object) -> PublishedCheckpoint:
    """``checkpoint`` with its matrices, other than embeddings and routers, in 8 bits."""
    tensors = {
        name: ("F8_E4M3", shape)
        if len(shape) == 2 and "embed" not in name and "head" not in name and ".gate." not in name
        else (dtype, shape)
        for name, (dtype, shape) in checkpoint.tensors.items()
    }
    return PublishedCheckpoint(checkpoint.name, {**checkpoint.config, **config}, tensors)


def test_quantised_weights_count_as_they_are_stored() -> None:
    """Of a quantised checkpoint the bytes in the files count, and the padding of its experts."""
    method = {"quant_method": "fp8", "weight_block_size": [128, 128]}

    found = described(fp8(qwen3_30b_a3b(), quantization_config=method))

    assert found.quantization == "fp8"
    assert found.dtype == "f8_e4m3"
    experts = 48 * 128 * 3 * 2048 * 768
    attention = 48 * (2 * 4096 + 2 * 512) * 2048
    vectors = 48 * (2 * 2048 + 2 * 128) + 2048
    tables, routers = 2 * 151936 * 2048, 48 * 128 * 2048
    held_whole = 2 * (vectors + routers)
    assert found.weight_bytes == experts + attention + 2 * tables + held_whole
    assert on_chips(found.model, 1) == found.weight_bytes
    # 768 is six times 128: four chips get 256 of it each, eight 128.
    padded = experts * 2 // 3 // 3
    split = experts + attention + 2 * tables
    assert on_chips(found.model, 4) == (split + padded) // 4 + held_whole
    assert described(qwen3_30b_a3b()).model.stored is None


def on_chips(model: Model, chips: int) -> int:
    """Bytes of weights on each of ``chips`` chips of a v6e-8."""
    accelerator = builtin().accelerators["v6e-8"]
    return weight_bytes(
        MemoryRequest(
            model=model, accelerator=accelerator, tensor_parallel_size=chips, max_model_len=4096
        )
    )


@pytest.mark.parametrize(
    ("said", "method"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"quant_method": "gptq", "bits": 4}, "auto_gptq"),
        ({"quant_method": "awq", "bits": 4}, "auto_awq"),
        ({"quant_method": "compressed_tensors"}, "compressed-tensors"),
        ({"quant_method": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt_fp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt"),
        (
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}},
            "modelopt_fp4",
        ),
    ],
)
def test_the_method_of_quantization_has_the_name_that_vllm_has_of_it(
    said: dict[str, Any], method: str
) -> None:
    """What config.json says of quantisation is read under vLLM's name, at its top or in the text
    model's part, and of an architecture that nobody has described, too."""
    top = changed(smollm2(), quantization_config=said)
    inner = text_changed(gemma4_e2b(), quantization_config=said)
    unknown = changed(top, architectures=["MambaForCausalLM"])

    found = [described(each, headers=False).quantization for each in (top, inner, unknown)]

    assert found == [method, method, method]


def test_a_method_of_one_type_of_model_has_that_types_name() -> None:
    """What gpt-oss calls mxfp4 is a method of its own, which the TPU back-end reads."""
    said = {"quantization_config": {"quant_method": "mxfp4"}}

    ours = described(changed(smollm2(), model_type="gpt_oss", **said), headers=False)
    others = described(changed(smollm2(), **said), headers=False)

    assert (ours.quantization, others.quantization) == ("gpt_oss_mxfp4", "mxfp4")


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, 8192),
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 32768),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2}}, 16384),
        ({"rope_scaling": {"type": "dynamic", "factor": 2}}, 16384),
        # Its positions are those of the scaled model.
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 8192),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 8192),
        ({"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}}, 16384),
    ],
)
def test_the_longest_context_is_what_vllm_derives(config: dict[str, Any], tokens: int) -> None:
    """A factor of RoPE counts where vLLM applies it, and nowhere else."""
    assert described(changed(smollm2(), **config)).model.max_context == tokens


def test_eight_bits_without_a_word_are_refused() -> None:
    """Quantised tensors under a config.json that names no method cannot be served."""
    with pytest.raises(WeightsError, match=r"describes no quantization; .* of the type F8_E4M3"):
        described(fp8(smollm2()))


@pytest.mark.parametrize(
    ("key", "value"), [("num_local_experts", 128), ("num_experts_per_tok", 8), ("dtype", "float16")]
)
def test_names_of_transformers_5_are_read(key: str, value: object) -> None:
    """transformers 5 writes some keys under other names; both are read."""
    checkpoint = changed(qwen3_30b_a3b(), num_experts=None, torch_dtype=None, **{key: value})
    found = described(checkpoint, headers=False)
    assert found.model.experts == 128
    assert found.dtype == ("float16" if key == "dtype" else None)


@pytest.mark.parametrize("depth", [3, 62, 63, 64, 300, *range(700, 1000, 7), 5000])
def test_no_depth_raises_anything_else(depth: int) -> None:
    """However deep a value is nested, it is refused with a sentence, and never by a traceback."""
    nested = b"[" * depth + b"]" * depth
    document = b'{"architectures": ["LlamaForCausalLM"], "attention_bias": ' + nested + b"}"

    with pytest.raises(WeightsError) as refused:
        _ = describe(
            json_object(document, "config.json"), None, name="m", source=HERE, where="config.json"
        ).model
    deep = depth > 63
    assert ("nested too deeply" if deep else "attention_bias is [[[") in refused.value.message


_CONFIGS: Mapping[str, dict[str, Any]] = {
    each.name: each.config for each in (smollm2(), gemma4_e2b(), qwen3_30b_a3b())
}
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(st.sampled_from(sorted(_CONFIGS)), st.data())
def test_no_config_raises_anything_else(name: str, data: st.DataObject) -> None:
    """Whatever a config.json says, it is a row or a refusal that names the file."""
    config = json.loads(json.dumps(_CONFIGS[name]))
    part = data.draw(st.sampled_from([config, config.get("text_config") or config]))
    for key in data.draw(st.lists(st.sampled_from(sorted(part)), min_size=1, max_size=3)):
        part[key] = data.draw(_VALUES)
    refusal, parameters = "", 0
    try:
        found = describe(config, None, name="m", source=HERE, where="config.json")
        parameters = found.model.text_params
    except WeightsError as error:
        refusal = error.message
    assert parameters > 0 or refusal.startswith("config.json")
