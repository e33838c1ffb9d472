"""The bar of a chip's memory: its cells, and what it shows on any terminal."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tpuflex.catalog.catalog import builtin
from tpuflex.cli.memory_bar import Part, cells_of, memory_bars, parts
from tpuflex.planning.flags import request_from_flags
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.request import MemoryRequest


def plan_of(accelerator: str, **flags: object) -> MemoryPlan:
    """The plan of Gemma 4 E4B on ``accelerator``."""
    model, row = builtin().model("google/gemma-4-E4B-it"), builtin().accelerator(accelerator)
    assert model is not None
    assert row is not None
    request = request_from_flags(model, row, flags)
    assert isinstance(request, MemoryRequest)
    plan = plan_memory(request)
    assert isinstance(plan, MemoryPlan)
    return plan


@given(
    st.lists(st.integers(1, 10**12), min_size=1, max_size=4),
    st.integers(10, 200),
)
def test_cells_fill_the_bar(sizes: list[int], cells: int) -> None:
    """Every part is seen, the bar has its width, and a larger part is never shorter but by one."""
    shares = [Part(str(size), size, "x", "x", "red") for size in sizes]

    counts = cells_of(shares, cells)

    assert sum(counts) == cells
    assert min(counts) >= 1
    by_size = [count for _, count in sorted(zip(sizes, counts, strict=True))]
    assert all(later >= earlier - 1 for earlier, later in pairwise(by_size))


def test_in_ascii() -> None:
    """A terminal that is not UTF-8 gets the same bars in ASCII, in its own width."""
    bars = memory_bars(plan_of("v6e-1"), width=60, plain=True)

    lines = [bar.plain for bar in bars]
    assert all(line.isascii() for line in lines)
    assert lines[0] == "  chip 0  #################===================...  31.24 GiB"
    assert max(map(len, lines[:1])) <= 60


def test_weights_that_are_too_large_are_cut_at_the_end_of_the_chip() -> None:
    """What has no room is a part of its own, and the parts are the weights."""
    plan = plan_of("v6e-1")
    excess = 2**30
    larger = replace(
        plan, weight_bytes=plan.hbm_bytes + excess, kv_bytes=0, workspace_bytes=-excess
    )

    assert [(part.name, part.size) for part in parts(larger)] == [
        ("weights", plan.hbm_bytes),
        ("weights for which there is no room", excess),
    ]
