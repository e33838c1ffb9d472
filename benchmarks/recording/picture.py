"""A terminal's lines as an animated picture: SVG with CSS alone, which GitHub shows in a README.

The lines come as they came in the session, with its pauses shortened; when the window is full, it
scrolls. Where nothing moves (a reader who wants less motion, a viewer without CSS animations), the
window shows the part of the session that says most. No font is fetched: each run of characters is
fitted to its columns, so that tables stay straight in any font with characters of one width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recording.screen import Line, Run

_WIDTH, _HEIGHT, _FONT = 8.4, 19, 14
_PADDING, _BAR = 16, 34
#: Seconds: the shortest and the longest time between two lines, and how long the end stays.
_QUICKEST, _SLOWEST, _END = 0.07, 0.9, 6.0
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours.

    Attributes:
        background: behind the text.
        border: around the window.
        title: the text in its bar.
        colours: by pyte's name; others are shown in ``colours["default"]``.
    """

    background: str
    border: str
    title: str
    colours: Mapping[str, str]


#: GitHub's own colours of text and of terminals (https://primer.style/primitives/colors).
LIGHT = Theme(
    "#ffffff",
    "#d1d9e0",
    "#59636e",
    {
        "default": "#1f2328",
        "black": "#59636e",
        "red": "#cf222e",
        "green": "#116329",
        "brown": "#7d4e00",
        "blue": "#0969da",
        "magenta": "#8250df",
        "cyan": "#1b7c83",
    },
)
DARK = Theme(
    "#0d1117",
    "#3d444d",
    "#9198a1",
    {
        "default": "#e6edf3",
        "black": "#9198a1",
        "red": "#ff7b72",
        "green": "#56d364",
        "brown": "#e3b341",
        "blue": "#79c0ff",
        "magenta": "#d2a8ff",
        "cyan": "#56d4dd",
    },
)


def picture(
    lines: Sequence[Line], *, columns: int, rows: int, still: int, title: str, theme: Theme
) -> str:
    """The picture as SVG.

    Args:
        lines: what is shown.
        columns: width of the window.
        rows: its height.
        still: the line at its top where nothing moves.
        title: what a reader hears who does not see it.
        theme: its colours.
    """
    times = _shortened(lines)
    total = times[-1] + _END
    width = round(columns * _WIDTH + 2 * _PADDING)
    height = rows * _HEIGHT + _BAR + _PADDING
    tops = [max(0, shown - rows) for shown in range(1, len(lines) + 1)]
    scroll = [(at, -top * _HEIGHT) for at, top in zip(times, tops, strict=True)]
    hide = [(at, (shown + 1) * _HEIGHT) for shown, at in enumerate(times)]
    text = "\n".join(_line(number, line, theme) for number, line in enumerate(lines) if line.runs)
    default, full = theme.colours["default"], len(lines) * _HEIGHT
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}" role="img" aria-labelledby="title" \
font-family="{_FONTS}" font-size="{_FONT}">
<title id="title">{escape(title)}</title>
<style>
text{{fill:{default}}}
.bold{{font-weight:600}}
#lines{{animation:scroll {total:.1f}s step-end infinite}}
#rest{{animation:hide {total:.1f}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{#lines,#rest{{animation:none}}}}
@keyframes scroll{{{_keyframes(scroll, total)}}}
@keyframes hide{{{_keyframes(hide, total)}}}
</style>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" \
fill="{theme.background}" stroke="{theme.border}"/>
<text x="{_PADDING}" y="22" style="fill:{theme.title}">{escape(title)}</text>
<path d="M1 {_BAR - 1}H{width - 1}" stroke="{theme.border}"/>
<svg x="{_PADDING}" y="{_BAR + 4}" width="{width - 2 * _PADDING}" height="{rows * _HEIGHT}">
<g id="lines" transform="translate(0 {-still * _HEIGHT})">
{text}
<rect id="rest" width="{width}" height="{full}" fill="{theme.background}" \
transform="translate(0 {full})"/>
</g>
</svg>
</svg>
"""


def _shortened(lines: Sequence[Line]) -> list[float]:
    """When each line comes, in seconds since the beginning of the picture."""
    times = [0.0]
    for before, line in pairwise(lines):
        times.append(times[-1] + min(max(line.at - before.at, _QUICKEST), _SLOWEST))
    return times


def _keyframes(steps: Sequence[tuple[float, int]], total: float) -> str:
    shown: dict[str, int] = {}
    last: int | None = None
    for at, offset in steps:
        if offset != last:
            shown[f"{100 * at / total:.2f}%"] = offset
        last = offset
    return "".join(f"{at}{{transform:translateY({offset}px)}}" for at, offset in shown.items())


def _line(number: int, line: Line, theme: Theme) -> str:
    y = number * _HEIGHT + _FONT
    return "".join(_text(run, y, theme) for run in line.runs)


def _text(run: Run, y: int, theme: Theme) -> str:
    colour = theme.colours.get(run.colour)
    fill = f' style="fill:{colour}"' if colour and run.colour != "default" else ""
    bold = ' class="bold"' if run.bold else ""
    x, width = run.column * _WIDTH, len(run.text) * _WIDTH
    return (
        f'<text x="{x:.1f}" y="{y}" textLength="{width:.1f}"{bold}{fill}>{escape(run.text)}</text>'
    )
