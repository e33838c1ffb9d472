"""The load of a stack over time, drawn: requests, KV cache, tokens, first tokens; gaps in grey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuflex.errors import TpuflexError, UsageError
from tpuflex.files.trusted import write_shared
from tpuflex.measure.tally import FULL, Moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tpuflex.measure.capacity import Capacity
    from tpuflex.measure.tally import Use

_FORMS = (".svg", ".png")
_SIZE = (11, 10)
#: Points of a line.
_MOST_POINTS = 2000
#: Colours that colour-blind readers tell apart (Okabe and Ito, https://jfly.uni-koeln.de/color/).
_BLUE, _ORANGE, _GREEN, _RED, _GREY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#bbbbbb"


def require_form(file: Path) -> None:
    """Refuse a file that cannot be drawn.

    Raises:
        UsageError: its name says no form, or its directory is not there.
        TpuflexError: there is no matplotlib.
    """
    if file.suffix.lower() not in _FORMS:
        raise UsageError(f"{file}: write a name that ends in .svg or .png.", option="--plot")
    if not file.parent.is_dir():
        raise UsageError(
            f"{file}: there is no directory {file.parent}. Make it, or name another file.",
            option="--plot",
        )
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise TpuflexError(
            "Plots take matplotlib.", hint="Run: pip install 'tpuflex[measure]'"
        ) from error


def draw(found: Capacity, file: Path) -> None:
    """Draw ``found`` in ``file``, as SVG or PNG by its name.

    Raises:
        UsageError, TpuflexError: as :func:`require_form`, or it cannot be written.
    """
    require_form(file)
    from io import BytesIO

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "tpuflex", "font.size": 10}):
        figure = Figure(figsize=_SIZE, layout="constrained")
        title = f"{found.origin.stack}: {found.origin.model} on {found.origin.accelerator}"
        figure.suptitle(title, parse_math=False)
        requests, cache, tokens, first = figure.subplots(4, 1, sharex=True)
        for value, label, colour in (
            (lambda moment: moment.running, "requests running", _BLUE),
            (lambda moment: moment.waiting, "waiting", _RED),
        ):
            _draw(requests, found.moments, value, label, colour)
        _draw(cache, found.moments, lambda moment: _percent(moment.kv_use), "KV cache, %", _BLUE)
        cache.axhline(100 * FULL, color=_RED, linestyle="--", linewidth=1)
        cache.set_ylim(0, 100)
        for value, label, colour in (
            (lambda moment: moment.computed, "prompt tokens computed a second", _ORANGE),
            (lambda moment: moment.generated, "generated", _GREEN),
        ):
            _draw(tokens, found.moments, value, label, colour)
        _draw_first_tokens(first, found.timeline)
        for axes in (requests, cache, tokens, first):
            for gap in found.gaps:
                axes.axvspan(gap.begin, gap.end, color=_GREY, alpha=0.35, linewidth=0)
            axes.grid(color=_GREY, linewidth=0.5, alpha=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, ncols=4)
        first.set_xlabel("time, UTC (grey: nothing is known)")
        content = BytesIO()
        figure.savefig(content, format=file.suffix[1:].lower(), metadata=_metadata(file))
    try:
        write_shared(file, content.getvalue())
    except OSError as error:
        raise TpuflexError(f"{file} cannot be written: {error.strerror}.") from error


def _draw(
    axes: Axes,
    moments: Sequence[Moment],
    value: Callable[[Moment], float | None],
    label: str,
    colour: str,
) -> None:
    """A line over time, broken in gaps; of many snapshots the highest of each few."""
    few = -(-len(moments) // _MOST_POINTS)
    at: list[Any] = []
    values: list[float] = []
    for start in range(0, len(moments), few):
        part = moments[start : start + few]
        shown = [each for moment in part if (each := value(moment)) is not None]
        at.append(part[0].at)
        values.append(max(shown) if len(shown) == len(part) else nan)
    axes.plot(at, values, color=colour, label=label, linewidth=1.2, marker=".", markersize=2)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _draw_first_tokens(axes: Axes, parts: Sequence[Use]) -> None:
    for q, colour in ((0.5, _BLUE), (0.95, _ORANGE), (0.99, _RED)):
        known = [
            (part.begin, seconds)
            for part in parts
            if part.ttft is not None and (seconds := part.ttft.quantile(q)) is not None
        ]
        if known:
            axes.plot(
                *zip(*known, strict=True),
                color=colour,
                label=f"seconds to the first token, p{100 * q:.0f}",
                linestyle="none",
                marker="o",
                markersize=3,
            )


def _metadata(file: Path) -> dict[str, str | None]:
    """No date, and no name of what has drawn it: the same plot is the same file."""
    if file.suffix.lower() == ".svg":
        return {"Date": None, "Creator": None}
    return {"Software": None}
