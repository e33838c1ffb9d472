"""What a host gets: configuration, arguments, metadata."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.boot.config import boot_config, serving_args
from tpuflex.boot.document import BootConfig, SecretConfig
from tpuflex.boot.metadata import node_metadata
from tpuflex.boot.places import weights_buckets, weights_prefix
from tpuflex.boot.planned import planned_weights
from tpuflex.catalog.weight_formats import allowed_patterns
from tpuflex.host.report import CONFIG_KEY
from tpuflex.naming import Names, library_names, programs_key
from tpuflex.settings.model import ModelSettings, StackSettings
from tpuflex.settings.serving import ServingFlags

IMAGE = "vllm/vllm-tpu@sha256:" + "0" * 64
KEY = "projects/my-project/secrets/proj-dev-chat-api-key/versions/3"
NAMES = Names("proj", "dev", "chat")
SHA256 = "5a" * 32


def settings(certificate: int | None = None, **serving: Any) -> StackSettings:
    """Settings of a stack on four chips."""
    return StackSettings.model_validate(
        {
            "cloud": "google",
            "project": "my-project",
            "slice": {
                "zones": ["us-east5-a"],
                "accelerator_type": "v6e-4",
                "max_run_duration": "4h",
                "timeouts": {"ready": "90m"},
            },
            "model": {"name": "google/gemma-4-31B-it", "weights": {"revision": "r2"}},
            "serving": {"image": IMAGE, **serving},
            "secrets": {"api_key_version": 3, "tls_certificate_version": certificate},
        }
    )


def config(certificate: int | None = None, **serving: Any) -> BootConfig:
    """The boot configuration of that stack."""
    return boot_config(settings(certificate, **serving), NAMES, SHA256)


@pytest.mark.parametrize(
    ("bucket", "held_by"),
    [
        ("own", lambda region: NAMES.bucket("my-project", region)),
        ("library", lambda region: library_names("my-project").bucket("my-project", region)),
        ("gs://mine/below", lambda _region: "mine"),
    ],
)
def test_weights_have_a_bucket_in_each_region(bucket: str, held_by: Callable[[str], str]) -> None:
    """Hosts read from the bucket of their own region: the stack's or the library's there, in the
    order of the zones; one that somebody brings is the same everywhere."""
    stack = settings()
    zones = ("us-east5-b", "europe-west4-a", "us-east5-a")
    weights = stack.model.weights.model_copy(update={"bucket": bucket})
    two = stack.model_copy(
        update={
            "slice": stack.slice.model_copy(update={"zones": zones}),
            "model": stack.model.model_copy(update={"weights": weights}),
        }
    )
    assert two.slice.regions == ("us-east5", "europe-west4")
    assert list(weights_buckets(two, NAMES).items()) == [
        (region, held_by(region)) for region in two.slice.regions
    ]
    document = json.loads(boot_config(two, NAMES, SHA256).to_json())
    assert document["weights"]["buckets"] == weights_buckets(two, NAMES)
    assert document["weights"]["bucket"] == held_by("us-east5")
    planned = planned_weights({CONFIG_KEY: json.dumps(document)})
    assert planned is not None
    assert all(planned.holds(held_by(region)) for region in two.slice.regions)
    assert not planned.holds(NAMES.bucket("my-project", "asia-east1"))


OWN_KEY = NAMES.secret_version("my-project", "programs-key", 1)


@pytest.mark.parametrize(
    ("mode", "key", "own_key"),
    [
        ("bucket", f"{programs_key('my-project')}/versions/latest", OWN_KEY),
        ("host", OWN_KEY, OWN_KEY),
        ("none", None, None),
    ],
)
def test_programs_are_kept_in_a_library(mode: str, key: str | None, own_key: str | None) -> None:
    """Weights come from the library's bucket in the region of the chips; programs are kept there,
    too, in a place of the endpoint's own and with the library's key. Without a
    library there is one bucket, and a key of the endpoint's own signs them. No host gets that key
    with what clients are let in by."""
    stack = settings(compile_cache=mode)
    weights = stack.model.weights.model_copy(update={"bucket": "library"})
    model = stack.model.model_copy(update={"weights": weights})
    shared = boot_config(stack.model_copy(update={"model": model}), NAMES, SHA256)
    own = config(compile_cache=mode)
    bucket = NAMES.bucket("my-project", "us-east5")

    assert shared.weights.bucket == library_names("my-project").bucket("my-project", "us-east5")
    assert shared.weights.prefix == own.weights.prefix
    assert shared.compile_cache.bucket is None
    place = f"compile-cache/{NAMES.prefix}-{NAMES.owner}"
    assert shared.compile_cache.prefix == place
    assert shared.compile_cache.key == key
    assert own.weights.bucket == bucket
    kept = {"mode": mode, "prefix": place} | ({"key": own_key} if own_key else {})
    assert json.loads(own.to_json())["compile_cache"] == kept
    assert [secret.role for secret in own.secrets] == ["api-key"]


@pytest.mark.parametrize(
    ("serving", "mode"),
    [
        ({}, "bucket"),
        ({"compile_cache": "host"}, "host"),
        ({"compile_cache": "none"}, "none"),
        ({"env": {"VLLM_XLA_CACHE_PATH": "/x"}}, "none"),
        ({"env": {"JAX_COMPILATION_CACHE_DIR": "/x"}}, "none"),
    ],
)
def test_compiled_programs_are_kept_unless_somebody_else_does(
    serving: dict[str, Any], mode: str
) -> None:
    """In the bucket by default; a directory of the user's own is left to the user."""
    cache = config(**serving).compile_cache
    assert cache.mode == mode


def test_document_has_the_fields_that_the_script_reads() -> None:
    """The document is the contract between package and startup script."""
    document = json.loads(config().to_json())
    assert document["schema"] == 1
    assert document["endpoint"] == {"project": "proj", "stack": "dev", "name": "chat"}
    assert document["container"]["image"] == IMAGE
    assert document["serving"] == {
        "model_name": "google/gemma-4-31B-it",
        "port": 8000,
        "security_floor": "0.23.1",
        "chat_template": "",
        "warmup_s": 45,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 256,
        "args": ["--tensor-parallel-size", "4", "--allowed-media-domains", "none.invalid"],
    }
    assert document["weights"] == {
        "bucket": NAMES.bucket("my-project", "us-east5"),
        "prefix": "models/google-gemma-4-31b-it/r2",
        "manifest": "MANIFEST.json",
        "manifest_sha256": SHA256,
        "formats": list(allowed_patterns()),
        "parallelism": 16,
        "expected_gbps": 25,
    }
    assert document["secrets"] == [{"role": "api-key", "version": KEY}]
    assert document["timeouts"] == {"ready_s": 5400, "secret_s": 1800}
    assert document["commands"]["weights"] == "tpuflex weights push --stack dev --endpoint chat"


@pytest.mark.parametrize(("said", "seconds"), [("45s", 45), ("0s", 0), ("2m", 120)])
def test_a_warm_up_is_told_in_seconds(said: str, seconds: int) -> None:
    """None is 0."""
    assert json.loads(config(warmup=said).to_json())["serving"]["warmup_s"] == seconds


def test_what_a_warm_up_goes_by_is_a_field() -> None:
    """The host learns the sizes of a step from fields, not from the server's arguments."""
    flags = {"max_num_seqs": 16, "max_num_batched_tokens": 4096}
    serving = config(flags=flags).serving
    assert (serving.max_num_seqs, serving.max_num_batched_tokens) == (16, 4096)


def test_equal_settings_give_equal_text() -> None:
    """The document does not depend on the order in which a stack file lists things."""
    assert config(env={"A": "1", "B": "2"}).to_json() == config(env={"B": "2", "A": "1"}).to_json()


def test_stack_environment_wins() -> None:
    """The stack file overrides our defaults."""
    assert config(env={"VLLM_MAX_N_SEQUENCES": "4"}).container.env["VLLM_MAX_N_SEQUENCES"] == "4"
    assert config().container.env["VLLM_MAX_N_SEQUENCES"] == "128"


def test_the_server_is_always_offline() -> None:
    """S13: weights come from the bucket, so nothing is downloaded, and no token is needed."""
    assert config().container.env["HF_HUB_OFFLINE"] == "1"
    assert [secret.role for secret in config().secrets] == ["api-key"]


def test_a_certificate_is_one_of_the_hosts_secrets() -> None:
    """The pinned version is named, and the URL says https."""
    roles = [secret.role for secret in config(certificate=2).secrets]
    assert roles == ["api-key", "tls-certificate"]
    assert settings(certificate=2).url("10.0.0.2") == "https://10.0.0.2:8000/v1"
    assert settings().url("10.0.0.2") == "http://10.0.0.2:8000/v1"
    assert settings().url("") == ""


@pytest.mark.parametrize("version", ["projects/p/secrets/s/versions/latest", "key", KEY + "x"])
def test_secrets_are_pinned(version: str) -> None:
    """A version that can move under a running host is refused."""
    with pytest.raises(ValueError, match="version"):
        SecretConfig(role="api-key", version=version)


def test_flags_keep_vllms_names_and_order() -> None:
    """Each field becomes vLLM's own flag; absent ones are not passed."""
    flags = ServingFlags(
        dtype="bfloat16",
        gpu_memory_utilization=0.9,
        max_model_len=16384,
        speculative_config={"num_speculative_tokens": 4, "method": "ngram"},
        limit_mm_per_prompt={"image": 4, "audio": 1},
        enable_prefix_caching=True,
        async_scheduling=False,
        disable_chunked_mm_input=True,
    )
    assert serving_args(flags, 1) == (
        *("--dtype", "bfloat16"),
        *("--gpu-memory-utilization", "0.9"),
        *("--max-model-len", "16384"),
        *("--speculative-config", '{"method":"ngram","num_speculative_tokens":4}'),
        *("--limit-mm-per-prompt", '{"audio":1,"image":4}'),
        "--enable-prefix-caching",
        "--no-async-scheduling",
        "--disable-chunked-mm-input",
    )


def test_every_flag_reaches_the_command_line() -> None:
    """A setting that the model accepts is never dropped; the template's path the host adds."""
    values: dict[str, Any] = {
        "dtype": "auto",
        "kv_cache_dtype": "fp8",
        "safetensors_load_strategy": "prefetch",
        "load_format": "safetensors",
        "tool_call_parser": "x",
        "reasoning_parser": "x",
        "quantization": "x",
        "override_generation_config": {"temperature": 0.5},
        "hf_overrides": {"architectures": ["X"]},
        "generation_config": "vllm",
        "default_chat_template_kwargs": {"enable_thinking": True},
        "chat_template": "chat_template.jinja",
        "speculative_config": {"a": 1},
        "additional_config": {"a": {"b": [1]}},
        "limit_mm_per_prompt": {"image": 1},
    }
    for name, field in ServingFlags.model_fields.items():
        if name not in values:
            text = str(field.annotation)
            values[name] = 1 if "int" in text or "float" in text else True
            values[name] = "x" if text.startswith("str") else values[name]
    arguments = serving_args(ServingFlags.model_validate(values), 4)
    assert "--chat-template" not in arguments
    for name in set(ServingFlags.model_fields) - {"chat_template"}:
        assert f"--{name.replace('_', '-')}" in arguments


def test_the_chat_template_is_a_file_of_the_weights() -> None:
    """The host gets its path within the weights, and adds the directory that it alone knows."""
    serving = config(flags={"chat_template": "templates/tools.jinja"}).serving

    assert serving.chat_template == "templates/tools.jinja"
    assert "templates/tools.jinja" not in serving.args


@pytest.mark.parametrize(("chips", "expected"), [(1, ()), (4, ("--tensor-parallel-size", "4"))])
def test_tensor_parallel_size_follows_the_chips(chips: int, expected: tuple[str, ...]) -> None:
    """All chips of the slice work on the model by default."""
    assert serving_args(ServingFlags(), chips) == expected
    assert serving_args(ServingFlags(tensor_parallel_size=2), chips) == (
        "--tensor-parallel-size",
        "2",
    )


@given(st.dictionaries(st.text(), st.text()))
def test_json_values_survive(value: dict[str, str]) -> None:
    """Whatever a JSON setting holds, vLLM reads it back unchanged."""
    arguments = serving_args(ServingFlags(additional_config=dict(value)), 1)
    assert json.loads(arguments[1]) == value


def test_prefix_distinguishes_revisions() -> None:
    """Another revision has another prefix."""
    one = ModelSettings.model_validate({"name": "a/B.c", "weights": {"revision": "1"}})
    two = ModelSettings.model_validate({"name": "a/B.c", "weights": {"revision": "2"}})
    assert weights_prefix(one) == "models/a-b-c/1"
    assert weights_prefix(one) != weights_prefix(two)


def test_metadata_carries_no_value_in_the_script() -> None:
    """The script is the same for every stack; only the document differs."""
    one = node_metadata(config())
    other = node_metadata(config(port=9000))
    assert one["startup-script"] == other["startup-script"]
    assert one[CONFIG_KEY] != other[CONFIG_KEY]
    assert json.loads(one[CONFIG_KEY])["serving"]["port"] == 8000


def test_metadata_closes_the_host() -> None:
    """Guest attributes on, project keys and serial port off, OS Login on."""
    metadata = node_metadata(config())
    assert metadata["enable-guest-attributes"] == "TRUE"
    assert metadata["enable-oslogin"] == "TRUE"
    assert metadata["block-project-ssh-keys"] == "true"
    assert metadata["serial-port-enable"] == "false"
