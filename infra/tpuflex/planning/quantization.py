"""Which quantised weights vLLM on a TPU reads: one rule, whether a flag or the files name the
method. Pure."""

from __future__ import annotations

from tpuflex.catalog.flags import flag_rules

#: What to do about weights that cannot be read.
ANOTHER_CHECKPOINT = (
    "Take the model's own weights, or others of it that are quantized by compressed-tensors, AWQ,"
    " FP8 or ModelOpt's NVFP4."
)
#: Methods that only the PyTorch implementation has: `get_tpu_quantization_config` of tpu-inference
#: 0.32.0, layers/jax/quantization and layers/vllm/quantization.
_PYTORCH_ONLY = {"auto_awq", "modelopt_fp4", "deepseek_v4_fp8"}
#: Methods that quantise weights while they are loaded, which the files then need not do.
_AT_LOAD = {"fp8"}


def refused_method(method: str) -> str | None:
    """Why vLLM on a TPU cannot read weights that are quantized by ``method``, after their name;
    None if it can."""
    flags = {"quantization": method}
    for rule in flag_rules().values:
        if rule.key == "quantization" and rule.refused and rule.holds(flags, "google", ""):
            return f"are quantized by {method}, which {rule.refused}"
    return None


def needs_pytorch(method: str) -> bool:
    """Whether the JAX implementation ends at weights that are quantized by ``method``."""
    return method in _PYTORCH_ONLY


def contradiction(flag: str, method: str | None) -> str | None:
    """Why vLLM refuses the flag ``quantization`` for weights that are quantized by ``method``, or
    not at all, after the flag's value; None if it does not."""
    if method is None:
        return None if flag in _AT_LOAD else "and the weights are not quantized"
    return None if flag == method else f"and the weights are quantized by {method}"
