"""Plots of a series of points, as SVG for a page in light or dark.

Only figures are drawn, and no text of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from math import ceil, floor, log2, nan
from typing import TYPE_CHECKING

from tpuflex.measure.quantities import INTER_TOKEN, OUTPUT, PROMPT, TPOT, TTFT, USD, Quantity
from tpuflex.measure.run import FIGURES, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What says how to get plots where there are none.
HOW_TO_GET = "There are no plots: `pip install 'tpuflex[measure]'` adds what draws them."

_SIZE = (8.2, 4.4)
#: Room on either side of an axis, as a factor.
_MARGIN = 1.1
#: A bound that is farther from every figure would leave no room for these.
_FARTHEST = 16
_MARKERS = "osD^vP*Xhp<>"
#: Colours that stand for others until the SVG is written: texts and axes, the grid, then a line
#: each (see _LINE).
_INK, _GRID = "#00f1ff", "#00f2ff"
_LINE = "#00f0{:02x}"
#: Which part of viridis, a scale that colour-blind readers tell apart, is seen on white and on
#: black.
_ON_WHITE, _ON_BLACK = (0.0, 0.78), (0.3, 1.0)


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot.

    Attributes:
        title: what it shows.
        svg: the drawing, an ``svg`` element to stand in HTML.
    """

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class _Bound:
    """What the chips allow of a quantity at a point."""

    of: Callable[[Point], float | None]
    name: str


#: The quantities that are drawn, each with what bounds it.
_DRAWN: tuple[tuple[Quantity, _Bound | None], ...] = (
    (OUTPUT, _Bound(lambda point: point.ceilings.output_per_second, "ceiling of the chips")),
    (TTFT, _Bound(lambda point: point.ceilings.first_token, "least, for a request alone")),
    (TPOT, None),
    (INTER_TOKEN, None),
    (PROMPT, _Bound(lambda point: point.ceilings.prompt_per_second, "ceiling of the chips")),
    (USD, None),
)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def plots(points: Sequence[Point], name: str) -> tuple[Plot, ...]:
    """The plots of one series over concurrency, a line for each context.

    Args:
        points: of one series.
        name: tells it from the other series of the page.
    """
    return tuple(
        Plot(quantity.title, _drawn(points, quantity, bound, f"{name}-{quantity.name}"))
        for quantity, bound in _DRAWN
        if any(_value(quantity, point) for point in points)
    )


def _value(quantity: Quantity, point: Point) -> float | None:
    """What is drawn at ``point``; None where it is no result, or has no place on a log axis."""
    return quantity.of(point) or None if point.verdict in FIGURES else None


def _drawn(points: Sequence[Point], quantity: Quantity, bound: _Bound | None, name: str) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    points = [point for point in points if point.verdict != "not_feasible"]
    contexts = sorted({point.load.context for point in points})
    with rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": name,
            "font.size": 11,
            "text.color": _INK,
            "axes.edgecolor": _INK,
            "axes.labelcolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
        }
    ):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        for number, context in enumerate(contexts):
            line = sorted(
                (point for point in points if point.load.context == context),
                key=lambda point: point.load.concurrency,
            )
            _draw_line(axes, line, quantity, bound, number)
        _frame(axes, points, quantity)
        figure.legend(
            handles=_legend(axes, bound),
            loc="outside right upper",
            frameon=False,
            title="context, tokens",
            alignment="left",
        )
        written = StringIO()
        figure.savefig(
            written, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return _for_a_page(written.getvalue(), len(contexts))


def _draw_line(
    axes: Axes, line: Sequence[Point], quantity: Quantity, bound: _Bound | None, number: int
) -> None:
    colour = _LINE.format(number)
    values = [(point, _value(quantity, point)) for point in line]
    # A gap where a point is no result.
    axes.plot(
        [point.load.concurrency for point, _ in values],
        [nan if value is None else value for _, value in values],
        color=colour,
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=5,
        linewidth=1.6,
        label=f"{line[0].load.context:,}",
    )
    flagged = [(point.load.concurrency, value) for point, value in values if value and point.flags]
    if flagged:
        axes.plot(
            *zip(*flagged, strict=True),
            linestyle="none",
            marker="o",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=_INK,
            label="_flagged",
        )
    bounds = [
        (point.load.concurrency, value)
        for point in line
        if bound is not None and (value := bound.of(point))
    ]
    if bounds:
        axes.plot(
            *zip(*bounds, strict=True),
            color=colour,
            linestyle=(0, (4, 3)),
            linewidth=1.1,
            label="_bound",
        )


def _legend(axes: Axes, bound: _Bound | None) -> list[object]:
    """A handle for each context, and one for what is drawn beside the lines."""
    from matplotlib.lines import Line2D

    handles: list[object] = []
    extras: dict[str, object] = {}
    for line in axes.get_lines():
        label = str(line.get_label())
        if not label.startswith("_"):
            handles.append(line)
        elif label == "_bound" and bound is not None:
            extras[label] = Line2D([], [], color=_INK, linestyle=(0, (4, 3)), label=bound.name)
        elif label == "_flagged":
            extras[label] = Line2D(
                *([], []),
                linestyle="none",
                marker="o",
                markersize=10,
                markerfacecolor="none",
                markeredgecolor=_INK,
                label="flagged",
            )
    return [*handles, *extras.values()]


def _frame(axes: Axes, points: Sequence[Point], quantity: Quantity) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    concurrencies = sorted({point.load.concurrency for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(concurrencies if len(concurrencies) <= 12 else concurrencies[::2])
    axes.set_xlim(concurrencies[0] / _MARGIN, concurrencies[-1] * _MARGIN)
    # From a power of two to another one: a tick stands at either end.
    values = [value for point in points if (value := _value(quantity, point))]
    least, most = axes.dataLim.intervaly
    least, most = max(least, min(values) / _FARTHEST), min(most, max(values) * _FARTHEST)
    axes.set_yscale("log", base=2)
    axes.set_ylim(2 ** floor(log2(least)) / _MARGIN, 2 ** ceil(log2(most)) * _MARGIN)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axes.set_xlabel("Concurrency, requests in flight (log2)")
    axes.set_ylabel(f"{quantity.title} (log2)")
    axes.grid(color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:.3g}"


def _for_a_page(svg: str, lines: int) -> str:
    """The ``svg`` element alone, in the page's colours."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    def colour(part: tuple[float, float], number: int) -> str:
        share = number / (lines - 1) if lines > 1 else 0.35
        return to_hex(colormaps["viridis"](part[0] + (part[1] - part[0]) * share))

    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    for number in range(lines):
        light, dark = colour(_ON_WHITE, number), colour(_ON_BLACK, number)
        # Browsers that do not know light-dark() keep the first.
        svg = re.sub(
            f"(stroke|fill): {_LINE.format(number)}",
            rf"\1: {light}; \1: light-dark({light}, {dark})",
            svg,
        )
    return svg.replace(_INK, "currentColor").replace(_GRID, "rgb(128 128 128 / 30%)")
