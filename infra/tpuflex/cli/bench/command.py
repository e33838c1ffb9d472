"""`tpuflex bench …`: what a server does under load, and what figures are worth."""

from __future__ import annotations

from pathlib import Path

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Commands, as_json, pass_invocation


@click.group(
    cls=Commands,
    examples=("tpuflex bench import table.csv", "tpuflex bench import --published"),
)
def bench() -> None:
    """What a server does under load, and what figures are worth.

    The load comes from `vllm bench serve`, of the serving image.
    """


@bench.command(
    name="import",
    examples=(
        "tpuflex bench import table.csv",
        "tpuflex bench import --published  # what others have published, as it comes with tpuflex",
        "tpuflex bench import table.csv --markdown > table.md",
    ),
)
@click.argument("file", metavar="[TABLE.csv]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--published", is_flag=True, help="Judge the published figures that come with tpuflex."
)
@click.option("--markdown", is_flag=True, help="Print one table in GitHub's Markdown.")
@as_json
@pass_invocation
def import_(invocation: Invocation, file: Path | None, published: bool, markdown: bool) -> None:
    """Hold a published table against what its chips can do.

    TABLE.csv has a point in each row. Its first line names the columns: model and accelerator; any
    of concurrency, context and output (tokens of a prompt and of an answer); and figures:
    prompt_tokens_per_second, output_tokens_per_second, requests_per_second, ttft_s and
    inter_token_s (means, in seconds), usd_per_million (dollars for a million tokens). Columns
    setup, source and date say where a row comes from. What is not stated stays empty.

    A point is "impossible" if a figure is above what the chips compute, or read from their memory,
    at peak in any type, or if its figures contradict each other (throughput x latency is the
    concurrency); "not credible" if only bfloat16 forbids it, or leaves nothing for overhead; "not
    feasible" if the KV cache cannot hold so many requests at once; "not known" if the catalog lacks
    the model or the chips. All others are "possible", which does not mean that they were reached.

    Exit codes: 15 if a point of a table of yours is impossible, 5 if the table cannot be read, with
    line and column; 4 if there is no such file.
    """
    from tpuflex.cli.bench.published import published_markdown, show_published
    from tpuflex.measure.published_table import import_table, judge_published

    if (file is None) != published:
        raise click.UsageError("Name a table, or write --published.")
    if invocation.json and markdown:
        raise click.UsageError("--json and --markdown both write to standard output.")
    if file is None:
        judged = judge_published(invocation.catalog)
    else:
        judged = import_table(file, invocation.catalog, invocation.now().date())
    if markdown:
        invocation.output.verbatim(published_markdown(judged))
    else:
        show_published(invocation.output, judged)
    if file is not None:
        judged.require_possible()
