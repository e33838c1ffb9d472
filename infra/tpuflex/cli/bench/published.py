"""What `tpuflex bench import` shows: a published table with its verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from tpuflex.measure.published_table import VERDICT_WORDS, JudgedTable
from tpuflex.terminal.markdown import code, table

if TYPE_CHECKING:
    from tpuflex.planning.plausibility import Plausibility
    from tpuflex.planning.published import PublishedPoint
    from tpuflex.terminal.output import Output

_HEADER = ("ROW", "USERS", "CONTEXT", "OUTPUT", "CLAIM", "VERDICT")
#: A claim in words, by the column that has it.
_CLAIMS = {
    "prompt_tokens_per_second": "{} prompt tokens/s",
    "output_tokens_per_second": "{} output tokens/s",
    "requests_per_second": "{} requests/s",
    "ttft_s": "TTFT {} s",
    "inter_token_s": "{} s a token",
    "usd_per_million": "{} USD a million",
}


def show_published(output: Output, judged: JudgedTable) -> None:
    """Show a table for each model and its chips, and below it why a point has its verdict."""
    output.document(judged.to_json())
    numbered = enumerate(judged.rows, 1)
    for (model, chips), rows in groupby(numbered, lambda row: _subject(row[1].point)):
        held = list(rows)
        output.heading(f"{model} on {chips}")
        output.table(_HEADER, [_cells(number, row) for number, row in held])
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
    """The cells of a row below :data:`_HEADER`."""
    point = row.point
    load = (point.concurrency, point.context, point.output)
    numbers = ("-" if each is None else f"{each:,}" for each in load)
    return (str(number), *numbers, ", ".join(_claims(point)), VERDICT_WORDS[row.verdict])


def _claims(point: PublishedPoint) -> Iterator[str]:
    for name, words in _CLAIMS.items():
        value = getattr(point, name)
        if value is not None:
            yield words.format(f"{value:,.0f}" if value >= 1000 else f"{value:.4g}")
