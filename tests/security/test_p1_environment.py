"""P1, S12: environment and flags that open the server are refused, twice."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.startup.conftest import host
from tests.startup.host import StartupHost
from tests.unit.stack_sections import sections
from tpuflex.boot.config import DEFAULT_ENVIRONMENT
from tpuflex.catalog.environment import REFUSED, Refused, refusals
from tpuflex.errors import Finding, SettingsError
from tpuflex.settings.load import parse
from tpuflex.settings.rules import check

__all__ = ["host"]

NAMES = (
    *(
        "VLLM_SERVER_DEV_MODE",
        "VLLM_ALLOW_INSECURE_SERIALIZATION",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
    ),
    *("VLLM_PLUGINS", "VLLM_API_KEY", "VLLM_OTHER_API_KEY", "VLLM_TORCH_PROFILER_DIR"),
    *("VLLM_MEDIA_CONNECTOR", "VLLM_MEDIA_URL_ALLOW_REDIRECTS", "VLLM_LOGGING_CONFIG_PATH"),
    *("VLLM_USE_RUST_FRONTEND", "VLLM_RUST_FRONTEND_PATH", "VLLM_MODEL_REDIRECT_PATH"),
    *("VLLM_LORA_RESOLVER_CACHE_DIR", "VLLM_LORA_RESOLVER_HF_REPO_LIST", "VLLM_USE_MODELSCOPE"),
    *("CUSTOM_FASTAPI_MIDDLEWARE_THROTTLE", "CUSTOM_PRE_PROCESS", "SAGEMAKER_MODEL_PATH"),
    *("BASH_ENV", "ENV", "SHELLOPTS", "LD_AUDIT", "LD_PRELOAD", "LD_LIBRARY_PATH", "GCONV_PATH"),
    *("PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS", "PYTHONUSERBASE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "HF_ENDPOINT", "SSL_CERT_FILE"),
    *("SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSLKEYLOGFILE", "OPENSSL_CONF"),
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "AWS_ENDPOINT_URL", "USE_JAX_PROFILER_SERVER", "RAY_ADDRESS"),
    *("TPU_LIBRARY_PATH", "OMP_TOOL_LIBRARIES", "GCE_METADATA_HOST", "HOSTALIASES", "CXX"),
    *("TRITON_CACHE_MANAGER", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "HF_HOME"),
    *("JAX_COORDINATOR_ADDRESS", "VLLM_LOGGING_LEVEL"),
)
#: What recipes for TPU and the stacks of this project set.
USUAL = {
    "MODEL_IMPL_TYPE": "flax_nnx",
    "USE_BATCHED_RPA_KERNEL": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENGINE_READY_TIMEOUT_S": "10800",
    "VLLM_XLA_CACHE_PATH": "/tmp/cache",
    "JAX_COMPILATION_CACHE_DIR": "/tmp/cache",
    "LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=65536",
    "PYTHON_TRACER_LEVEL": "0",
    "VLLM_LOGGING_LEVEL": "INFO",
    "VLLM_SERVER_DEV_MODE": "0",
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "TOKENIZERS_PARALLELISM": "false",
}


def findings(changes: dict[str, object]) -> tuple[Finding, ...]:
    """What the settings refuse."""
    try:
        return check(parse(sections(changes), "test"))
    except SettingsError as error:
        return error.findings


@pytest.mark.parametrize("name", NAMES)
def test_variable_that_opens_the_server_is_refused(name: str) -> None:
    """S12: a variable that opens the server, loads code or leads traffic elsewhere is refused."""
    (finding,) = findings({"serving.env": {name: "1" if name != "HF_ENDPOINT" else "https://x"}})
    assert finding.key == f"tpuflex:serving.env.{name}"
    assert finding.problem
    assert finding.remedy.startswith("Remove it")


def test_usual_environment_is_accepted() -> None:
    """What recipes and tpuflex itself set passes, and so does what turns things off."""
    assert findings({"serving.env": USUAL}) == ()
    assert list(refusals({**DEFAULT_ENVIRONMENT, **USUAL})) == []


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.names[:40])
def test_each_row_has_a_reason_and_sane_patterns(row: Refused) -> None:
    """Every row says what its variables would do, and its patterns compile."""
    assert re.match(r"[a-z]+s\b", row.reason)
    assert re.compile(row.names)
    assert row.harmless is None or re.compile(row.harmless)


@given(
    prefix=st.sampled_from(["LD_", "PYTHON", "BASH_", "SAGEMAKER_", "CUSTOM_", "OTEL_"]),
    rest=st.from_regex(r"[A-Z0-9]{1,12}", fullmatch=True),
    value=st.text(max_size=8),
)
def test_whole_families_are_refused(prefix: str, rest: str, value: str) -> None:
    """Families of names are refused as such, members that nobody has heard of among them."""
    assert [name for name, _ in refusals({prefix + rest: value})] == [prefix + rest]


@pytest.mark.parametrize("name", ["VLLM_SERVER_DEV_MODE", "LD_AUDIT", "HTTPS_PROXY"])
def test_host_refuses_the_same_variables(host: StartupHost, name: str) -> None:
    """S12: the host goes by the same table, whatever wrote its configuration."""
    container = host.config()["container"] | {"env": {"PLAIN": "1", name: "1"}}
    host.cloud.config = host.config(container=container)
    run = host.run()
    assert run.status != 0
    assert host.cloud.last("error").startswith(f"config: tpuflex-config: container.env.{name} is")
    assert host.docker_calls("run") == []


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("load_format", "pt"),
        ("load_format", "npcache"),
        ("load_format", "tensorizer"),
        ("load_format", "my_plugin"),
        ("load_format", "--api-key"),
        ("tool_call_parser", "--middleware=evil.Guard"),
        ("reasoning_parser", "-x"),
        ("speculative_config", {"method": "custom_class", "model": "evil.Proposer"}),
        ("speculative_config", {"model": "evil.Proposer"}),
        ("middleware", ["evil.Guard"]),
        ("allowed_local_media_path", "/"),
        ("allowed_media_domains", ["169.254.169.254"]),
        ("enable_prompt_embeds", True),
        ("root_path", "/x"),
        ("worker_extension_cls", "evil.Worker"),
    ],
)
def test_flag_that_loads_code_or_opens_the_server_is_refused(flag: str, value: object) -> None:
    """S12: no flag loads a class, unpickles, reads local files, or becomes another flag."""
    found = findings({f"serving.flags.{flag}": value})
    assert [finding.key for finding in found] == [f"tpuflex:serving.flags.{flag}"]


def test_speculative_decoding_without_code_is_accepted() -> None:
    """A method that needs no model is accepted."""
    config = {"method": "ngram", "num_speculative_tokens": 4}
    assert findings({"serving.flags.speculative_config": config}) == ()
