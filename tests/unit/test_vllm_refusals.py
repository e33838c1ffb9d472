"""What vLLM would refuse when it starts is refused, or warned about, before chips are paid for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.unit.stack_sections import embedded, findings, sections
from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.flags import vllm_interface
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings
from tpuflex.settings.serving import ServingFlags

UNKNOWN_IMAGE = f"us-docker.pkg.dev/acme-serving/x/vllm@sha256:{'0' * 64}"
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}

#: Flags -> where the finding is, and a part of it.
NAMES: list[tuple[dict[str, object], str, str]] = [
    (
        {"tool_call_parser": "gemma-4", "enable_auto_tool_choice": True},
        "tool_call_parser",
        "Did you mean gemma4?",
    ),
    ({"tool_call_parser": "Hermes"}, "tool_call_parser", "Did you mean hermes?"),
    ({"tool_call_parser": "none"}, "tool_call_parser", "pythonic, qwen3_coder"),
    ({"reasoning_parser": "qwen-3"}, "reasoning_parser", "Did you mean qwen3?"),
    (
        {"speculative_config": {**NGRAM, "prompt_lookup_maximum": 4}},
        "speculative_config.prompt_lookup_maximum",
        "Did you mean prompt_lookup_max?",
    ),
]


@pytest.mark.parametrize(("flags", "key", "text"), NAMES)
@pytest.mark.parametrize("make", [sections, embedded])
def test_a_name_that_the_images_vllm_does_not_have(
    make: Callable[[Mapping[str, object]], dict[str, Any]],
    flags: dict[str, object],
    key: str,
    text: str,
) -> None:
    """It is refused with the nearest name, or with all of them."""
    (found,) = findings(make({"serving.flags": flags}))

    assert found.key == f"tpuflex:serving.flags.{key}"
    assert text in found.remedy


def test_a_name_of_a_later_vllm_than_the_images() -> None:
    """The list is that of the image: the CPU's vLLM 0.32.0 has a parser that 0.30.0 has not."""
    flags = {"serving.flags.tool_call_parser": "hf"}

    assert findings(embedded(flags)) == ()
    (found,) = findings(sections(flags))
    assert "vLLM 0.29.1rc1.dev468 has no tool parser hf" in found.problem


def test_an_image_that_the_catalog_does_not_know_is_not_refused_by_a_list() -> None:
    """Its vLLM may have the name: a warning says that no known one does."""
    changes = {"serving.image": UNKNOWN_IMAGE, "serving.flags.tool_call_parser": "gemma-4"}
    found = {item.key: item for item in warnings(parse(sections(changes), "test"))}

    assert found["tpuflex:serving.flags.tool_call_parser"].remedy == "Did you mean gemma4?"


@pytest.mark.parametrize(("version", "first"), [("0.23.1", "0.30.0"), ("0.31.0", "0.32.0")])
def test_a_version_has_at_most_the_names_of_the_next_that_was_read(
    version: str, first: str
) -> None:
    """Names are added and not removed; of a version after the last one nothing is known."""
    lists = vllm_interface().lists_of(version)

    assert lists is not None
    assert lists.vllm_version == first
    assert vllm_interface().lists_of("0.33.0") is None


#: Further flags, settings -> where the finding is, and a part of it. The real vLLM is asked about
#: them in tests/acceptance/vllm/test_vllm_parser.py.
TOGETHER: list[tuple[list[str], dict[str, object], str, str]] = [
    (
        [],
        {"max_num_batched_tokens": 8, "max_num_seqs": 16},
        "flags.max_num_batched_tokens",
        "8 is less than max_num_seqs (16), and vLLM refuses to start. Write 16 or more.",
    ),
    (
        [],
        {"max_num_seqs": 4096, "max_model_len": 64},
        "flags.max_num_batched_tokens",
        "is 2048 by default, which is less than max_num_seqs (4096)",
    ),
    (
        [],
        {
            "max_num_batched_tokens": 1024,
            "max_model_len": 4096,
            "enable_chunked_prefill": False,
            "max_num_seqs": 4,
        },
        "flags.max_num_batched_tokens",
        "1024 is less than max_model_len (4096)",
    ),
    (
        [],
        {"speculative_config": {**NGRAM, "prompt_lookup_min": 5, "prompt_lookup_max": 2}},
        "flags.speculative_config.prompt_lookup_min",
        "5 is more than speculative_config.prompt_lookup_max (2)",
    ),
    ([], {"speculative_config": {"method": "ngram"}}, "flags.speculative_config", "such as 3"),
    (
        [],
        {"speculative_config": {"num_speculative_tokens": 3}},
        "flags.speculative_config",
        "names no method",
    ),
    (
        [],
        {"speculative_config": {**NGRAM, "num_speculative_tokens": 0}},
        "flags.speculative_config.num_speculative_tokens",
        "no whole number of more than 0",
    ),
    ([], {"load_format": "runai_streamer"}, "flags.load_format", "a package"),
    (
        ["--max-num-active-seqs", "512"],
        {"max_num_seqs": 256},
        "extra_args",
        "--max-num-active-seqs 512 is more than max_num_seqs (256)",
    ),
    (
        ["--long-prefill-token-threshold=5000"],
        {"max_model_len": 4096},
        "extra_args",
        "--long-prefill-token-threshold 5000 is more than max_model_len (4096)",
    ),
    (["--enable-per-request-metrics", "--disable-log-stats"], {}, "extra_args", "one of them"),
    (["--per-request-spec-decode-metrics", "summary"], {}, "extra_args", "no speculative_config"),
    (["--mm-shm-cache-max-object-size-mb", "64"], {}, "extra_args", "is shm"),
    (["--stream-interval", "0"], {}, "extra_args[0]", "a whole number not below 1"),
    (["--watermark", "1.0"], {}, "extra_args[0]", "a number not below 0 and below 1"),
    (["--seed", "-1"], {}, "extra_args[0]", "a whole number not below 0 and below 4294967296"),
    (["--kv-cache-metrics-sample", "0"], {}, "extra_args[0]", "a number above 0 and not above 1"),
    (["--tokenizer-mode", "slow"], {}, "extra_args[0]", "auto, mistral, hf"),
]


@pytest.mark.parametrize(("arguments", "flags", "key", "text"), TOGETHER)
def test_values_at_which_vllm_ends(
    arguments: list[str], flags: dict[str, object], key: str, text: str
) -> None:
    """Numbers and switches are held against each other, settings and further flags alike."""
    made = embedded({"serving.extra_args": arguments, "serving.flags": flags})
    (found,) = findings(made)

    assert found.key == f"tpuflex:serving.{key}"
    assert text in str(found)


def test_a_model_without_experts_has_none_to_spread() -> None:
    """vLLM refuses the flag for a dense model of the catalog, and takes it for one with experts."""
    changes = {"serving.extra_args": ["--enable-expert-parallel"]}
    model = {"model.name": "google/gemma-4-26B-A4B-it", "serving.flags.max_model_len": 4096}

    (found,) = findings(sections(changes))
    assert "no experts" in found.problem
    assert findings(sections({**changes, **model})) == ()


@pytest.mark.parametrize(
    ("flags", "least"),
    [
        ({}, 2496),
        ({"limit_mm_per_prompt": {"video": 0}}, 280),
        ({"limit_mm_per_prompt": {"video": 0, "image": 0}}, 0),
        ({"language_model_only": True}, 0),
        ({"disable_chunked_mm_input": False}, 0),
    ],
)
def test_media_that_may_not_be_split_fit_into_a_batch(flags: dict[str, object], least: int) -> None:
    """Of Gemma 4 the largest item that requests may hold is known; vLLM wants it in one batch."""
    for batched in (least - 1, least):
        chosen = {
            "disable_chunked_mm_input": True,
            "max_num_batched_tokens": max(batched, 64),
            "max_num_seqs": 8,
            **flags,
        }
        found = findings(sections({"serving.flags": chosen}))
        keys = ["tpuflex:serving.flags.max_num_batched_tokens"] if 64 < batched < least else []
        assert [item.key for item in found] == keys


def test_the_files_say_which_media_a_model_takes() -> None:
    """A model that takes text alone, under the name of one that takes videos, needs no batch for
    them."""
    text = Checkpoint("here", None, row=builtin().models["Qwen/Qwen3-4B"])
    flags = {"disable_chunked_mm_input": True, "max_num_batched_tokens": 2048, "max_num_seqs": 8}

    assert parse(sections({"serving.flags": flags}), "stack", lambda _model: text)


@pytest.mark.parametrize(
    ("quantization", "key", "text"),
    [
        ("int8.yaml", "", "has no qwix.rules"),
        ({"qwix": {"rule": []}}, "", "has no qwix.rules"),
        ([{"weight_dtype": "int8"}], "[0].weight_dtype", "Did you mean weight_qtype?"),
        ([{}, {"weight_qtype": "float8_e4m3f"}], "[1].weight_qtype", "float8_e4m3fn?"),
        ([{"act_qtype": "bfloat16"}], "[0].act_qtype", "float8_e4m3fn, float8_e5m2, int8"),
        ([{"module_path": "*attn*"}], "[0].module_path", "no regular expression"),
    ],
)
def test_rules_of_qwix_that_cannot_be_read(quantization: object, key: str, text: str) -> None:
    """The TPU backend ends at them, after the weights are on the host; a CPU ignores them."""
    if isinstance(quantization, list):
        quantization, key = {"qwix": {"rules": quantization}}, f".qwix.rules{key}"
    changes = {"serving.flags.additional_config": {"quantization": quantization}}

    (found,) = findings(sections(changes))

    assert found.key == f"tpuflex:serving.flags.additional_config.quantization{key}"
    assert text in str(found)
    assert findings(embedded(changes)) == ()


def test_gemma_3_is_not_served_in_float16() -> None:
    """vLLM lists the models whose numbers overflow there."""
    changes = {"serving.flags.dtype": "float16", "slice.accelerator_type": "v6e-1"}

    (found,) = findings(sections({**changes, "model.name": "google/gemma-3-4b-it"}))
    assert found.key == "tpuflex:serving.flags.dtype"
    assert findings(sections({**changes, "model.name": "acme/model"})) == ()


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("VLLM_ENGINE_READY_TIMEOUT_S", "30m", "a whole number"),
        ("VLLM_XLA_CHECK_RECOMPILATION", "true", "a whole number"),
        ("VLLM_LOG_STATS_INTERVAL", "often", "a number"),
        ("VLLM_WORKER_MULTIPROC_METHOD", "forks", "spawn, fork"),
    ],
)
def test_values_of_vllms_own_variables(name: str, value: str, remedy: str) -> None:
    """On both clouds vLLM ends at a value of a variable that it cannot read."""
    for made in (sections, embedded):
        (found,) = findings(made({"serving.env": {name: value}}))
        assert found.key == f"tpuflex:serving.env.{name}"
        assert found.remedy == f"Write {remedy}."
    assert findings(sections({"serving.env": {"VLLM_FLOAT32_MATMUL_PRECISION": "HIGH"}})) == ()


def test_settings_are_within_vllms_bounds() -> None:
    """No number that a setting takes is one that vLLM's configuration refuses."""
    for flag in vllm_interface().flags:
        name = flag.name.replace("-", "_")
        for bound, limit in flag.bounds.items() if name in ServingFlags.model_fields else ():
            outside = {"ge": limit - 1, "gt": limit, "le": limit + 1, "lt": limit}[bound]
            value = outside if flag.type == "float" else int(outside)
            assert findings(sections({f"serving.flags.{name}": value})), name
