"""Memory requests for the catalog's models and chips, as the tests of the planner ask for them."""

from __future__ import annotations

from typing import Any

from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Accelerator, Model
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import MemoryRequest

#: Hub ids of the models by short names.
MODELS = {
    "E2B": "google/gemma-4-E2B-it",
    "E4B": "google/gemma-4-E4B-it",
    "12B": "google/gemma-4-12B-it",
    "26B": "google/gemma-4-26B-A4B-it",
    "31B": "google/gemma-4-31B-it",
    "Gemma 3 1B": "google/gemma-3-1b-it",
    "Gemma 3 4B": "google/gemma-3-4b-it",
    "Gemma 3 12B": "google/gemma-3-12b-it",
    "Gemma 3 27B": "google/gemma-3-27b-it",
    "Llama": "meta-llama/Llama-3.1-8B-Instruct",
    "Llama 70B": "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen2.5 7B": "Qwen/Qwen2.5-7B-Instruct",
    "Qwen2.5 32B": "Qwen/Qwen2.5-32B-Instruct",
    "Qwen2.5 72B": "Qwen/Qwen2.5-72B-Instruct",
    "Qwen3 8B": "Qwen/Qwen3-8B",
    "Qwen3 32B": "Qwen/Qwen3-32B",
    "Qwen3 30B": "Qwen/Qwen3-30B-A3B",
    "SmolLM2": "HuggingFaceTB/SmolLM2-135M-Instruct",
}


def model(short: str) -> Model:
    """The catalog's row of the model with that short name."""
    return builtin().models[MODELS[short]]


def chips(name: str) -> Accelerator:
    """The catalog's row of an accelerator type."""
    return builtin().accelerators[name]


def request(short: str = "31B", accelerator: str = "v6e-4", **changes: Any) -> MemoryRequest:
    """A request of one sequence of 16384 tokens after another, with ``changes``."""
    row = chips(accelerator)
    fields: dict[str, Any] = {
        "model": model(short),
        "accelerator": row,
        "tensor_parallel_size": row.devices,
        "max_model_len": 16384,
        "max_num_seqs": 1,
    }
    return MemoryRequest(**{**fields, **changes})


def planned(asked: MemoryRequest) -> MemoryPlan:
    """The plan of ``asked``, with every accelerator of the catalog to offer."""
    plan = plan_memory(asked, builtin().accelerators.values())
    assert isinstance(plan, MemoryPlan), plan
    return plan
