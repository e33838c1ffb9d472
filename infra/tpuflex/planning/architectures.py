"""Architectures whose memory use is known, and how their config.json says what they are made of.

A config.json leaves out what equals the default of its class in transformers, so the defaults are
part of the table. A value that changes the memory in a way no rule covers is refused, not ignored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from tpuflex.catalog.rows import Family, Implementation, Source

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
