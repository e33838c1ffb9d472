"""What `tpuflex memory` prints: the plan, its bars, figures and verdict; or a catalog's row.

A bar is the memory of a chip. Colour repeats what its letters say, so that it reads the same in a
log and to a reader who sees no colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from tpuflex.errors import SettingsError
from tpuflex.planning.figure import gib
from tpuflex.planning.request import CpuMemoryRequest, MemoryRequest

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Model
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.sizing import MemoryReport
    from tpuflex.terminal.output import Output

_BY_NAME = (
    "By what is known of the model's name: its files were not read. `tpuflex memory --model-dir"
    " DIR` reads them."
)
#: Columns of what stands beside a bar, and of the bar.
_LABEL = 10
_TOTAL = 11
_NARROWEST = 10
_WIDEST = 72


def show_memory(output: Output, report: MemoryReport, *, chosen_by_name: bool) -> int:
    """Show the plan.

    Returns:
        The exit code: 0, or that of a wrong stack file if it does not fit.
    """
    plan, files = report.plan, report.files
    output.document(report.to_json())
    _show(output, plan)
    if not chosen_by_name:
        output.result(_BY_NAME if files is None else f"By the files of {files.where}.")
    return 0 if plan.fits else SettingsError.exit_code


def show_row(output: Output, row: Model) -> None:
    """Print ``row`` as a catalog.yaml has it."""
    import yaml

    document = {"models": [row.model_dump(mode="json", exclude_defaults=True)]}
    output.document(document)
    output.verbatim(yaml.safe_dump(document, sort_keys=False).rstrip())


def _show(output: Output, plan: MemoryPlan) -> None:
    output.heading(_title(plan))
    output.drawing(lambda width, plain: memory_bars(plan, width=width, plain=plain))
    output.result()
    output.table(("FIGURE", "VALUE", "MEANING"), _figures(plan))
    output.result()
    output.heading(f"Verdict: {_verdict(plan)}")
    for remark in (*plan.problems, *plan.concerns):
        output.result(f"  {remark.key}")
        for sentence in filter(None, (f"{remark.what}.", remark.nearest)):
            output.result(f"    {sentence}")
    for kind, source in plan.row_sources.items():
        if source.own:
            output.result(f"By your own word: {kind} from {source.text}")


def _title(plan: MemoryPlan) -> str:
    """The model, and on what it is planned."""
    return f"{plan.request.model.name} on {_place(plan.request)}"


def _place(request: MemoryRequest | CpuMemoryRequest) -> str:
    if isinstance(request, CpuMemoryRequest):
        return "the CPU of this machine"
    row = request.accelerator
    cores = "" if row.devices == row.chips else f", {row.devices} {row.device}s"
    return f"{row.name} ({row.chips} {'chip' if row.chips == 1 else 'chips'}{cores})"


def _figures(plan: MemoryPlan) -> Iterator[tuple[str, str, str]]:
    """Each figure of ``plan``, its value, and what it means."""
    request = plan.request
    device = request.accelerator.device if isinstance(request, MemoryRequest) else "chip"
    each = f", on each {device}" if plan.chips > 1 else ""
    if isinstance(request, MemoryRequest):
        usable = f"what a server can use of a {request.accelerator.generation} {device}"
        cache = f"{request.gpu_memory_utilization:g} of the memory, less the weights"
        dtype: str = request.kv_cache_dtype
    else:
        usable = "weights and KV cache together"
        cache = "VLLM_CPU_KVCACHE_SPACE, in whole blocks"
        dtype = f"{8 * request.cache_bytes} bits"
    yield "memory", gib(plan.hbm_bytes), usable
    yield "weights", gib(plan.weight_bytes), f"tensor parallel size {plan.chips}{each}"
    yield "KV cache", gib(plan.kv_bytes), cache
    if plan.workspace_bytes > 0:
        yield "workspace", gib(plan.workspace_bytes), "the rest, for programs and activations"
    yield "KV per token", f"{plan.kv_bytes_per_token:,} B", f"{dtype}, all layers{each}"
    yield "block", f"{plan.block_size:,} tokens", "unit in which the cache is given out"
    yield "blocks", f"{plan.blocks:,}", "as the server reports them"
    least = "at least; " if plan.is_lower_bound else ""
    yield "cached tokens", f"{plan.cached_tokens:,}", f"{least}of all running sequences together"
    yield (
        "full sequences",
        f"{plan.full_length_sequences:,.2f}",
        f"of {request.max_model_len:,} tokens at once; up to {request.max_num_seqs:,} are run",
    )
    if plan.token_buckets:
        sizes = f"{len(plan.token_buckets)} x {len(plan.request_buckets)}"
        yield "buckets", sizes, "sizes of a step, in tokens and in requests"
    if plan.programs:
        text_only = isinstance(request, MemoryRequest) and request.text_only
        tower = not text_only and set(request.model.modalities) != {"text"}
        rest = "; those of the vision tower are not counted" if tower else ""
        yield "programs", f"{plan.programs:,}", f"compiled before the first answer{rest}"


def _verdict(plan: MemoryPlan) -> str:
    """Whether it fits, in a few words."""
    if plan.problems:
        return "does not fit"
    return "fits, with reservations" if plan.concerns else "fits"


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


def _slots(plan: MemoryPlan) -> list[tuple[str, bool]]:
    """The chips of the slice, each with whether the server uses it; or the one CPU."""
    request = plan.request
    if isinstance(request, CpuMemoryRequest):
        return [("CPU", True)]
    row = request.accelerator
    return [(f"{row.device} {slot}", slot < plan.chips) for slot in range(row.devices)]


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
        for label, used in _slots(plan)
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
