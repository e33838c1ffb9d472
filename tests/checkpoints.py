"""Checkpoints for tests: config.json and tensor shapes as published, files with headers only.

The shapes are written down here tensor by tensor, as transformers 5.19 makes them on the meta
device; nothing in them is computed by the code under test.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tpuflex.weights.checkpoint_directory import LocalModel, directory_sizes
from tpuflex.weights.push import Push

Shape = tuple[int, ...]
Tensors = dict[str, tuple[str, Shape]]

_BITS = {"BF16": 16, "F32": 32, "F8_E4M3": 8, "F4": 4, "I32": 32}


@dataclass(frozen=True)
class PublishedCheckpoint:
    """One checkpoint.

    Attributes:
        name: its id on the Hub.
        config: its config.json, as far as it concerns memory.
        tensors: type and shape of each tensor.
    """

    name: str
    config: dict[str, Any]
    tensors: Tensors

    def write(self, directory: Path, shards: int = 1) -> Path:
        """Write it to ``directory``; the tensors' bytes are holes, which take no space."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(json.dumps(self.config))
        (directory / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
        files = [f"model-{n + 1:05d}-of-{shards:05d}.safetensors" for n in range(shards)]
        parts: dict[str, Tensors] = {file: {} for file in files}
        for index, (name, tensor) in enumerate(self.tensors.items()):
            parts[files[index % shards]][name] = tensor
        for file, tensors in parts.items():
            write_safetensors(directory / file, tensors)
        if shards > 1:
            weight_map = {name: file for file, part in parts.items() for name in part}
            index_file = directory / "model.safetensors.index.json"
            index_file.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        return directory


def everything_in(directory: Path) -> LocalModel:
    """All files of ``directory``, as if they were a model."""
    return LocalModel(directory, tuple(directory_sizes(directory)))


def pushing(directory: Path, prefix: str, **changes: Any) -> Push:
    """The push of all files of ``directory`` to ``prefix``."""
    how: dict[str, Any] = {"name": "tiny", "revision": "1", **changes}
    return Push(model=everything_in(directory), prefix=prefix, **how)


def tiny(directory: Path, what: str = "one") -> Path:
    """Write a model of some hundred bytes that is whole, another one for each ``what``."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"model_type": "llama", "what": what}))
    (directory / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    write_safetensors(directory / "model.safetensors", {what: ("BF16", (16, 16))})
    return directory


def header_of(tensors: Mapping[str, tuple[str, Shape]]) -> tuple[dict[str, Any], int]:
    """The header that describes ``tensors`` one after another, and the bytes that they take."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + prod(shape) * _BITS[dtype] // 8
        entries[name] = {"dtype": dtype, "shape": [*shape], "data_offsets": [start, end]}
    return entries, end


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, Shape]]) -> None:
    """Write a file with the header of ``tensors`` and a hole in the place of their bytes."""
    entries, size = header_of(tensors)
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(file.tell() + size)


def llama_70b(**config: Any) -> PublishedCheckpoint:
    """meta-llama/Llama-3.3-70B-Instruct, with ``config`` in its config.json."""
    shape = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "max_position_embeddings": 131072,
        "model_type": "llama",
        "num_attention_heads": 64,
        "num_hidden_layers": 80,
        "num_key_value_heads": 8,
        "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    }
    layer: dict[str, Shape] = {
        "self_attn.q_proj.weight": (8192, 8192),
        "self_attn.k_proj.weight": (1024, 8192),
        "self_attn.v_proj.weight": (1024, 8192),
        "self_attn.o_proj.weight": (8192, 8192),
        "mlp.gate_proj.weight": (28672, 8192),
        "mlp.up_proj.weight": (28672, 8192),
        "mlp.down_proj.weight": (8192, 28672),
        "input_layernorm.weight": (8192,),
        "post_attention_layernorm.weight": (8192,),
    }
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (128256, 8192),
        "lm_head.weight": (128256, 8192),
        "model.norm.weight": (8192,),
    }
    for number in range(80):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    name = "meta-llama/Llama-3.3-70B-Instruct"
    return PublishedCheckpoint(name, {**shape, **config}, _bf16(shapes))


def smollm2(layers: int = 30, vocabulary: int = 49152) -> PublishedCheckpoint:
    """HuggingFaceTB/SmolLM2-135M-Instruct, or one with less of it."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 9,
        "num_hidden_layers": layers,
        "num_key_value_heads": 3,
        "rms_norm_eps": 1e-05,
        "rope_theta": 100000,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": vocabulary,
    }
    layer: dict[str, Shape] = {
        "self_attn.q_proj.weight": (576, 576),
        "self_attn.k_proj.weight": (192, 576),
        "self_attn.v_proj.weight": (192, 576),
        "self_attn.o_proj.weight": (576, 576),
        "mlp.gate_proj.weight": (1536, 576),
        "mlp.up_proj.weight": (1536, 576),
        "mlp.down_proj.weight": (576, 1536),
        "input_layernorm.weight": (576,),
        "post_attention_layernorm.weight": (576,),
    }
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (vocabulary, 576)}
    for number in range(layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (576,)
    return PublishedCheckpoint("HuggingFaceTB/SmolLM2-135M-Instruct", config, _bf16(shapes))


def gemma4_e2b(*, shared_kv: bool = True) -> PublishedCheckpoint:
    """google/gemma-4-E2B-it; with or without the k and v that 20 layers have and do not use."""
    kinds = ["full_attention" if n % 5 == 4 else "sliding_attention" for n in range(35)]
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "audio_config": {"model_type": "gemma4_audio", "hidden_size": 1024},
        "dtype": "bfloat16",
        "model_type": "gemma4",
        "text_config": {
            "attention_k_eq_v": False,
            "dtype": "bfloat16",
            "enable_moe_block": False,
            "global_head_dim": 512,
            "head_dim": 256,
            "hidden_size": 1536,
            "hidden_size_per_layer_input": 256,
            "intermediate_size": 6144,
            "layer_types": kinds,
            "max_position_embeddings": 131072,
            "num_attention_heads": 8,
            "num_experts": None,
            "num_global_key_value_heads": None,
            "num_hidden_layers": 35,
            "num_key_value_heads": 1,
            "num_kv_shared_layers": 20,
            "sliding_window": 512,
            "tie_word_embeddings": True,
            "use_double_wide_mlp": True,
            "vocab_size": 262144,
        },
        "tie_word_embeddings": True,
        "video_token_id": 258884,
        "vision_config": {
            "head_dim": 64,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "model_type": "gemma4_vision",
            "num_attention_heads": 12,
            "num_hidden_layers": 16,
            "num_key_value_heads": 12,
            "patch_size": 16,
            "position_embedding_size": 10240,
            "use_clipped_linears": True,
        },
    }
    text = "model.language_model"
    shapes: dict[str, Shape] = {
        f"{text}.embed_tokens.weight": (262144, 1536),
        f"{text}.embed_tokens_per_layer.weight": (262144, 8960),
        f"{text}.per_layer_model_projection.weight": (8960, 1536),
        f"{text}.per_layer_projection_norm.weight": (256,),
        f"{text}.norm.weight": (1536,),
    }
    for number, kind in enumerate(kinds):
        width = 512 if kind == "full_attention" else 256
        inner = 6144 if number < 15 else 12288
        layer: dict[str, Shape] = {
            "layer_scalar": (1,),
            "self_attn.q_proj.weight": (8 * width, 1536),
            "self_attn.q_norm.weight": (width,),
            "self_attn.o_proj.weight": (1536, 8 * width),
            "mlp.gate_proj.weight": (inner, 1536),
            "mlp.up_proj.weight": (inner, 1536),
            "mlp.down_proj.weight": (1536, inner),
            "input_layernorm.weight": (1536,),
            "post_attention_layernorm.weight": (1536,),
            "pre_feedforward_layernorm.weight": (1536,),
            "post_feedforward_layernorm.weight": (1536,),
            "per_layer_input_gate.weight": (256, 1536),
            "per_layer_projection.weight": (1536, 256),
            "post_per_layer_input_norm.weight": (1536,),
        }
        if shared_kv or number < 15:
            layer |= {
                "self_attn.k_norm.weight": (width,),
                "self_attn.k_proj.weight": (width, 1536),
                "self_attn.v_proj.weight": (width, 1536),
            }
        shapes |= {f"{text}.layers.{number}.{name}": shape for name, shape in layer.items()}
    shapes |= dict(_gemma4_vision())
    shapes |= {
        "model.embed_vision.embedding_projection.weight": (1536, 768),
        "model.embed_audio.embedding_projection.weight": (1536, 1536),
        "model.audio_tower.output_proj.weight": (1536, 1024),
        "model.audio_tower.output_proj.bias": (1536,),
    }
    return PublishedCheckpoint("google/gemma-4-E2B-it", config, _bf16(shapes))


def _gemma4_vision() -> Iterator[tuple[str, Shape]]:
    tower = "model.vision_tower"
    yield f"{tower}.patch_embedder.position_embedding_table", (2, 10240, 768)
    yield f"{tower}.patch_embedder.input_proj.weight", (768, 768)
    for number in range(16):
        layer = f"{tower}.encoder.layers.{number}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{layer}.self_attn.{name}.linear.weight", (768, 768)
            yield f"{layer}.self_attn.{name}.input_min", ()
            yield f"{layer}.self_attn.{name}.output_max", ()
        for name, shape in (
            ("gate_proj", (3072, 768)),
            ("up_proj", (3072, 768)),
            ("down_proj", (768, 3072)),
        ):
            yield f"{layer}.mlp.{name}.linear.weight", shape
        for name in ("q_norm", "k_norm"):
            yield f"{layer}.self_attn.{name}.weight", (64,)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            yield f"{layer}.{name}_layernorm.weight", (768,)


def qwen3_30b_a3b() -> PublishedCheckpoint:
    """Qwen/Qwen3-30B-A3B, with a tensor for each matrix of each expert, as it is published."""
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "head_dim": 128,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "max_position_embeddings": 40960,
        "max_window_layers": 48,
        "mlp_only_layers": [],
        "model_type": "qwen3_moe",
        "moe_intermediate_size": 768,
        "num_attention_heads": 32,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 48,
        "num_key_value_heads": 4,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 151936,
    }
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (151936, 2048),
        "lm_head.weight": (151936, 2048),
        "model.norm.weight": (2048,),
    }
    for number in range(48):
        layer: dict[str, Shape] = {
            "self_attn.q_proj.weight": (4096, 2048),
            "self_attn.k_proj.weight": (512, 2048),
            "self_attn.v_proj.weight": (512, 2048),
            "self_attn.o_proj.weight": (2048, 4096),
            "self_attn.q_norm.weight": (128,),
            "self_attn.k_norm.weight": (128,),
            "mlp.gate.weight": (128, 2048),
            "input_layernorm.weight": (2048,),
            "post_attention_layernorm.weight": (2048,),
        }
        for expert in range(128):
            layer |= {
                f"mlp.experts.{expert}.gate_proj.weight": (768, 2048),
                f"mlp.experts.{expert}.up_proj.weight": (768, 2048),
                f"mlp.experts.{expert}.down_proj.weight": (2048, 768),
            }
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return PublishedCheckpoint("Qwen/Qwen3-30B-A3B", config, _bf16(shapes))


def _bf16(shapes: Mapping[str, Shape]) -> Tensors:
    return {name: ("BF16", shape) for name, shape in shapes.items()}
