"""What is written of benchmarks: reports, comparisons, exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tpuflex.errors import TpuflexError
from tpuflex.measure.benchmark_files import Benchmark, read_benchmark
from tpuflex.measure.benchmark_report import file_name, report_of_point
from tpuflex.measure.comparison import Comparison
from tpuflex.measure.plots import HOW_TO_GET, can_draw, plots
from tpuflex.measure.report import Report, report_of
from tpuflex.measure.report_html import report_html
from tpuflex.measure.report_markdown import comparison_markdown, report_markdown
from tpuflex.measure.run import FIGURES, Point


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report that was written.

    Attributes:
        reports: what it says of each run.
        markdown: the file in Markdown.
        html: the file in HTML.
        plots: how many plots it has.
        without: how to get plots where there are none; else empty.
    """

    reports: tuple[Report, ...]
    markdown: Path
    html: Path
    plots: int
    without: str

    def to_json(self) -> dict[str, object]:
        """The document of `bench report`."""
        return {
            "runs": [report.to_json() for report in self.reports],
            "markdown": str(self.markdown),
            "html": str(self.html),
            "plots": self.plots,
        }


@dataclass(frozen=True, slots=True)
class Exported:
    """Points that were written for another tool.

    Attributes:
        directory: where they are.
        files: their names.
        left_out: points that are no results, and so were not written.
    """

    directory: Path
    files: tuple[str, ...]
    left_out: tuple[Point, ...]

    def to_json(self) -> dict[str, object]:
        """The document of `bench export`."""
        return {
            "directory": str(self.directory),
            "files": list(self.files),
            "left_out": [
                {
                    "concurrency": point.load.concurrency,
                    "context": point.load.context,
                    "verdict": point.verdict,
                }
                for point in self.left_out
            ],
        }


def write_report(files: Sequence[Path], name: Path | None = None) -> WrittenReport:
    """Write the report on the benchmarks in ``files``, in Markdown and in HTML.

    Args:
        files: of which.
        name: the files without their suffixes; that of the first benchmark with ``-report`` if not
            given.

    Raises:
        TpuflexError: a benchmark cannot be read, or the report cannot be written.
    """
    benchmarks = [read_benchmark(file) for file in files]
    reports = tuple(report_of(each.run, each.points) for each in benchmarks)
    target = name or files[0].with_name(f"{files[0].stem}-report")
    markdown, html = target.with_name(f"{target.name}.md"), target.with_name(f"{target.name}.html")
    series = [each for report in reports for each in report.series]
    drawn = (
        {number: plots(each.points, f"s{number}") for number, each in enumerate(series)}
        if can_draw()
        else {}
    )
    without = "" if can_draw() else HOW_TO_GET
    _write(markdown, report_markdown(reports, without or f"Plots are in `{html.name}`."))
    _write(html, report_html(reports, drawn, without))
    return WrittenReport(reports, markdown, html, sum(map(len, drawn.values())), without)


def write_comparison(comparison: Comparison, file: Path) -> None:
    """Write ``comparison`` in Markdown.

    Raises:
        TpuflexError: it cannot be written.
    """
    _write(file, comparison_markdown(comparison))


def export(benchmark: Benchmark, directory: Path) -> Exported:
    """Write llm-d's Benchmark Reports on the points of ``benchmark``, a file for each.

    Points that are no results are left out: a report has no place for why they are none.

    Raises:
        TpuflexError: they cannot be written, or there is no result.
    """
    kept = [point for point in benchmark.points if point.verdict in FIGURES]
    if not kept:
        raise TpuflexError(f"{benchmark.run.name} has no point with figures to export.")
    for point in kept:
        report = report_of_point(benchmark.run, point)
        text = yaml.safe_dump(report, sort_keys=False, allow_unicode=True)
        _write(directory / file_name(point.load), text)
    return Exported(
        directory,
        tuple(file_name(point.load) for point in kept),
        tuple(point for point in benchmark.points if point.verdict not in FIGURES),
    )


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    except OSError as error:
        raise TpuflexError(f"{file} cannot be written: {error.strerror}.") from error
