"""The memory of each chip as a bar for the terminal.

Colour repeats what the letters say, so that it reads the same in a log and to whoever sees no
colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from tpuflex.planning.figure import gib
from tpuflex.planning.request import CpuMemoryRequest

if TYPE_CHECKING:
    from tpuflex.planning.memory import MemoryPlan

_LABEL = 10
_TOTAL = 11
_NARROWEST = 10
_WIDEST = 72


class Part(NamedTuple):
    """A share of a chip's memory.

    Attributes:
        name: what it holds.
        size: its bytes.
        block: the character that stands for it.
        plain: the same, where only ASCII can be shown.
        style: its colour, as rich names it.
    """

    name: str
    size: int
    block: str
    plain: str
    style: str


def parts(plan: MemoryPlan) -> tuple[Part, ...]:
    """The shares of one chip, from the left to the right; those that hold something.

    Weights that are larger than the chip are cut at its end.
    """
    excess = max(-plan.workspace_bytes, 0)
    shares = (
        Part("weights", plan.weight_bytes - excess, "█", "#", "blue"),
        Part("weights for which there is no room", excess, "▚", "!", "red"),
        Part("KV cache", plan.kv_bytes, "▓", "=", "green"),
        Part("workspace", plan.workspace_bytes, "░", ".", "bright_black"),
    )
    return tuple(part for part in shares if part.size > 0)


def slots(plan: MemoryPlan) -> list[tuple[str, bool]]:
    """The chips of the slice, each with whether the server uses it; or the one CPU."""
    request = plan.request
    if isinstance(request, CpuMemoryRequest):
        return [("CPU", True)]
    return [(f"chip {chip}", chip < plan.chips) for chip in range(request.accelerator.chips)]


def memory_bars(plan: MemoryPlan, *, width: int, plain: bool = False) -> list[Text]:
    """A line for each chip of the slice, and a legend.

    Args:
        plan: what one chip holds; chips that the server does not use stay empty.
        width: columns of the terminal.
        plain: whether to use ASCII characters only.
    """
    shares = parts(plan)
    cells = max(_NARROWEST, min(_WIDEST, width - _LABEL - _TOTAL))
    bar = Text.assemble(
        *(
            ((part.plain if plain else part.block) * count, part.style)
            for part, count in zip(shares, cells_of(shares, cells), strict=True)
        )
    )
    full = Text(f"  {gib(sum(part.size for part in shares))}")
    idle = Text(f"{'-' * cells}  not used", "dim")
    lines = [
        Text(f"  {label}".ljust(_LABEL)) + (bar + full if used else idle)
        for label, used in slots(plan)
    ]
    legend = Text(" " * _LABEL)
    for part in shares:
        legend.append(part.plain if plain else part.block, part.style)
        legend.append(f" {part.name} {gib(part.size)}   ")
    legend.rstrip()
    return [*lines, legend]


def cells_of(shares: Sequence[Part], cells: int) -> list[int]:
    """How many of ``cells`` characters each share gets: in proportion, at least one, ``cells``
    together."""
    sizes = [part.size for part in shares]
    counts = [max(cells * size // sum(sizes), 1) for size in sizes]
    counts[sizes.index(max(sizes))] += cells - sum(counts)
    return counts
