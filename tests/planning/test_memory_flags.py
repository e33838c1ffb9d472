"""Flags and environment of the server, read as a memory request."""

from __future__ import annotations

import pytest

from tests.planning.memory_requests import chips, model
from tpuflex.catalog.flags import written_flags
from tpuflex.catalog.rows import Model, StoredBytes
from tpuflex.planning.flags import cpu_request_from_flags, request_from_flags
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest, NotPlannable
from tpuflex.planning.stack import plan_cpu_memory

_TEXT_ONLY = {"architectures": ["Gemma4ForCausalLM"]}


def _asked(
    flags: dict[str, object], env: dict[str, str] | None = None, short: str = "31B"
) -> MemoryRequest:
    found = request_from_flags(model(short), chips("v6e-4"), flags, env or {})
    assert isinstance(found, MemoryRequest), found
    return found


def _refused(flags: dict[str, object], env: dict[str, str] | None = None) -> str:
    found = request_from_flags(model("31B"), chips("v6e-4"), flags, env or {})
    assert isinstance(found, NotPlannable), found
    return found.reason


def test_without_flags_vllms_defaults_hold() -> None:
    """All chips, the model's whole context, a bfloat16 cache, 0.92, 256 sequences, 2048 tokens."""
    assert _asked({}) == MemoryRequest(
        model=model("31B"),
        accelerator=chips("v6e-4"),
        tensor_parallel_size=4,
        max_model_len=262144,
        kv_cache_dtype="bfloat16",
        gpu_memory_utilization=0.92,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
    )


def test_flags_are_taken_over() -> None:
    """Each flag that decides memory reaches the request."""
    asked = _asked(
        {
            "tensor_parallel_size": 2,
            "max_model_len": 16384,
            "kv_cache_dtype": "fp8_e5m2",
            "gpu_memory_utilization": 0.9,
            "max_num_seqs": 64,
            "max_num_batched_tokens": 4096,
            "block_size": 256,
            "async_scheduling": False,
            "enforce_eager": True,
            "additional_config": {"compilation_sizes": [48, 96]},
        },
        {"VLLM_TPU_BUCKET_PADDING_GAP": "512", "MIN_TOKEN_BUCKET": "32"},
    )

    assert (asked.tensor_parallel_size, asked.max_model_len) == (2, 16384)
    assert (asked.kv_cache_dtype, asked.gpu_memory_utilization) == ("fp8", 0.9)
    assert (asked.max_num_seqs, asked.max_num_batched_tokens) == (64, 4096)
    assert (asked.block_size, asked.async_scheduling, asked.precompile) == (256, False, False)
    assert (asked.bucket_padding_gap, asked.min_token_bucket) == (512, 32)
    assert asked.compilation_sizes == (48, 96)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16"])
def test_an_automatic_cache_is_bfloat16(dtype: str) -> None:
    """The log's line on fp8_e5m2 is a banner: with auto the arrays are in bfloat16."""
    assert _asked({"kv_cache_dtype": dtype}).kv_cache_dtype == "bfloat16"


@pytest.mark.parametrize(
    ("short", "flags", "env", "path"),
    [
        ("31B", {}, {}, "flax_nnx"),
        ("31B", {}, {"MODEL_IMPL_TYPE": "vllm"}, "torchax"),
        ("Gemma 3 4B", {}, {}, "torchax"),
        # There is no JAX class of it: the back-end falls back to PyTorch.
        ("Gemma 3 4B", {}, {"MODEL_IMPL_TYPE": "flax_nnx"}, "torchax"),
        ("12B", {}, {}, "torchax"),
        ("12B", {"hf_overrides": _TEXT_ONLY}, {}, "flax_nnx"),
        ("Qwen3 8B", {}, {}, "flax_nnx"),
        ("Qwen3 8B", {"load_format": "runai_streamer"}, {}, "torchax"),
        ("31B", {"load_format": "runai_streamer"}, {}, "flax_nnx"),
    ],
)
def test_the_implementation(
    short: str, flags: dict[str, object], env: dict[str, str], path: str
) -> None:
    """The implementation that serves is the image's choice for the model, flags and environment."""
    assert _asked(flags, env, short).path == path


def test_the_text_only_architecture_leaves_out_the_vision_tower() -> None:
    """With Gemma4ForCausalLM no tower is loaded; with no images allowed it is."""
    assert _asked({"hf_overrides": _TEXT_ONLY}).text_only
    assert not _asked({"limit_mm_per_prompt": {"image": 0}}).text_only


def test_ngram_needs_no_memory_of_its_own() -> None:
    """It turns asynchronous scheduling off, and that is all."""
    asked = _asked({"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}})

    assert (asked.speculative, asked.async_scheduling) == (True, False)


def test_qwix_is_planned_as_it_is_loaded() -> None:
    """Weights quantised at load are loaded in bfloat16 first; those of files are what they are."""
    flags: dict[str, object] = {"additional_config": {"quantization": {"qwix": {"rules": []}}}}

    assert _asked(flags).quantized_on_load
    found = request_from_flags(_quantized("fp8"), chips("v6e-4"), flags)
    assert isinstance(found, MemoryRequest)
    assert not found.quantized_on_load


def _quantized(method: str) -> Model:
    """Gemma 4 31B, with files of 8 GiB that are quantized by ``method``."""
    stored = StoredBytes(sharded=8 * 2**30, replicated=0)
    return model("31B").model_copy(update={"quantization": method, "stored": stored})


@pytest.mark.parametrize(
    ("method", "env", "problem"),
    [
        ("compressed-tensors", {}, None),
        ("fp8", {}, None),
        ("auto_awq", {"MODEL_IMPL_TYPE": "vllm"}, None),
        ("auto_awq", {}, "auto_awq, at which the image's JAX implementation ends"),
        ("bitsandbytes", {}, "bitsandbytes, which is no quantization that vLLM on a TPU can read"),
        ("auto_gptq", {}, "auto_gptq, which is no quantization that vLLM on a TPU can read"),
        ("modelopt", {}, "modelopt, which is no quantization that vLLM on a TPU can read"),
    ],
)
def test_what_the_files_are_quantised_by_is_held_to_the_rule_of_the_flag(
    method: str, env: dict[str, str], problem: str | None
) -> None:
    """Files whose method the back-end does not have are not served, as the flag that names it is
    refused; with one that it has, their bytes are what counts."""
    found = request_from_flags(_quantized(method), chips("v6e-4"), {"max_model_len": 8192}, env)
    assert isinstance(found, MemoryRequest)

    plan = plan_memory(found)

    assert isinstance(plan, MemoryPlan)
    assert plan.weight_bytes == 2 * 2**30
    assert [each.what for each in plan.problems if "quantized" in each.what] == (
        [] if problem is None else [plan.problems[0].what]
    )
    assert problem is None or problem in plan.problems[0].what


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


#: What `hf_overrides` and the environment make of a context of 40,960 tokens.
CONTEXTS: list[tuple[dict[str, object], dict[str, str], int]] = [
    ({"rope_parameters": YARN, "max_position_embeddings": 131072}, {}, 131072),
    ({"rope_scaling": YARN, "max_position_embeddings": 131072}, {}, 131072),
    ({"max_position_embeddings": 8192}, {}, 8192),
    ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, {}, 81920),
    # vLLM does not apply the factor of YaRN.
    ({"rope_parameters": YARN}, {}, 40960),
    ({"rope_parameters": YARN}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, 131072),
]


@pytest.mark.parametrize(("overrides", "env", "longest"), CONTEXTS)
def test_hf_overrides_change_the_longest_context_as_in_vllm(
    overrides: dict[str, object], env: dict[str, str], longest: int
) -> None:
    """What the stack file overrides of the model's configuration counts, by vLLM's own rule."""
    flags = {"hf_overrides": overrides, "max_model_len": 131072}
    found = request_from_flags(model("Qwen3 8B"), chips("v6e-4"), flags, env)

    assert isinstance(found, MemoryRequest)
    assert found.model.max_context == longest
    plan = plan_memory(found)
    assert isinstance(plan, MemoryPlan)
    told = [each.nearest for each in plan.problems if "max_model_len" in each.setting]
    if longest >= 131072:
        assert not told
    elif overrides == {"rope_parameters": YARN}:
        assert told[0].startswith("Write max_position_embeddings: 131072 in hf_overrides, too")
    else:
        assert "Write max_model_len" in told[0]


def test_hf_overrides_of_a_multimodal_model_are_those_of_its_text_model() -> None:
    """vLLM takes the context of such a model from text_config alone."""

    def longest(overrides: dict[str, object]) -> int | None:
        return _asked({"hf_overrides": overrides, "max_model_len": 1}).model.max_context

    assert longest({"max_position_embeddings": 8192}) == 262144
    assert longest({"text_config": {"max_position_embeddings": 8192}}) == 8192


@pytest.mark.parametrize(
    ("flags", "env", "reason"),
    [
        ({"dtype": "float32"}, {}, "only bfloat16 models are described, not dtype float32"),
        (
            {"quantization": "fp8"},
            {},
            "the bytes of weights that are quantised (fp8) are in their files only: use"
            " --model-dir",
        ),
        (
            {"speculative_config": {"method": "mtp"}},
            {},
            "the memory of draft models is not described",
        ),
        (
            {"hf_overrides": {"num_hidden_layers": 2}},
            {},
            "hf_overrides change num_hidden_layers, and what that does to memory is not described",
        ),
        (
            {"additional_config": {"sharding": {"sharding_strategy": {}}}},
            {},
            "what additional_config.sharding does to memory is not described",
        ),
        (
            {"additional_config": {"quantization": {"qwix": {"use_abstract_model": True}}}},
            {},
            "the bytes of weights quantised without loading them whole are not published",
        ),
        (
            {},
            {"MODEL_IMPL_TYPE": "jetpack"},
            "of the implementations, only flax_nnx and vllm are described",
        ),
        (
            {},
            {"USE_BATCHED_RPA_SEQ_ON_LANE": "1"},
            "what USE_BATCHED_RPA_SEQ_ON_LANE does is not described",
        ),
        (
            {},
            {"VLLM_TPU_BUCKET_PADDING_GAP": "wide"},
            "VLLM_TPU_BUCKET_PADDING_GAP is not a whole number",
        ),
    ],
)
def test_what_no_source_describes_is_not_planned(
    flags: dict[str, object], env: dict[str, str], reason: str
) -> None:
    """There is a reason instead of a guess."""
    assert _refused(flags, env) == reason


@pytest.mark.parametrize(
    "arguments",
    [
        ("--num-gpu-blocks-override", "1000"),
        ("--num-gpu-blocks-override=1000",),
        ("--seed", "1", "--num_gpu_blocks_override", "1000", "--watermark", "0.1"),
    ],
)
def test_blocks_of_ones_own(arguments: tuple[str, ...]) -> None:
    """The number of blocks is taken from the further arguments, however they are written."""
    assert _asked(written_flags(arguments)).blocks == 1000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ("--enable-expert-parallel",),
            "what --enable-expert-parallel does to memory is not described",
        ),
        (
            ("--num-gpu-blocks-override", "many"),
            "--num-gpu-blocks-override has no whole number",
        ),
    ],
)
def test_arguments_that_are_not_planned(arguments: tuple[str, ...], reason: str) -> None:
    """Further arguments that change memory in ways that nobody described end the plan."""
    assert _refused(written_flags(arguments)) == reason


def test_an_unknown_context_has_to_be_given() -> None:
    """Where neither the flags nor the catalog know the context, nothing is planned."""
    row = model("31B").model_copy(update={"max_context": None})

    assert request_from_flags(row, chips("v6e-4"), {}) == NotPlannable(
        "max_model_len is not set, and the longest context of google/gemma-4-31B-it is not known"
    )


def test_blocks_of_ones_own_on_the_cpu_are_not_planned() -> None:
    """There the cache has a size of its own."""
    found = cpu_request_from_flags(model("SmolLM2"), {"num_gpu_blocks_override": 8}, {})

    assert found == NotPlannable("what --num-gpu-blocks-override does to memory is not described")


def _cpu(flags: dict[str, object], space: str = "1", short: str = "SmolLM2") -> MemoryPlan:
    asked = cpu_request_from_flags(model(short), flags, {"VLLM_CPU_KVCACHE_SPACE": space})
    assert isinstance(asked, CpuMemoryRequest), asked
    plan = plan_cpu_memory(asked)
    assert isinstance(plan, MemoryPlan), plan
    return plan


def test_the_embedded_cloud_plans_by_the_cpus_rules() -> None:
    """SmolLM2 in 1 GiB of cache: 46,603 tokens of 23,040 bytes, in blocks of 128."""
    plan = _cpu({"max_model_len": 512, "max_num_seqs": 8, "dtype": "bfloat16"})

    assert plan.kv_bytes_per_token == 30 * 2 * 3 * 64 * 2
    assert (plan.block_size, plan.blocks, plan.cached_tokens) == (128, 364, 46_592)
    assert plan.weight_bytes == 2 * 134_515_008
    assert plan.weight_bytes + plan.kv_bytes + plan.workspace_bytes == plan.hbm_bytes
    assert (plan.problems, plan.concerns) == ((), ())


def test_an_eight_bit_cache_on_the_cpu_is_half() -> None:
    """Nothing is padded on the CPU."""
    sixteen, eight = (
        _cpu({"max_model_len": 512}),
        _cpu({"max_model_len": 512, "kv_cache_dtype": "fp8"}),
    )

    assert eight.kv_bytes_per_token * 2 == sixteen.kv_bytes_per_token


def test_float32_on_the_cpu_is_twice() -> None:
    """The cache has the model's data type."""
    sixteen, wide = _cpu({"max_model_len": 512}), _cpu({"max_model_len": 512, "dtype": "float32"})

    assert wide.kv_bytes_per_token == 2 * sixteen.kv_bytes_per_token
    assert wide.weight_bytes == 2 * sixteen.weight_bytes


def test_a_cache_too_small_on_the_cpu() -> None:
    """One sequence that does not fit is refused with the space that it takes."""
    [problem] = _cpu({"max_model_len": 8192}, short="Llama", space="0").problems

    assert problem.setting == "serving.env.VLLM_CPU_KVCACHE_SPACE"
    assert problem.what == "one sequence of 8,192 tokens needs 1.00 GiB of KV cache"
    assert problem.nearest == 'Write "1" or more, or a smaller max_model_len.'


def test_windows_are_kept_on_the_cpu() -> None:
    """Gemma 3 1B: 26 layers, of which 4 are full, in groups of 4; a window of 512 holds 20 blocks.

    The server's own figures for such shapes are in tests/acceptance/vllm/test_against_vllm.py.
    """
    plan = _cpu({"max_model_len": 32768}, short="Gemma 3 1B")

    block = 4 * 128 * 2 * 1 * 256 * 2
    assert plan.blocks == 2**30 // block
    per_sequence = 32768 // 128 + 6 * (-(-(512 - 1 + 2048) // 128) + 1)
    assert plan.full_length_sequences == plan.blocks / per_sequence
    assert plan.kv_bytes_per_token == 26 * 2 * 256 * 2


def test_preemption_on_the_cpu() -> None:
    """More sequences than fit are said to be preempted."""
    [concern] = _cpu({"max_model_len": 8192}).concerns

    assert concern.setting == "serving.flags.max_num_seqs"
    assert concern.what.startswith("5.7 sequences of 8,192 tokens fit, and up to 128 are admitted")


@pytest.mark.parametrize(
    ("short", "flags", "env", "reason"),
    [
        ("SmolLM2", {}, {}, "VLLM_CPU_KVCACHE_SPACE is not a whole number of GiB"),
        ("SmolLM2", {"tensor_parallel_size": 2}, {"VLLM_CPU_KVCACHE_SPACE": "1"}, "several"),
        ("E2B", {}, {"VLLM_CPU_KVCACHE_SPACE": "1"}, "what google/gemma-4-E2B-it has"),
        ("SmolLM2", {"quantization": "awq"}, {"VLLM_CPU_KVCACHE_SPACE": "1"}, "quantised"),
    ],
)
def test_what_is_not_planned_on_the_cpu(
    short: str, flags: dict[str, object], env: dict[str, str], reason: str
) -> None:
    """A cache of no set size, several processes, images, and quantised weights."""
    found = cpu_request_from_flags(model(short), flags, env)

    assert isinstance(found, NotPlannable)
    assert found.reason.startswith(reason)
