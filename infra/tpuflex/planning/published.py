"""What others have published: throughputs, latencies and prices, as they stand in a table.

The table that comes with tpuflex (``catalog/data/published.csv``) has the form of a user's own.
Nothing in it was measured by this project, and nothing was averaged or scaled. Which of it is
believed is decided by :mod:`tpuflex.planning.plausibility`, not by leaving rows out.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationError

from tpuflex.catalog.packaged import packaged_data
from tpuflex.catalog.rows import Count, Name, Positive, Row, Source, Text
from tpuflex.errors import Finding, Position, SettingsError
from tpuflex.planning.figure import source_json

if TYPE_CHECKING:
    from tpuflex.planning.request import Load

#: The table that comes with tpuflex.
BUILTIN_FILE = "published.csv"
#: Bytes and rows of the longest table that is read.
LARGEST_TABLE = 4_000_000
_MOST_ROWS = 20_000
#: Findings after which a table is read no further.
_MOST_FINDINGS = 20
#: A number as reports print it, such as 463,345 or 1,157.5.
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")

Price = Annotated[float, Field(gt=0, le=1e9)]


class PublishedPoint(Row):
    """One point of a published table: what a server is said to do under one load.

    Attributes:
        model: Hugging Face id.
        accelerator: accelerator type.
        concurrency: requests at once; None where it is not stated.
        context: prompt tokens of a request; None where it is not stated, or where the figures are
            means over several lengths.
        output: generated tokens of a request; None where it is not stated.
        prompt_tokens_per_second: throughput that is claimed for prompts.
        output_tokens_per_second: throughput that is claimed for answers.
        requests_per_second: requests served per second.
        ttft_s: mean seconds to the first token.
        inter_token_s: mean seconds between two tokens of a request.
        usd_per_million: US dollars for a million tokens, of whichever kind.
        setup: under which circumstances, as far as they are stated.
        source: the report.
    """

    model: Name
    accelerator: Name
    concurrency: Count | None = None
    context: Count | None = None
    output: Count | None = None
    prompt_tokens_per_second: Positive | None = None
    output_tokens_per_second: Positive | None = None
    requests_per_second: Positive | None = None
    ttft_s: Positive | None = None
    inter_token_s: Positive | None = None
    usd_per_million: Price | None = None
    setup: Text | None = None
    source: Source


#: The columns of a table. ``source`` and ``date`` together are the source of a row.
COLUMNS = (*PublishedPoint.model_fields, "date")
_REQUIRED = ("model", "accelerator")
_TEXTS = (*_REQUIRED, "setup", "source", "date")
#: Of these a row has one, or a concurrency and a context: there is nothing to judge otherwise.
FIGURES = tuple(name for name in COLUMNS if "per_" in name or name.endswith("_s"))


@cache
def builtin_points() -> tuple[PublishedPoint, ...]:
    """The published figures that come with tpuflex."""
    return read_table(packaged_data(BUILTIN_FILE), BUILTIN_FILE)


def points_of(model: str, accelerator: str) -> tuple[PublishedPoint, ...]:
    """What was published of ``model`` on ``accelerator``."""
    return tuple(
        row for row in builtin_points() if (row.model, row.accelerator) == (model, accelerator)
    )


@dataclass(frozen=True, slots=True)
class PublishedRate:
    """A published throughput, as it stands.

    Attributes:
        text: the figure with what it was measured under.
        source: the report.
    """

    text: str
    source: Source

    def to_json(self) -> dict[str, object]:
        """The figure in a JSON document."""
        return {"text": self.text, "sources": [source_json(self.source)]}


def rates_of(model: str, accelerator: str, load: Load) -> Iterator[PublishedRate]:
    """Published requests per second nearest to ``load``, and all output tokens per second."""
    rows = points_of(model, accelerator)
    requests = [row for row in rows if row.requests_per_second is not None]
    if requests:
        row = min(requests, key=lambda row: abs((row.concurrency or 0) - load.concurrency))
        yield PublishedRate(f"{row.requests_per_second:g} requests/s {_under(row)}", row.source)
    for row in rows:
        if row.output_tokens_per_second is not None:
            text = f"{row.output_tokens_per_second:g} tokens/s {_under(row)}"
            yield PublishedRate(text, row.source)


def _under(row: PublishedPoint) -> str:
    if row.concurrency is None:
        return f"({row.setup})"
    return f"with {row.concurrency:,} at once ({row.setup})"


def read_table(
    content: bytes, file: str, default: Source | None = None
) -> tuple[PublishedPoint, ...]:
    """The rows of a CSV table whose first line names columns of :data:`COLUMNS`.

    Args:
        content: the table, in UTF-8.
        file: its name, for messages.
        default: source and date of rows that have none; None: each has both.

    Raises:
        SettingsError: something in it is wrong; each finding has its line, and the number of its
            column in the table.
    """
    findings: list[Finding] = []
    points: list[PublishedPoint] = []
    reader = csv.reader(_text(content, file).splitlines(keepends=True), strict=True)
    try:
        columns = _columns(next(reader, []), file)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            row = _TableRow(file, reader.line_num, columns, cells)
            found = row.parsed(default)
            if isinstance(found, PublishedPoint):
                points.append(found)
            else:
                findings += found
            if len(findings) >= _MOST_FINDINGS or len(points) > _MOST_ROWS:
                break
    except csv.Error as error:
        where = Position(max(reader.line_num, 1), 1, file)
        findings.append(Finding(file, f"is no CSV here: {error}", position=where))
    if not findings and not points:
        findings.append(Finding(file, "has no rows below its first line"))
    if len(points) > _MOST_ROWS:
        findings.append(Finding(file, f"has more than {_MOST_ROWS:,} rows"))
    if findings:
        raise SettingsError(file, tuple(findings[:_MOST_FINDINGS]))
    return tuple(points)


def _text(content: bytes, file: str) -> str:
    if len(content) > LARGEST_TABLE:
        found = Finding(file, f"is longer than {LARGEST_TABLE:,} bytes", "Import it in parts.")
        raise SettingsError(file, (found,))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line = before.count(b"\n") + 1
        where = Position(line, error.start - before.rfind(b"\n"), file)
        found = Finding(file, "is not UTF-8 text", "Save it as CSV in UTF-8.", where)
        raise SettingsError(file, (found,)) from error


def _columns(header: Iterable[str], file: str) -> tuple[str, ...]:
    """The columns that the first line names.

    Raises:
        SettingsError: one of them is not known, is there twice, or is missing.
    """
    names = tuple(cell.strip().lower() for cell in header)
    findings = []
    for number, name in enumerate(names, 1):
        where = Position(1, number, file)
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"Columns: {', '.join(COLUMNS)}."
            findings.append(Finding(name or "(empty)", "is not a column", remedy, where))
        elif name in names[: number - 1]:
            findings.append(Finding(name, "is there twice", "Leave one of them out.", where))
    findings += [
        Finding(name, "is missing", "Name it in the first line.", Position(1, 1, file))
        for name in _REQUIRED
        if name not in names
    ]
    if findings:
        raise SettingsError(file, tuple(findings[:_MOST_FINDINGS]))
    return names


class _TableRow:
    """A row of a table, being read."""

    def __init__(self, file: str, line: int, columns: tuple[str, ...], cells: list[str]) -> None:
        self._file = file
        self._line = line
        self._columns = columns
        self._cells = cells

    def parsed(self, default: Source | None) -> PublishedPoint | list[Finding]:
        """The row, or what is wrong with it."""
        if len(self._cells) != len(self._columns):
            count = f"{len(self._cells)} cells, and the first line {len(self._columns)}"
            return [self._finding("the row", f"has {count}", "Put text with commas in quotes.")]
        cells = {
            name: cell.strip()
            for name, cell in zip(self._columns, self._cells, strict=True)
            if cell.strip()
        }
        values: dict[str, object] = {
            name: cell if name in _TEXTS else _number(cell) for name, cell in cells.items()
        }
        source = {"where": values.pop("source", None), "date": values.pop("date", None)}
        if default is not None:
            source = {name: value or getattr(default, name) for name, value in source.items()}
        values["source"] = source
        try:
            point = PublishedPoint.model_validate(values)
        except ValidationError as error:
            return list(self._findings(error, cells))
        loaded = point.concurrency and point.context
        if not loaded and all(getattr(point, name) is None for name in FIGURES):
            what = f"has no figure: none of {', '.join(FIGURES)}"
            return [self._finding("the row", what)]
        return point

    def _findings(self, error: ValidationError, cells: Mapping[str, str]) -> Iterator[Finding]:
        for each in error.errors(include_url=False):
            name = "date" if each["loc"][-1] == "date" else str(each["loc"][0])
            if name not in cells:
                yield self._finding(name, "is missing")
            elif name == "date":
                yield self._finding(name, f"{cells[name][:80]!r} is no date such as 2026-05-08")
            else:
                yield self._finding(name, f"{cells[name][:80]!r}: {each['msg']}")

    def _finding(self, name: str, problem: str, remedy: str = "") -> Finding:
        number = self._columns.index(name) + 1 if name in self._columns else 1
        return Finding(name, problem, remedy, Position(self._line, number, self._file))


def _number(cell: str) -> str:
    return cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell
