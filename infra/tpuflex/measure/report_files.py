"""What is written of benchmarks: reports, comparisons, exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import write_shared
from tpuflex.measure.benchmark_files import Benchmark, files_of, read_benchmark
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
    text = report_markdown(reports, without or f"Plots are in `{html.name}`.")
    _write({markdown: text, html: report_html(reports, drawn, without)}, files)
    return WrittenReport(reports, markdown, html, sum(map(len, drawn.values())), without)


def write_comparison(comparison: Comparison, file: Path, read: Sequence[Path] = ()) -> None:
    """Write ``comparison`` in Markdown.

    Args:
        comparison: what is written.
        file: where.
        read: the benchmarks that are compared, which are not overwritten.

    Raises:
        TpuflexError: it cannot be written.
    """
    _write({file: comparison_markdown(comparison)}, read)


def export(benchmark: Benchmark, directory: Path, read: Sequence[Path] = ()) -> Exported:
    """Write llm-d's Benchmark Reports on the points of ``benchmark``, a file for each.

    Points that are no results are left out: a report has no place for why they are none.

    Args:
        benchmark: what is written.
        directory: where.
        read: where the benchmark comes from, which is not overwritten.

    Raises:
        TpuflexError: they cannot be written, or there is no result.
    """
    kept = [point for point in benchmark.points if point.verdict in FIGURES]
    if not kept:
        raise TpuflexError(f"{benchmark.run.name} has no point with figures to export.")
    texts = {
        directory / file_name(point.load): yaml.safe_dump(
            report_of_point(benchmark.run, point), sort_keys=False, allow_unicode=True
        )
        for point in kept
    }
    _write(texts, read)
    return Exported(
        directory,
        tuple(file_name(point.load) for point in kept),
        tuple(point for point in benchmark.points if point.verdict not in FIGURES),
    )


def _write(texts: Mapping[Path, str], read: Sequence[Path]) -> None:
    """Write all of ``texts``; nothing if one of their files belongs to a benchmark that was read.

    Raises:
        TpuflexError: one does, or cannot be written.
    """
    sources = {source.resolve() for each in read for source in files_of(each)}
    for file in texts:
        if file.resolve() in sources:
            raise TpuflexError(
                f"{file} is one of the benchmarks that were read: it is not overwritten.",
                hint="Name another file by -o.",
            )
    for file, text in texts.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_shared(file, text)
        except OSError as error:
            raise TpuflexError(f"{file} cannot be written: {error.strerror}.") from error
