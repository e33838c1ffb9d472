"""Reports of benchmarks as one page of HTML: nothing is fetched, nothing runs, and no text of a
file can act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from pulumi_plugin.printable import printable
from tpuflex.measure.plots import Plot
from tpuflex.measure.report import HOW_TO_READ, Cell, HeatMap, Report, Series
from tpuflex.terminal.markdown import shortened

#: Characters of a fact or a reason that are shown.
_LONGEST = 1_000
#: Share of the blue of the largest figure of a map, and of the least, in percent.
_DARKEST, _LIGHTEST = 62, 6
#: The page itself allows nothing but its own style.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --page: #fff; --line: #8884; --dim: #59636e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --page: #14171b; --dim: #9aa4ae }
}
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: var(--ink);
  background: var(--page); font: 15px/1.5 system-ui, sans-serif }
h1, h2, h3 { line-height: 1.25 } h2 { margin-top: 2.5rem; overflow-wrap: anywhere }
.how { max-width: 60rem; padding: .2rem 1rem; border-left: 4px solid #0072b2 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left }
td { overflow-wrap: anywhere } caption { text-align: left; padding: .3rem 0;
  font-weight: 600; white-space: nowrap }
.map td, .map th { text-align: right; white-space: nowrap }
.map td.flagged { outline: 2px solid #d55e00; outline-offset: -2px; font-weight: 700 }
.map td.not_verified { font-style: italic }
.map td.not_a_result, .map td.not_feasible, .map td.not_measured, .map td.not_asked {
  text-align: center; font-size: .85em }
.map td.not_a_result { font-weight: 600; background-color: #d55e0022;
  background-image: repeating-linear-gradient(45deg, #d55e0055 0 6px, transparent 6px 12px) }
td.word { white-space: nowrap }
.map td.not_feasible { background: #8885; color: var(--ink) }
.map td.not_measured { border-style: dashed; color: var(--dim) }
.map td.not_asked { color: var(--dim); font-style: italic }
figure { margin: 1rem 0 } figcaption { font-weight: 600 } svg { max-width: 100%; height: auto }
.plots { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)) }
@media (max-width: 34rem) { .plots { grid-template-columns: 1fr } }
code { overflow-wrap: anywhere }
"""


def report_html(
    reports: Sequence[Report], plots: Mapping[int, Sequence[Plot]], without: str
) -> str:
    """The page about ``reports``.

    Args:
        reports: what it is about.
        plots: those of each series, by its number on the page.
        without: what is said in their place if there are none.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Benchmark</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Benchmark</h1><p class=how>{escape(HOW_TO_READ)}</p>",
    ]
    if without:
        parts.append(f"<p>{escape(without)}</p>")
    number = 0
    for report in reports:
        parts += _run(report)
        for series in report.series:
            parts += _series(series, plots.get(number, ()))
            number += 1
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _shown(text: str) -> str:
    return escape(shortened(printable(text), _LONGEST))


def _run(report: Report) -> Iterator[str]:
    yield f"<h2>{_shown(report.run.name)}</h2><p>{report.summary}.</p><table>"
    for name, text in report.facts:
        if text:
            yield f"<tr><th>{name}</th><td><code>{_shown(text)}</code></td></tr>"
    yield "</table>"


def _series(series: Series, drawn: Sequence[Plot]) -> Iterator[str]:
    yield f"<h3>{escape(series.title)}</h3>"
    for heat_map in series.maps:
        yield from _heat_map(heat_map)
    if drawn:
        yield "<div class=plots>"
        for plot in drawn:
            yield f"<figure><figcaption>{escape(plot.title)}</figcaption>{plot.svg}</figure>"
        yield "</div>"
    if series.remarks:
        yield "<div class=scroll><table><caption>Points that are no plain results</caption>"
        yield "<tr><th>concurrency<th>context<th><th>because</tr>"
        for remark in series.remarks:
            because = "<br>".join(_shown(text) for text in remark.texts) or "not said"
            yield (
                f"<tr><td>{remark.load.concurrency:,}<td>{remark.load.context:,}"
                f"<td class=word>{remark.word}<td>{because}</tr>"
            )
        yield "</table></div>"


def _heat_map(heat_map: HeatMap) -> Iterator[str]:
    yield (
        f"<div class=scroll><table class=map><caption>{escape(heat_map.quantity.title)}, by"
        " concurrency (rows) and context (columns)</caption>"
    )
    yield "<tr><th>" + "".join(f"<th>{context:,}" for context in heat_map.contexts) + "</tr>"
    for concurrency, cells in heat_map.rows:
        yield f"<tr><th>{concurrency:,}{''.join(map(_cell, cells))}</tr>"
    yield "</table></div>"


def _cell(cell: Cell) -> str:
    if cell.text[0].isalpha():
        return f"<td class={cell.kind}>{cell.text}"
    share = _LIGHTEST + (_DARKEST - _LIGHTEST) * cell.shade
    return f'<td class={cell.kind} style="background: rgb(0 114 178 / {share:.0f}%)">{cell.text}'
