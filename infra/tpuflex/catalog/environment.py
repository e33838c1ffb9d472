"""Environment that must not reach the serving container, each variable with the reason.

The settings refuse these names before anything is made. The startup script carries this same file
to the host and refuses them again: that a boot configuration was checked is then not a matter of
trust. Hence nothing but Python's library is imported here.

Read from the sources on 2026-11-22: ``vllm/envs.py`` of vLLM 0.32.0 and its security guide
(https://docs.vllm.ai/en/v0.31.0/usage/security/), ``tpu_inference/envs.py``,
``model_hosting_container_standards`` 0.1 (which vLLM loads), bash(1), ld.so(8), python(1),
openssl-env(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Refused(NamedTuple):
    """Variables that are refused.

    Attributes:
        names: regular expression that the whole name matches.
        reason: what the variable would do, after the name.
        harmless: regular expression of values that are accepted nevertheless.
    """

    names: str
    reason: str
    harmless: str | None = None


_OFF = r"0|[Ff]alse|"
_ON = r"1|[Tt]rue"
_QUIET = r"(?i:critical|error|warning|info)"
_LOCAL = r"/[^:]*"

REFUSED: tuple[Refused, ...] = (
    # Opens the server.
    Refused("VLLM_SERVER_DEV_MODE", "adds routes that run any method of the engine", _OFF),
    Refused("VLLM_ALLOW_INSECURE_SERIALIZATION", "makes the engine run pickled code", _OFF),
    Refused("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "lets clients load adapters", _OFF),
    Refused("VLLM_LORA_RESOLVER_.*", "loads adapters by the names that clients give"),
    Refused("VLLM_USE_RUST_FRONTEND", "replaces the server that the guard runs in", _OFF),
    Refused("VLLM_RUST_FRONTEND_PATH", "replaces the server that the guard runs in"),
    Refused("VLLM_DEBUG_LOG_API_SERVER_RESPONSE", "writes answers into the log", _OFF),
    Refused("VLLM_LOGGING_LEVEL", "writes requests into the log", _QUIET),
    Refused("VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS", "lets the model run code and browse"),
    Refused("VLLM_TORCH_(CUDA_)?PROFILE.*", "adds routes that write profiles to the disk"),
    Refused("PHASED_PROFILING_DIR", "writes profiles to the disk"),
    Refused("USE_JAX_PROFILER_SERVER", "opens a port without a key", _OFF),
    Refused("VLLM_MEDIA_URL_ALLOW_REDIRECTS", "lets named media domains lead elsewhere", _OFF),
    # Loads foreign code.
    Refused("SAGEMAKER_.*|CUSTOM_.*", "puts functions of one's own in front of the guard"),
    Refused("VLLM_PLUGINS", "chooses the code that vLLM loads, routes among it"),
    Refused("VLLM_MEDIA_CONNECTOR", "replaces the code that checks media URLs", "http"),
    Refused("VLLM_LOGGING_CONFIG_PATH", "loads the classes that a file names"),
    Refused("VLLM_MODEL_REDIRECT_PATH", "serves another model than the checked one"),
    Refused("VLLM_TEST_FORCE_LOAD_FORMAT", "changes how weights are read"),
    Refused("VLLM_(NCCL|CUDART)_SO_PATH|.*_LIBRARY_PATHS?|TPU_LIBRARY_PATH", "loads a library"),
    Refused("LD_.*|GCONV_PATH|OMP_TOOL_LIBRARIES|GLIBC_TUNABLES", "loads or changes libraries"),
    Refused("OPENSSL_(CONF|MODULES|ENGINES)(_.*)?", "loads libraries into OpenSSL"),
    Refused("PYTHON_TRACER_LEVEL", "tunes a profiler", r"\d+"),
    Refused("(?!PYTHON_TRACER_LEVEL$)PYTHON.*", "changes which code Python runs"),
    Refused("BASH_.*|BASHOPTS|ENV|SHELLOPTS|PS4|IFS|CDPATH|GLOBIGNORE", "changes what bash runs"),
    Refused("CC|CXX|CPP|TRITON_[A-Z_]*PATH", "names a program that is run"),
    Refused("TRITON_[A-Z_]*(MANAGER|DIR|HOME)", "loads a Python class or compiled programs"),
    Refused("TORCHINDUCTOR_[A-Z_]*DIR", "loads compiled programs"),
    Refused("JAX_COMPILATION_CACHE_DIR|VLLM_XLA_CACHE_PATH", "loads compiled programs", _LOCAL),
    # The same of vllm-torchtpu 0.29.0: its docs/user_guide/compilation_cache.md.
    Refused("TORCH_TPU_[A-Z0-9_]*CACHE_ROOT|VLLM_CACHE_ROOT", "loads compiled programs", _LOCAL),
    Refused("HF_MODULES_CACHE|HF_HOME", "names a directory that code is loaded from"),
    Refused("HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE", "loads what nobody checked", _ON),
    # Leads traffic elsewhere.
    Refused(".*_PROXY", "leads traffic through another server"),
    Refused("HF_ENDPOINT|VLLM_USE_MODELSCOPE|MODELSCOPE_.*", "loads from another model hub", _OFF),
    Refused("(AWS|S3|RUNAI)_.*ENDPOINT.*|OTEL_.*", "sends data to another server"),
    Refused("VLLM_USAGE_STATS_SERVER", "sends data to another server"),
    Refused("SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE", "believes other certificates"),
    Refused("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "believes other certificates"),
    Refused("SSLKEYLOGFILE", "writes the keys of encrypted connections to a file"),
    Refused("HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_.*", "changes how names are looked up"),
    Refused("GCE_METADATA_.*|GOOGLE_API_.*", "leads to another metadata server"),
    Refused("VLLM_(LOOPBACK_IP|DP_MASTER_.*|RPC_BASE_PATH)", "opens the engine's own connections"),
    Refused("VLLM_[A-Z]+_SIDE_CHANNEL_.*|MASTER_ADDR|RAY_ADDRESS", "connects to other engines"),
    Refused("JAX_COORDINATOR_[A-Z_]*", "connects to other hosts, without a key"),
)


def refusals(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and reason of each variable of ``environment`` that is refused."""
    for name, value in environment.items():
        for row in REFUSED:
            if not re.fullmatch(row.names, name):
                continue
            if row.harmless is None or not re.fullmatch(row.harmless, value):
                yield name, row.reason
                break
