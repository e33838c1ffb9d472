"""Turn a GGUF file of a Llama-shaped model into a Hugging Face checkpoint in bfloat16.

Runs as a script with the Python of the vLLM image, which has ``gguf``, ``torch`` and
``transformers``::

    python gguf_checkpoint.py MODEL.gguf DIRECTORY

transformers itself reads GGUF but refuses to save what it read, hence this converter. It
writes the weights as safetensors shards with their index, the configuration, the tokenizer
and the chat template, and prints one line per step. Weights that were quantized stay as
precise as the quantization left them.

Only the top of the file is imported by the rest of tpuflex and its tests: the names of the
tensors and the row order, which need nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gguf import GGUFReader
    from torch import Tensor

#: Bytes per shard: small enough that even this model downloads in parallel.
SHARD_BYTES = 96 * 1024 * 1024

_OUTSIDE_BLOCKS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_BLOCKS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hugging_face_name(gguf_name: str) -> str:
    """The Hugging Face name of a Llama tensor: ``blk.3.attn_q.weight`` and so on.

    Raises:
        ValueError: the tensor is none of a Llama model's.
    """
    if gguf_name in _OUTSIDE_BLOCKS:
        return _OUTSIDE_BLOCKS[gguf_name]
    parts = gguf_name.split(".")
    if len(parts) != 4 or parts[0] != "blk" or parts[2] not in _IN_BLOCKS:
        raise ValueError(f"{gguf_name!r} is not a tensor of a Llama model")
    return f"model.layers.{parts[1]}.{_IN_BLOCKS[parts[2]]}.{parts[3]}"


def rotary_row_order(rows: int, heads: int) -> list[int]:
    """Where each row of a Hugging Face q or k projection lies in the GGUF tensor.

    GGUF interleaves the two halves that a rotary embedding turns against each other
    (llama.cpp permutes rows on conversion); Hugging Face keeps the halves apart.
    """
    width = rows // heads
    half = width // 2
    return [
        head * width + 2 * pair + side
        for head in range(heads)
        for side in range(2)
        for pair in range(half)
    ]


def shards(sizes: dict[str, int], limit: int = SHARD_BYTES) -> list[list[str]]:
    """Tensor names grouped in order into shards of at most ``limit`` bytes each.

    A tensor larger than ``limit`` gets a shard of its own.
    """
    groups: list[list[str]] = []
    filled = limit
    for name, size in sizes.items():
        if filled + size > limit:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups


def convert(source: Path, directory: Path) -> None:
    """Write the checkpoint of ``source`` into ``directory``, which must exist."""
    from gguf import GGUFReader

    reader = GGUFReader(str(source))
    architecture = _text(reader, "general.architecture")
    if architecture != "llama":
        raise ValueError(f"{source.name} holds a {architecture!r} model; only llama is converted")
    tensors = _tensors(reader)
    _write_configuration(reader, directory, tied="lm_head.weight" not in tensors)
    _write_weights(tensors, directory)
    _say("tokenizer")
    _write_tokenizer(source, directory)


def _tensors(reader: GGUFReader) -> dict[str, Tensor]:
    """Every tensor, dequantized, in bfloat16, under its Hugging Face name."""
    import torch
    from gguf import dequantize

    heads = {
        "attn_q": _number(reader, "llama.attention.head_count"),
        "attn_k": _number(reader, "llama.attention.head_count_kv"),
    }
    result: dict[str, Tensor] = {}
    for index, tensor in enumerate(reader.tensors, start=1):
        values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if part in heads:
            values = values[rotary_row_order(values.shape[0], heads[part])]
        result[hugging_face_name(tensor.name)] = values.to(torch.bfloat16).contiguous()
        if index % 50 == 0 or index == len(reader.tensors):
            _say(f"tensor {index} of {len(reader.tensors)}")
    return result


def _write_weights(tensors: dict[str, Tensor], directory: Path) -> None:
    from safetensors.torch import save_file

    sizes = {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}
    groups = shards(sizes)
    weight_map: dict[str, str] = {}
    for number, names in enumerate(groups, start=1):
        file = f"model-{number:05d}-of-{len(groups):05d}.safetensors"
        _say(f"shard {number} of {len(groups)}")
        # vLLM and transformers refuse a file that does not say which framework wrote it.
        save_file({name: tensors[name] for name in names}, directory / file, {"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": weight_map}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (directory / "model.safetensors.index.json").write_text(text, encoding="utf-8")


def _write_configuration(reader: GGUFReader, directory: Path, *, tied: bool) -> None:
    from transformers import GenerationConfig, LlamaConfig

    tokens = {
        "bos_token_id": _number(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _number(reader, "tokenizer.ggml.eos_token_id"),
        "pad_token_id": _number(reader, "tokenizer.ggml.padding_token_id"),
    }
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=_number(reader, "llama.vocab_size"),
        hidden_size=_number(reader, "llama.embedding_length"),
        intermediate_size=_number(reader, "llama.feed_forward_length"),
        num_hidden_layers=_number(reader, "llama.block_count"),
        num_attention_heads=_number(reader, "llama.attention.head_count"),
        num_key_value_heads=_number(reader, "llama.attention.head_count_kv"),
        max_position_embeddings=_number(reader, "llama.context_length"),
        rms_norm_eps=float(f"{_value(reader, 'llama.attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": float(_value(reader, "llama.rope.freq_base")),
        },
        tie_word_embeddings=tied,
        dtype="bfloat16",
        **tokens,
    ).save_pretrained(directory)
    GenerationConfig(**tokens).save_pretrained(directory)


def _write_tokenizer(source: Path, directory: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    tokenizer.save_pretrained(directory)


def _value(reader: GGUFReader, key: str) -> float:
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"the file has no {key}")
    return float(field.contents())


def _number(reader: GGUFReader, key: str) -> int:
    return int(_value(reader, key))


def _text(reader: GGUFReader, key: str) -> str:
    field = reader.get_field(key)
    return str(field.contents()) if field is not None else ""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
