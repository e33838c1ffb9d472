"""What `tpuflex bench report`, `compare`, `export` and `import` show of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from tpuflex.measure.comparison import HOW_TO_READ_COMPARISON
from tpuflex.terminal.markdown import LONGEST_CODE, code, shortened, table

if TYPE_CHECKING:
    from tpuflex.measure.comparison import Comparison
    from tpuflex.measure.judged_table import JudgedTable
    from tpuflex.measure.report_files import Exported, WrittenReport
    from tpuflex.planning.plausibility import Plausibility
    from tpuflex.planning.published import PublishedPoint
    from tpuflex.terminal.output import Output

#: Letters of a word that a column of a comparison shows: of a digest, its beginning is enough.
_LONGEST_WORD = 26
_PUBLISHED_HEADER = ("ROW", "USERS", "CONTEXT", "OUTPUT", "CLAIM", "VERDICT")
#: A claim in words, by the column that has it.
_CLAIMS = {
    "prompt_tokens_per_second": "{} prompt tokens/s",
    "output_tokens_per_second": "{} output tokens/s",
    "requests_per_second": "{} requests/s",
    "ttft_s": "TTFT {} s",
    "inter_token_s": "{} s a token",
    "usd_per_million": "{} USD a million",
}


def show_written(output: Output, written: WrittenReport) -> None:
    """Show what was written, and what it says in short."""
    output.document(written.to_json())
    for report in written.reports:
        output.result(f"{shortened(report.run.name, LONGEST_CODE)}: {report.summary}.")
    plots = "1 plot" if written.plots == 1 else f"{written.plots} plots"
    output.result(f"Written: {written.markdown}")
    output.result(f"         {written.html} ({plots})")
    if written.without:
        output.result(written.without)


def show_comparison(output: Output, comparison: Comparison) -> None:
    """Show the tables of ``comparison``."""
    output.document(comparison.to_json())
    for text in (*comparison.remarks, HOW_TO_READ_COMPARISON):
        output.result(text)
    for each in comparison.tables(_short):
        output.result()
        output.heading(each.title)
        output.table(each.header, each.rows)


def _short(text: str) -> str:
    return " ".join(shortened(word, _LONGEST_WORD) for word in text.split())


def show_exported(output: Output, exported: Exported) -> None:
    """Show what was exported, and what was not."""
    output.document(exported.to_json())
    reports = "1 report" if len(exported.files) == 1 else f"{len(exported.files)} reports"
    output.result(f"Written: {reports} in {exported.directory}")
    counts = Counter(point.verdict.replace("_", " ") for point in exported.left_out)
    if counts:
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        output.result(f"Left out: {words}")


def show_published(output: Output, judged: JudgedTable) -> None:
    """Show a table for each model and its chips, and below it why a point has its verdict."""
    output.document(judged.to_json())
    numbered = enumerate(judged.rows, 1)
    for (model, chips), rows in groupby(numbered, lambda row: _subject(row[1].point)):
        held = list(rows)
        output.heading(f"{model} on {chips}")
        output.table(_PUBLISHED_HEADER, [_cells(number, row) for number, row in held])
        for number, row in held:
            for text in (*row.reasons, *row.missing):
                output.result(f"{number}: {text}", hanging="    ")
        output.result()
    output.result(f"{judged.summary}.")


def published_markdown(judged: JudgedTable) -> str:
    """One table, with the verdicts and why, in GitHub's Markdown."""
    header = ("Row", "Model", "Chips", "Users", "Context", "Output", "Claim", "Verdict", "Why")
    lines = []
    for number, row in enumerate(judged.rows, 1):
        first, *rest = _cells(number, row)
        why = code("; ".join((*row.reasons, *row.missing)), longest=600)
        lines.append((first, *map(code, _subject(row.point)), *rest, why))
    return f"{judged.summary}.\n\n{table(header, lines)}"


def _subject(point: PublishedPoint) -> tuple[str, str]:
    return point.model, point.accelerator


def _cells(number: int, row: Plausibility) -> tuple[str, ...]:
    """The cells of a row below :data:`_PUBLISHED_HEADER`."""
    point = row.point
    load = (point.concurrency, point.context, point.output)
    numbers = ("-" if each is None else f"{each:,}" for each in load)
    return (str(number), *numbers, ", ".join(_claims(point)), row.verdict.replace("_", " "))


def _claims(point: PublishedPoint) -> Iterator[str]:
    for name, words in _CLAIMS.items():
        value = getattr(point, name)
        if value is not None:
            yield words.format(f"{value:,.0f}" if value >= 1000 else f"{value:.4g}")
