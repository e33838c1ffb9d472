"""Memory requests from flags and environment of the server, under vLLM's own names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from tpuflex.catalog.rows import Accelerator, Implementation, Model
from tpuflex.planning.figure import GIB
from tpuflex.planning.hub_config import longest_context, scaled_context
from tpuflex.planning.quantization import refused_method
from tpuflex.planning.request import (
    CPU_MAX_NUM_SEQS,
    DEFAULT_MAX_NUM_BATCHED_TOKENS,
    DEFAULT_MAX_NUM_SEQS,
    DEFAULT_UTILIZATION,
    CpuMemoryRequest,
    MemoryRequest,
    NotPlannable,
)

_FP8 = {"fp8", "fp8_e4m3", "fp8_e5m2"}

#: vLLM's defaults for the CPU (`CpuPlatform.check_and_update_config` of `vllm/platforms/cpu.py`,
#: 0.32.0).
_CPU_BLOCK_SIZE = 128
_CPU_PARAMETER_BYTES = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}

#: Methods of speculative decoding that need neither weights nor a cache of their own.
_DRAFTLESS = {"ngram"}

#: Keys of `--additional-config` whose effect is planned.
_PLANNED_CONFIG = {"quantization", "compilation_sizes"}

#: Architecture that serves Gemma 4 as text alone; the JAX path has it for all sizes.
_TEXT_ONLY = {"architectures": ["Gemma4ForCausalLM"]}

#: Keys of `config.json` that change neither weights nor the shape of the cache.
_SHAPELESS_OVERRIDES = {
    "bos_token_id",
    "eos_token_id",
    "max_position_embeddings",
    "pad_token_id",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
}

#: Part of a multimodal model's `config.json` with its text model.
_TEXT_CONFIG = "text_config"

_MOST_SIZES = 1000

#: Flags without a setting of their own that change memory in ways which are not described.
_UNPLANNED_FLAGS = {
    "cpu_offload_gb",
    "data_parallel_size",
    "decode_context_parallel_size",
    "disable_hybrid_kv_cache_manager",
    "disable_sliding_window",
    "enable_expert_parallel",
    "enable_lora",
    "kv_offloading_size",
    "kv_transfer_config",
    "mm_encoder_tp_mode",
    "moe_backend",
    "performance_mode",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "swa_bounded_replay",
}
_BLOCKS = "num_gpu_blocks_override"


def request_from_flags(
    model: Model,
    accelerator: Accelerator,
    flags: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
) -> MemoryRequest | NotPlannable:
    """The request of a server on a TPU, with vLLM's defaults for what ``flags`` leave out.

    Args:
        model: the model.
        accelerator: the chips; all share each layer, unless ``tensor_parallel_size`` says less.
        flags: flags by their names with underscores, as
            :attr:`~tpuflex.settings.serving.ServingSettings.given_flags` has them; None counts as
            absent.
        environment: environment of the server.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    env = environment or {}
    rope = _rope(model, given)
    model = _with_context(model, given, env, rope)
    reason = next(chain(_unplanned(given), _uncovered(model, given, env)), None)
    if reason is not None:
        return NotPlannable(reason)
    length = _whole(given, "max_model_len", model.max_context or 0)
    text_only = given.get("hf_overrides") == _TEXT_ONLY
    speculative = "speculative_config" in given
    config = _table(given.get("additional_config"))
    return MemoryRequest(
        model=model,
        accelerator=accelerator,
        tensor_parallel_size=_whole(given, "tensor_parallel_size", accelerator.devices),
        max_model_len=length,
        kv_cache_dtype="fp8" if given.get("kv_cache_dtype") in _FP8 else "bfloat16",
        gpu_memory_utilization=_share(given, "gpu_memory_utilization", DEFAULT_UTILIZATION),
        max_num_seqs=_whole(given, "max_num_seqs", DEFAULT_MAX_NUM_SEQS),
        max_num_batched_tokens=_whole(
            given, "max_num_batched_tokens", DEFAULT_MAX_NUM_BATCHED_TOKENS
        ),
        block_size=_whole(given, "block_size", 0) or None,
        blocks=_whole(given, _BLOCKS, 0) if _BLOCKS in given else None,
        rope_context=scaled_context(rope),
        implementation=_implementation(model, given, env, text_only=text_only),
        text_only=text_only,
        quantized_on_load="quantization" in config and model.quantization is None,
        speculative=speculative,
        async_scheduling=given.get("async_scheduling") is not False and not speculative,
        precompile=not (given.get("enforce_eager") or _is_on(env, "SKIP_JAX_PRECOMPILE")),
        min_token_bucket=int(env.get("MIN_TOKEN_BUCKET") or 16),
        bucket_padding_gap=int(env.get("VLLM_TPU_BUCKET_PADDING_GAP") or 0),
        compilation_sizes=tuple(_sizes(config)),
        attention_request_buckets=_is_on(env, "ATTN_BUCKETIZED_NUM_REQS"),
    )


def cpu_request_from_flags(
    model: Model,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
) -> CpuMemoryRequest | NotPlannable:
    """The request of a server on the CPU of the embedded cloud.

    Args:
        model: the model.
        flags: flags by their names with underscores, as
            :attr:`~tpuflex.settings.serving.ServingSettings.given_flags` has them; None counts as
            absent.
        environment: environment of the server.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if (reason := next(_undescribed(given, _UNPLANNED_FLAGS | {_BLOCKS}), None)) is not None:
        return NotPlannable(reason)
    model = _with_context(model, given, environment, _rope(model, given))
    space = environment.get("VLLM_CPU_KVCACHE_SPACE", "")
    if not _is_whole(space):
        return NotPlannable(
            "VLLM_CPU_KVCACHE_SPACE is not a whole number of GiB: the KV cache takes a share of "
            "the machine's memory, whatever that is"
        )
    if _whole(given, "tensor_parallel_size", 1) > 1:
        return NotPlannable("several processes on one CPU are not described")
    quantized = "quantization" in given or model.quantization is not None
    if quantized or ("speculative_config" in given and not _is_draftless(given)):
        return NotPlannable("quantised weights and draft models are not described for the CPU")
    if model.modalities != ("text",):
        return NotPlannable(f"what {model.name} has beside text is not described for the CPU")
    length = _whole(given, "max_model_len", model.max_context or 0)
    if not length:
        return NotPlannable(f"max_model_len is not set, and that of {model.name} is not known")
    sequences = _whole(given, "max_num_seqs", CPU_MAX_NUM_SEQS)
    parameter = _CPU_PARAMETER_BYTES.get(str(given.get("dtype", "auto")), 2)
    return CpuMemoryRequest(
        model=model,
        max_model_len=length,
        kv_space_bytes=int(space) * GIB,
        parameter_bytes=parameter,
        cache_bytes=1 if given.get("kv_cache_dtype") in _FP8 else parameter,
        block_size=_whole(given, "block_size", _CPU_BLOCK_SIZE),
        max_num_seqs=sequences,
        max_num_batched_tokens=_whole(
            given, "max_num_batched_tokens", min(DEFAULT_MAX_NUM_BATCHED_TOKENS, sequences * length)
        ),
    )


def _overrides(model: Model, flags: Mapping[str, object]) -> Mapping[str, object]:
    """What `hf_overrides` replace of the text model's configuration."""
    overridden = _table(flags.get("hf_overrides"))
    if model.modalities == ("text",):
        return overridden
    return _table(overridden.get(_TEXT_CONFIG))


def _rope(model: Model, flags: Mapping[str, object]) -> Mapping[str, object]:
    overridden = _overrides(model, flags)
    return _table(overridden.get("rope_parameters") or overridden.get("rope_scaling"))


def _with_context(
    model: Model,
    flags: Mapping[str, object],
    env: Mapping[str, str],
    rope: Mapping[str, object],
) -> Model:
    """``model`` with the longest context that the server takes of it."""
    positions = _overrides(model, flags).get("max_position_embeddings", model.max_context)
    longest = longest_context(positions if isinstance(positions, int) else None, rope, model.family)
    if longest is not None and _is_on(env, "VLLM_ALLOW_LONG_MAX_MODEL_LEN"):
        longest = max(longest, _whole(flags, "max_model_len", 0))
    return model.model_copy(update={"max_context": longest})


def _uncovered(model: Model, flags: Mapping[str, object], env: Mapping[str, str]) -> Iterator[str]:
    """What in flags and environment the planner has no rule for."""
    if not _whole(flags, "max_model_len", model.max_context or 0):
        yield f"max_model_len is not set, and the longest context of {model.name} is not known"
    if flags.get("dtype", "auto") not in {"auto", "bfloat16"}:
        yield f"only bfloat16 models are described, not dtype {flags['dtype']}"
    method = model.quantization or flags.get("quantization")
    if method is not None and model.stored is None and refused_method(str(method)) is None:
        yield (
            f"the bytes of weights that are quantised ({method}) are in their files only: use"
            " --model-dir"
        )
    if "speculative_config" in flags and not _is_draftless(flags):
        yield "the memory of draft models is not described"
    overridden = _table(flags.get("hf_overrides"))
    if overridden != _TEXT_ONLY:
        changed = overridden.keys() | _table(overridden.get(_TEXT_CONFIG)).keys()
        for key in sorted(changed - _SHAPELESS_OVERRIDES - {_TEXT_CONFIG}):
            yield f"hf_overrides change {key}, and what that does to memory is not described"
    config = _table(flags.get("additional_config"))
    for key in config.keys() - _PLANNED_CONFIG:
        yield f"what additional_config.{key} does to memory is not described"
    if _table(_table(config.get("quantization")).get("qwix")).get("use_abstract_model"):
        yield "the bytes of weights quantised without loading them whole are not published"
    if env.get("MODEL_IMPL_TYPE", "auto") not in {"auto", "vllm", "flax_nnx"}:
        yield "of the implementations, only flax_nnx and vllm are described"
    for name in ("USE_BATCHED_RPA_SEQ_ON_LANE", "ATTN_CUSTOM_NUM_REQS_BUCKETS"):
        if env.get(name, "0").lower() not in {"", "0", "false"}:
            yield f"what {name} does is not described"
    for name in ("MIN_TOKEN_BUCKET", "VLLM_TPU_BUCKET_PADDING_GAP"):
        if env.get(name) and not _is_whole(env[name]):
            yield f"{name} is not a whole number"


def _undescribed(flags: Mapping[str, object], unplanned: set[str]) -> Iterator[str]:
    """What ``flags`` have of ``unplanned``, but for switches that are off."""
    for name in sorted(unplanned):
        if flags.get(name, False) is not False:
            yield f"what {_word(name)} does to memory is not described"


def _unplanned(flags: Mapping[str, object]) -> Iterator[str]:
    yield from _undescribed(flags, _UNPLANNED_FLAGS)
    blocks = flags.get(_BLOCKS, 0)
    if type(blocks) is not int or blocks < 0:
        yield f"{_word(_BLOCKS)} has no whole number"


def _word(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _implementation(
    model: Model, flags: Mapping[str, object], env: Mapping[str, str], *, text_only: bool
) -> Implementation | None:
    """The implementation, where it is not the model's own (`models/common/model_loader.py`).

    Where `flax_nnx` is asked for and there is none, the back-end falls back to PyTorch.
    """
    wanted = env.get("MODEL_IMPL_TYPE", "auto")
    if wanted == "vllm":
        return "torchax"
    # Qwen3's JAX class cannot be loaded by the streamer, and `auto` then takes PyTorch.
    if wanted == "auto" and flags.get("load_format") == "runai_streamer":
        return "torchax" if model.family == "qwen3" else None
    return "flax_nnx" if text_only and model.family == "gemma4" else None


def _is_draftless(flags: Mapping[str, object]) -> bool:
    return _table(flags.get("speculative_config")).get("method") in _DRAFTLESS


def _sizes(config: Mapping[str, object]) -> Iterator[int]:
    sizes = config.get("compilation_sizes")
    for size in sizes[:_MOST_SIZES] if isinstance(sizes, list | tuple) else ():
        if isinstance(size, int) and size > 0:
            yield size


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _whole(flags: Mapping[str, object], name: str, default: int) -> int:
    value = flags.get(name, default)
    return value if isinstance(value, int) else default


def _share(flags: Mapping[str, object], name: str, default: float) -> float:
    value = flags.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _is_on(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").lower() in {"1", "true"}
