"""Reports and comparisons of benchmarks as Markdown, in which no text of a file can act."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tpuflex.measure.comparison import HOW_TO_READ_COMPARISON, Comparison
from tpuflex.measure.report import HOW_TO_READ, HeatMap, Report, Series
from tpuflex.terminal.markdown import code, table

#: Characters of a fact or a reason that are shown.
_LONGEST = 1_000


def report_markdown(reports: Sequence[Report], plots: str) -> str:
    """The page about ``reports``; ``plots`` says where plots are."""
    parts = ["# Benchmark", HOW_TO_READ, plots]
    for report in reports:
        parts += _run(report)
    return "\n\n".join(parts) + "\n"


def _run(report: Report) -> Iterator[str]:
    yield f"## {code(report.run.name)}"
    yield f"{report.summary}."
    yield table(
        ("measured on", ""),
        [(name, code(text, longest=_LONGEST)) for name, text in report.facts if text],
    )
    for series in report.series:
        yield from _series(series)


def _series(series: Series) -> Iterator[str]:
    yield f"### {series.title}"
    for heat_map in series.maps:
        yield f"**{heat_map.quantity.title}**, by concurrency (rows) and context (columns):"
        yield _heat_map(heat_map)
    if not series.remarks:
        return
    yield "Points that are no plain results:"
    yield table(
        ("concurrency", "context", "", "because"),
        [
            (
                f"{remark.load.concurrency:,}",
                f"{remark.load.context:,}",
                remark.word,
                "; ".join(code(text, longest=_LONGEST) for text in remark.texts) or "not said",
            )
            for remark in series.remarks
        ],
    )


def _heat_map(heat_map: HeatMap) -> str:
    return table(
        ("", *(f"{context:,}" for context in heat_map.contexts)),
        [
            (
                f"**{concurrency:,}**",
                *(f"*{cell.text}*" if cell.text[0].isalpha() else cell.text for cell in cells),
            )
            for concurrency, cells in heat_map.rows
        ],
    )


def comparison_markdown(comparison: Comparison) -> str:
    """The page about ``comparison``."""
    parts = ["# Benchmarks compared", HOW_TO_READ_COMPARISON]
    parts += comparison.remarks
    for each in comparison.tables(lambda text: code(text, longest=_LONGEST)):
        parts += [f"## {each.title}", table(each.header, each.rows)]
    return "\n\n".join(parts) + "\n"
