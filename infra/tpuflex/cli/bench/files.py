"""What `tpuflex bench report`, `compare` and `export` show of files."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tpuflex.measure.report_markdown import HOW_TO_READ_COMPARISON
from tpuflex.terminal.markdown import LONGEST_CODE, shortened

if TYPE_CHECKING:
    from tpuflex.measure.comparison import Comparison
    from tpuflex.measure.report_files import Exported, WrittenReport
    from tpuflex.terminal.output import Output

#: Letters of a word that a column of a comparison shows: of a digest, its beginning is enough.
_LONGEST_WORD = 26


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
    for table in comparison.tables(_short):
        output.result()
        output.heading(table.title)
        output.table(table.header, table.rows)


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
