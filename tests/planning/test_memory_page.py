"""The table of docs/memory.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.planning.memory_requests import planned, request

_PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
_GIB = 2**30
#: The models of the page: short names, and what the words after the comma mean.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma 4 E2B": ("E2B", {}),
    "Gemma 4 E4B": ("E4B", {}),
    "Gemma 4 12B, text only": ("12B", {"text_only": True, "implementation": "flax_nnx"}),
    "Gemma 4 12B, PyTorch": ("12B", {}),
    "Gemma 4 26B-A4B": ("26B", {}),
    "Gemma 4 26B-A4B, FP8 file": ("26B", {"weight_bytes": 30054033654}),
    "Gemma 4 26B-A4B, W4A16 file": ("26B", {"weight_bytes": 18715319992}),
    "Gemma 4 31B": ("31B", {}),
    "Llama 3.1 8B": ("Llama", {}),
    "Llama 3.3 70B": ("Llama 70B", {}),
    "SmolLM2 135M": ("SmolLM2", {}),
}


def _rows() -> list[list[str]]:
    table = _PAGE.read_text().split("## Planned beside logged")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.mark.parametrize("row", _rows(), ids=lambda row: " ".join(row[:5]))
def test_the_page_shows_what_is_planned(row: list[str]) -> None:
    """Every row of the page is what the planner gives for it."""
    name, accelerator, utilization, lengths, dtype, weights, *figures = row[:-1]
    length, sequences = (int(part) for part in lengths.split(" \N{MULTIPLICATION SIGN} "))
    short, changes = _MODELS[name]
    size, _, chosen = figures[0].partition(" ")
    block: dict[str, Any] = {"block_size": int(size)} if chosen == "set" else {}

    plan = planned(
        request(
            short,
            accelerator,
            gpu_memory_utilization=float(utilization),
            max_model_len=length,
            max_num_seqs=sequences,
            kv_cache_dtype=dtype,
            **changes,
            **block,
        )
    )

    assert weights.removesuffix(" given") == f"{plan.weight_bytes / _GIB:.2f}"
    assert [size, *figures[1:]] == [
        str(plan.block_size),
        f"{plan.blocks:,}",
        f"{plan.cached_tokens:,}",
    ]
