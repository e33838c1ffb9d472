"""The memory plan of the embedded cloud is what the real server reports of its KV cache.

Each case is one server of vLLM on the CPU, of a model whose weights are made up; that one with real
weights reports what was planned is seen in `tests/engine/test_end_to_end.py`. What is planned comes
from the checkpoint's own files, as `tpuflex memory --model-dir` reads them; what is reported comes
from ``/metrics``, as the host reads it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.acceptance.vllm.vllm_server import VllmServers, vllm_servers
from tests.security.vllm_host import image_is_installed
from tpuflex.planning.flags import cpu_request_from_flags
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import CpuMemoryRequest
from tpuflex.planning.stack import plan_cpu_memory
from tpuflex.settings.serving import ServingFlags
from tpuflex.weights.source import read_checkpoint

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

TODAY = dt.date(2026, 11, 22)
#: GiB of each server's cache.
SPACE_GIB = 1


@dataclass(frozen=True)
class Case:
    """One server.

    Attributes:
        config: config.json of the model.
        flags: its flags, beside those that all cases have.
    """

    config: dict[str, Any]
    flags: dict[str, Any]


_SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
    "vocab_size": 1024,
}

_SLIDING, _FULL = "sliding_attention", "full_attention"

CASES = {
    "qwen3-fp8-cache": Case(
        {
            **_SMALL,
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "head_dim": 128,
            "num_attention_heads": 4,
            "num_hidden_layers": 3,
            "num_key_value_heads": 2,
        },
        {"max_model_len": 1024, "max_num_seqs": 4, "kv_cache_dtype": "fp8", "block_size": 64},
    ),
    # Windows: 4 full layers and 22 others, which do not fill their groups; a batch in flight.
    "gemma3-window": Case(
        {
            **_SMALL,
            "architectures": ["Gemma3ForCausalLM"],
            "model_type": "gemma3_text",
            "head_dim": 256,
            "num_attention_heads": 4,
            "num_hidden_layers": 26,
            "num_key_value_heads": 1,
            "sliding_window": 512,
        },
        {"max_model_len": 4096, "max_num_seqs": 8, "max_num_batched_tokens": 256},
    ),
    # Beside windows: heads of two widths, layers that share a cache, and per-layer embeddings.
    "gemma4-shape": Case(
        {
            **_SMALL,
            "architectures": ["Gemma4ForCausalLM"],
            "model_type": "gemma4_text",
            "global_head_dim": 512,
            "head_dim": 256,
            "hidden_size_per_layer_input": 64,
            "layer_types": [*[_SLIDING] * 4, _FULL] * 3,
            "num_attention_heads": 8,
            "num_hidden_layers": 15,
            "num_key_value_heads": 1,
            "num_kv_shared_layers": 5,
            "sliding_window": 512,
            "use_double_wide_mlp": True,
            "vocab_size_per_layer_input": 1024,
        },
        {"max_model_len": 4096, "max_num_seqs": 8, "max_num_batched_tokens": 512},
    ),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServers]:
    """What starts the servers."""
    architectures = [name for case in CASES.values() for name in case.config["architectures"]]
    home = tmp_path_factory.mktemp("home")
    with vllm_servers(home, architectures, space_gib=SPACE_GIB) as started:
        yield started


@pytest.fixture(scope="module")
def served() -> ModuleType:
    """What the host reads the metrics with."""
    file = Path(__file__).parents[3] / "startup" / "served.py"
    spec = importlib.util.spec_from_file_location("served", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _has_avx512() -> bool:
    with contextlib.suppress(OSError):
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return False


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_server_reports_what_was_planned(
    case: Case, servers: VllmServers, served: ModuleType, tmp_path: Path
) -> None:
    """Block size, blocks and cached tokens are those of the plan, and so the bytes per token."""
    if case.flags.get("kv_cache_dtype") == "fp8" and not _has_avx512():
        pytest.skip("vLLM keeps an fp8 cache on processors with AVX-512 only")
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(case.config))
    flags = ServingFlags.model_validate({"dtype": "bfloat16", "enforce_eager": True, **case.flags})

    plan = planned(directory, flags)
    metrics = servers.metrics_of(directory, flags)

    reported = served.kv_cache(metrics)
    assert reported["block_size"] == plan.block_size
    assert reported["num_blocks"] == plan.blocks
    assert reported["tokens"] == plan.cached_tokens
    assert plan.problems == ()
    # One block more would not fit.
    block = plan.kv_bytes // plan.blocks
    assert plan.kv_bytes <= SPACE_GIB * 2**30 < plan.kv_bytes + block


def planned(directory: Path, flags: ServingFlags) -> MemoryPlan:
    """The plan for the checkpoint in ``directory``."""
    model = read_checkpoint(directory, environ={}, today=TODAY).model
    request = cpu_request_from_flags(
        model, flags.model_dump(exclude_none=True), {"VLLM_CPU_KVCACHE_SPACE": str(SPACE_GIB)}
    )
    assert isinstance(request, CpuMemoryRequest), request
    plan = plan_cpu_memory(request)
    assert isinstance(plan, MemoryPlan), plan
    return plan
