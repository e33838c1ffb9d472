"""Values that exclude each other, that a TPU cannot do, or that the backend cannot read."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import embedded, findings, sections
from tpuflex.catalog.flags import flag_rules, vllm_interface
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings
from tpuflex.settings.serving import ServingFlags

REFUSED: list[tuple[dict[str, object], str, str]] = [
    (
        {"model.name": "google/gemma-4-31B-it", "serving.flags.quantization": "fp8"},
        "quantization",
        "qwix",
    ),
    (
        {"model.name": "acme/Gemma4-mine", "serving.flags.quantization": "fp8"},
        "quantization",
        "quantized already",
    ),
    ({"serving.flags.quantization": "gptq"}, "quantization", "compressed-tensors"),
    (
        {"serving.flags.speculative_config": {"method": "medusa"}},
        "speculative_config",
        "ngram",
    ),
    (
        {"serving.flags.override_generation_config": {"seed": 1}},
        "override_generation_config",
        "temperature",
    ),
]


@pytest.mark.parametrize(("changes", "key", "remedy"), REFUSED)
def test_what_a_tpu_cannot_do_is_refused(changes: dict[str, object], key: str, remedy: str) -> None:
    """A value at which the server would not start is refused, with what to write instead."""
    (found,) = findings(sections(changes))

    assert found.key == f"tpuflex:serving.flags.{key}"
    assert remedy in found.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"model.name": "meta-llama/Llama-3.1-8B", "serving.flags.quantization": "fp8"},
        {"serving.flags.quantization": "compressed-tensors"},
        {"serving.flags.speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
        {"serving.flags.override_generation_config": {"temperature": 0.5, "top_k": 4}},
        {"serving.flags.limit_mm_per_prompt": {"image": 4, "audio": 0}},
    ],
)
def test_what_a_tpu_can_do_is_not(changes: dict[str, object]) -> None:
    """Neither are values that serve."""
    assert findings(sections(changes)) == ()


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8", "fp8_e4m3"])
def test_block_sizes_that_the_kernel_packs(dtype: str) -> None:
    """A block holds whole words of the cache: of two entries in bfloat16, of four in 8 bits."""
    entries = 4 if dtype.startswith("fp8") else 2
    for size in range(1, 130):
        flags = {"block_size": size, "kv_cache_dtype": dtype, "max_model_len": 512}
        refused = findings(sections({"serving.flags": flags, "model.name": "acme/model"}))
        keys = [item.key for item in refused]
        assert keys == ([] if size % entries == 0 else ["tpuflex:serving.flags.block_size"]), size


def test_rules_of_the_tpu_do_not_bind_the_cpu() -> None:
    """The embedded cloud's vLLM reads other formats."""
    assert findings(embedded({"serving.flags.quantization": "gptq"})) == ()


@pytest.mark.parametrize("model", ["google/gemma-4-31B-it", "google/gemma-4-26B-A4B-it"])
def test_audio_without_a_tower_is_refused(model: str) -> None:
    """The server would start, and promise what it cannot do."""
    changes = {
        "model.name": model,
        "slice.accelerator_type": "v6e-8",
        "serving.flags.max_model_len": 4096,
        "serving.flags.limit_mm_per_prompt": {"image": 4, "audio": 1},
    }
    assert [item.key for item in findings(sections(changes))] == [
        "tpuflex:serving.flags.limit_mm_per_prompt"
    ]


@pytest.mark.parametrize("cloud", ["google", "embedded"])
def test_audio_that_a_tpu_does_not_load_is_warned_about(cloud: str) -> None:
    """The model has the tower, and another back-end would load it."""
    changes = {"serving.flags.limit_mm_per_prompt": {"image": 4, "audio": 1}}
    model = {"model.name": "google/gemma-4-E4B-it"}
    made = embedded({**changes, **model}) if cloud == "embedded" else sections({**changes, **model})

    found = [item.key for item in warnings(parse(made, "test"))]

    assert ("tpuflex:serving.flags.limit_mm_per_prompt" in found) == (cloud == "google")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL_IMPL_TYPE", "jax"),
        ("USE_BATCHED_RPA_KERNEL", "yes"),
        ("VLLM_TPU_BUCKET_PADDING_GAP", "512 tokens"),
        ("ATTN_CUSTOM_NUM_REQS_BUCKETS", "8,x"),
        ("TPU_MULTIHOST_BACKEND", "mpi"),
        ("MOE_APPROX_TOPK_RECALL_TARGET", "most"),
    ],
)
def test_values_that_the_backend_cannot_read_are_refused(name: str, value: str) -> None:
    """The backend ends at such a value when it starts; a CPU never reads it."""
    (found,) = findings(sections({"serving.env": {name: value}}))

    assert found.key == f"tpuflex:serving.env.{name}"
    assert value not in str(found)
    assert findings(embedded({"serving.env": {name: value}})) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL_IMPL_TYPE", "flax_nnx"),
        ("USE_BATCHED_RPA_KERNEL", "1"),
        ("SKIP_JAX_PRECOMPILE", "False"),
        ("VLLM_TPU_BUCKET_PADDING_GAP", "512"),
        ("ATTN_CUSTOM_NUM_REQS_BUCKETS", "8, 16"),
        ("JAX_PLATFORMS", "proxy,cpu"),
        ("MOE_REQUANTIZE_CLIP_PERCENTILE", "99.9"),
        ("JITTED_MM_MODULE_KEYS", "a,b"),
    ],
)
def test_values_that_it_can_read_are_not(name: str, value: str) -> None:
    """Environment of the seeds and of the recipes passes."""
    assert findings(sections({"serving.env": {name: value}})) == ()


def test_a_variable_that_vllm_does_not_know_is_warned_about() -> None:
    """vLLM ignores it; the nearest name is given."""
    stack = parse(sections({"serving.env": {"VLLM_TPU_BUCKET_PADING_GAP": "512"}}), "test")
    found = [item for item in warnings(stack) if "serving.env" in item.key]

    assert [item.key for item in found] == ["tpuflex:serving.env.VLLM_TPU_BUCKET_PADING_GAP"]
    assert "VLLM_TPU_BUCKET_PADDING_GAP" in found[0].remedy


def test_rows_are_about_settings() -> None:
    """Each row about values names settings that exist, or flags that extra_args may hold."""
    accepted = {name for name, rule in flag_rules().by_name.items() if rule.accepted}
    known = {*ServingFlags.model_fields, *(name.replace("-", "_") for name in accepted)}
    for value in flag_rules().values:
        for path in (value.key, *value.when, *value.absent):
            assert path.partition(".")[0] in known
    for limit in flag_rules().limits:
        for path in (limit.key, limit.bound, *limit.when):
            assert path.partition(".")[0] in known


def test_the_interface_is_dated() -> None:
    """The list of flags says of which versions it is, and when it was read."""
    interface = vllm_interface()
    assert interface.vllm_version == "0.32.0"
    assert interface.tpu_inference_version == "0.32.0"
    assert interface.date >= "2026-11-22"
