"""The memory of each chip as a picture: a plain SVG file that stands for itself.

It has its own background and follows the reader's choice of light or dark, as far as the viewer
tells it (https://www.w3.org/TR/mediaqueries-5/#prefers-color-scheme); others show it light.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pulumi_plugin.printable import printable
from tpuflex.cli.memory_bar import Part, parts, slots
from tpuflex.planning.remark import gib

if TYPE_CHECKING:
    from tpuflex.planning.memory import MemoryPlan

_WIDTH, _MARGIN = 760, 24
_LEFT, _RIGHT = 92, 652
_BAR_HEIGHT, _ROW = 20, 28
_LINE = 22
_LETTERS = 96

#: Contrast of text at least 7:1, of each part with the background at least 3:1, in both schemes
#: (https://www.w3.org/TR/WCAG22/#contrast-enhanced, #non-text-contrast).
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.note { fill: #424a53; }
.page { fill: #ffffff; }
.frame { fill: none; stroke: #6e7781; }
.part { stroke: #ffffff; }
.weights { fill: #0969da; }
.excess { fill: #cf222e; }
.cache { fill: #1a7f37; }
.workspace { fill: #818b98; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .note { fill: #b1bac4; }
  .page { fill: #0d1117; }
  .frame { stroke: #8b949e; }
  .part { stroke: #0d1117; }
  .weights { fill: #58a6ff; }
  .excess { fill: #f85149; }
  .cache { fill: #3fb950; }
  .workspace { fill: #656c76; }
}
"""


def memory_svg(plan: MemoryPlan, *, title: str, notes: Iterable[str]) -> str:
    """The picture as the text of an SVG file.

    Args:
        plan: what one chip holds; chips that the server does not use stay empty.
        title: the model and the chips.
        notes: sentences below the bars.
    """
    shares, chips = parts(plan), slots(plan)
    lines = [line for note in notes for line in wrap(printable(note), _LETTERS)]
    legend = 2 * _MARGIN + len(chips) * _ROW + 26
    root = _canvas(legend + (len(shares) + len(lines) + 1) * _LINE)
    _put(root, "title", text=printable(title))
    _put(root, "desc", text="; ".join(f"{part.name} {gib(part.size)} per chip" for part in shares))
    _put(root, "style", text=_STYLE)
    _put(root, "rect", "page", width=_WIDTH, height=int(root.attrib["height"]))
    _put(root, "text", "title", x=_MARGIN, y=_MARGIN + 10, text=printable(title))
    total = gib(sum(part.size for part in shares))
    for row, (label, used) in enumerate(chips):
        y = 2 * _MARGIN + row * _ROW
        _put(root, "text", x=_MARGIN, y=y + 15, text=label)
        if used:
            _bar(root, shares, y)
        _put(root, "rect", "frame", x=_LEFT, y=y, width=_RIGHT - _LEFT, height=_BAR_HEIGHT)
        _put(root, "text", x=_RIGHT + 10, y=y + 15, text=total if used else "not used")
    for row, part in enumerate(shares):
        y = legend + row * _LINE
        _put(root, "rect", part.key, x=_LEFT, y=y - 11, width=12, height=12)
        _put(root, "text", x=_LEFT + 22, y=y, text=f"{part.name} {gib(part.size)}")
    for row, line in enumerate(lines, len(shares)):
        _put(root, "text", "note", x=_MARGIN, y=legend + row * _LINE + 8, text=line)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _canvas(height: int) -> ElementTree.Element:
    """An empty picture of that height."""
    size = {"width": str(_WIDTH), "height": str(height), "viewBox": f"0 0 {_WIDTH} {height}"}
    return ElementTree.Element(
        "svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img"}
    )


def _bar(root: ElementTree.Element, shares: Sequence[Part], y: int) -> None:
    """The parts of one chip, in proportion."""
    scale = (_RIGHT - _LEFT) / sum(part.size for part in shares)
    left = float(_LEFT)
    for part in shares:
        width = part.size * scale
        rect = _put(
            root,
            "rect",
            f"part {part.key}",
            x=round(left, 1),
            y=y,
            width=round(width, 1),
            height=_BAR_HEIGHT,
        )
        _put(rect, "title", text=f"{part.name} {gib(part.size)}")
        left += width


def _put(
    parent: ElementTree.Element,
    tag: str,
    css: str = "",
    *,
    text: str | None = None,
    **attributes: float,
) -> ElementTree.Element:
    values = {name: str(value) for name, value in attributes.items()}
    element = ElementTree.SubElement(parent, tag, {"class": css, **values} if css else values)
    element.text = text
    return element
