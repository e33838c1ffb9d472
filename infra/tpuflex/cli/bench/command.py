"""`tpuflex bench …`: what a server does under load, and what figures are worth."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    Tokens,
    as_json,
    assume_yes,
    endpoint_name,
    pass_invocation,
    stack_name,
)

if TYPE_CHECKING:
    from tpuflex.cli.bench.run import Asked

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)

#: Options of the commands that measure.
_MEASURING = (
    click.option(
        "--output", type=Tokens(1), metavar="TOKENS", help="Tokens of an answer.  [default: 64]"
    ),
    click.option(
        "--requests-per-user",
        type=click.IntRange(2, 10_000),
        metavar="N",
        help="Requests of a point for each in flight; at least 32 in all.  [default: 8]",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        help="Seed of the prompts.  [default: another one each time]",
    ),
    click.option(
        "--name", metavar="NAME", default="", help="What reports call the run.  [default: its file]"
    ),
    click.option(
        "-o",
        "--output-file",
        type=_FILE,
        metavar="FILE",
        help="Where points are kept.  [default: bench/STACK-DATE-TIME.jsonl in the project]",
    ),
    click.option(
        "--resume",
        "resumed",
        type=_FILE,
        metavar="FILE",
        help="Measure the points that FILE lacks, on the same server.",
    ),
    click.option(
        "--here",
        "url",
        metavar="URL",
        default="",
        help="Measure the server at URL with the vLLM of this machine; its key is $OPENAI_API_KEY.",
    ),
    click.option(
        "--model",
        metavar="NAME",
        default="",
        help="With --here: the served model, if there are several.",
    ),
    click.option(
        "--tokenizer",
        metavar="NAME",
        default="",
        help="With --here: directory, or name in the Hub, of its tokenizer.  [default: the model]",
    ),
    stack_name,
    endpoint_name,
    as_json,
    assume_yes,
)


def _measuring(command: F) -> F:
    """Add the options of all commands that measure. The command gets those that are not of its
    points as one value, ``asked``."""

    @wraps(command)
    def with_asked(
        *args: Any,
        output_file: Path | None,
        resumed: Path | None,
        name: str,
        seed: int | None,
        url: str,
        model: str,
        tokenizer: str,
        **others: Any,
    ) -> Any:
        from tpuflex.cli.bench.run import Asked

        if (model or tokenizer) and not url:
            raise click.UsageError("--model and --tokenizer go with --here.")
        _refuse_with_resumed(resumed, output_file, name or None)
        asked = Asked(output_file, resumed, name, seed, url, model, tokenizer)
        return command(*args, asked=asked, **others)

    measuring: Any = with_asked
    for option in reversed(_MEASURING):
        measuring = option(measuring)
    return cast("F", measuring)


def _refuse_with_resumed(resumed: Path | None, *given: object) -> None:
    if resumed is not None and any(each is not None for each in given):
        raise click.UsageError(
            "--resume takes points and file as they are, and the name of the run: give no others."
        )


@click.group(
    cls=Commands,
    examples=(
        "tpuflex bench run --concurrency 1,8,64 --context 128,2K",
        "tpuflex bench ramp --gate 'ttft_p95<1.5s@128'",
        "tpuflex bench report bench-prod.jsonl",
        "tpuflex bench compare before.jsonl after.jsonl",
        "tpuflex bench import --published",
    ),
)
def bench() -> None:
    """What a server does under load, and what figures are worth.

    The load comes from `vllm bench serve`, of the serving image.
    """


@bench.command(
    examples=(
        "tpuflex bench run --concurrency 1,8,64 --context 128,2K",
        "tpuflex --stack prod bench run --yes  # 144 points",
        "tpuflex bench run --points 8x128,64x2K --shared 64",
        "tpuflex bench run --resume bench/dev-20261129-031500.jsonl",
        "tpuflex bench run --here http://127.0.0.1:8000  # with the vLLM of this machine",
    ),
)
@click.option("--concurrency", metavar="N,…", help="Requests in flight.  [default: 1,2,4,…,2048]")
@click.option(
    "--context",
    metavar="TOKENS,…",
    help="Tokens of a prompt; 2K is 2,048.  [default: 8,16,32,…,16384]",
)
@click.option(
    "--points",
    metavar="NxTOKENS,…",
    help="These points, such as 8x128,64x2K, instead of each with each.",
)
@click.option(
    "--shared",
    type=Tokens(1),
    metavar="TOKENS",
    help="Add a second series, in which all prompts of a point begin with the same TOKENS.",
)
@_measuring
@pass_invocation
def run(
    invocation: Invocation,
    concurrency: str | None,
    context: str | None,
    points: str | None,
    output: int | None,
    requests_per_user: int | None,
    shared: int | None,
    asked: Asked,
) -> None:
    """Measure the endpoint under load: so many requests in flight, with prompts of such a length.

    `vllm bench serve` makes the load, on the host beside the server, in a container of its own
    without chips. Prompts are random, and none begins as another one does; answers have all tokens
    that are asked for. A point is kept in FILE as soon as it is measured: Ctrl-C or a kill loses
    the one under way, and --resume goes on.

    A point is a result if it agrees with itself: throughput x latency is the concurrency (within
    5 %), the client has the tokens that the server has counted (1 %), the prefix cache had none of
    its prompts, every request was answered in full, and the load generator had processor to spare
    and never stood still. Else it is "not a result", and says why. What the KV cache or the context
    cannot hold is "not feasible", and is not tried. Figures above what the chips can do are
    flagged.

    Says what it does, and asks: others who use the endpoint wait longer meanwhile. Exit code 15: a
    point is not a result; 4: there is no endpoint.
    """
    from tpuflex.cli.bench.run import run_bench
    from tpuflex.measure.grid import grid_of

    chosen = (concurrency, context, points, output, requests_per_user, shared)
    _refuse_with_resumed(asked.resumed, *chosen)
    grid = grid_of(
        concurrency=concurrency,
        context=context,
        points=points,
        output=output,
        requests_per_user=requests_per_user,
        shared=shared,
    )
    run_bench(invocation, asked, grid if asked.resumed is None else None)


@bench.command(
    examples=(
        "tpuflex bench ramp --gate 'ttft_p95<1.5s@128' --gate 'itl_p95<50ms@128'",
        "tpuflex --stack prod bench ramp --context 2K --gate 'output_tokens_per_s>1000@64' --yes",
        "tpuflex bench ramp --concurrency 1,2,4 --context 64 --gate 'ttft_p95<5s' --to-end",
    ),
)
@click.option("--concurrency", metavar="N,…", help="The steps.  [default: 1,2,4,…,256]")
@click.option(
    "--context",
    type=Tokens(1),
    metavar="TOKENS",
    help="Tokens of a prompt; 2K is 2,048.  [default: 1K]",
)
@click.option(
    "--gate",
    "gates",
    metavar="GATE",
    multiple=True,
    help="What a figure has to keep, such as ttft_p95<1.5s@128; may be repeated.",
)
@click.option("--to-end", is_flag=True, help="Measure all steps, also after a gate has failed.")
@_measuring
@pass_invocation
def ramp(
    invocation: Invocation,
    concurrency: str | None,
    context: int | None,
    gates: tuple[str, ...],
    to_end: bool,
    output: int | None,
    requests_per_user: int | None,
    asked: Asked,
) -> None:
    """Raise the requests in flight step by step, and see whether figures keep their gates.

    A GATE is METRIC, one of < <= > >=, a limit, and @CONCURRENCY for one step; without that it is
    of every step. METRIC is ttft, tpot, itl or e2e (time to the first token, for each one after it,
    between two tokens, to the last one) with _mean, _p50, _p90, _p95, _p99 or _max, and a limit in
    s or ms; or output_tokens_per_s, prompt_tokens_per_s, requests_per_s or usd_per_million, and a
    number.

    Ends at the first gate that fails. Shows the steps, what has become of each gate, the peak, and
    the highest step that keeps all gates. A step that is not a result, or not feasible, passes no
    gate and fails none: the gate is undecided. All requests of a step have to be answered, so no
    gate is needed for failures. Load, points and FILE are as of `tpuflex bench run`.

    Exit codes: 0 if all gates hold, 14 if one fails, 15 if one is undecided, 4 if there is no
    endpoint.
    """
    from tpuflex.cli.bench.run import run_ramp
    from tpuflex.measure.gates import parse_gates
    from tpuflex.measure.ramp import ramp_grid
    from tpuflex.measure.run_file import read_run

    _refuse_with_resumed(asked.resumed, concurrency, context, output, requests_per_user)
    if asked.resumed is None:
        grid = ramp_grid(concurrency, context, output, requests_per_user)
        steps = [users for users, _ in grid.points]
    else:
        grid = None
        steps = [load.concurrency for load in read_run(asked.resumed).run.loads]
    run_ramp(invocation, asked, grid, parse_gates(gates, steps), to_end=to_end)


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
    from tpuflex.cli.bench.show import published_markdown, show_published
    from tpuflex.measure.judged_table import import_table, judge_published

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


_benchmarks = click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@bench.command(
    examples=(
        "tpuflex bench report bench-prod.jsonl  # writes bench-prod-report.md and .html",
        "tpuflex bench report v6e-1.jsonl v6e-4.jsonl -o chips",
    ),
)
@_benchmarks
@click.option(
    "-o",
    "--output",
    "name",
    metavar="NAME",
    type=click.Path(path_type=Path),
    help="Write NAME.md and NAME.html.  [default: the first file's name and -report, beside it]",
)
@as_json
@pass_invocation
def report(invocation: Invocation, files: tuple[Path, ...], name: Path | None) -> None:
    """Write a report on benchmarks, in Markdown and as one page of HTML with plots.

    FILE is what `tpuflex bench run` has written, the JSON of `vllm bench serve --save-result
    --save-detailed`, or a Benchmark Report 0.2 of llm-d; a directory of the last two is one run.
    What other tools have measured is marked as not verified: their files do not say what the
    server has counted.

    The report says what was measured on what, shows each figure by concurrency and context, with
    points that are no results or not feasible told apart, and lists why they are. The page needs no
    network. Plots need `pip install 'tpuflex[measure]'`.

    Exit codes: 4 if there is no such file, 1 if it cannot be read.
    """
    from tpuflex.cli.bench.show import show_written
    from tpuflex.measure.report_files import write_report

    show_written(invocation.output, write_report(files, name))


@bench.command(
    examples=(
        "tpuflex bench compare before.jsonl after.jsonl",
        "tpuflex bench compare v6e-1.jsonl v6e-4.jsonl --of ttft --context 2K",
        "tpuflex bench compare before.jsonl after.jsonl -o comparison.md",
    ),
)
@_benchmarks
@click.option(
    "--of",
    type=click.Choice(["output", "prompt", "requests", "ttft", "tpot", "itl", "latency", "usd"]),
    default="output",
    show_default=True,
    help="What is compared point by point: tokens or requests per second, p95 of times, or dollars"
    " per million generated tokens.",
)
@click.option(
    "--context",
    type=Tokens(1),
    metavar="TOKENS",
    help="Compare only points with prompts of so many tokens; 2K is 2,048.",
)
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE.md",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the tables in Markdown, too.",
)
@as_json
@pass_invocation
def compare(
    invocation: Invocation,
    files: tuple[Path, ...],
    of: str,
    context: int | None,
    file: Path | None,
) -> None:
    """Compare benchmarks with the first one, point by point.

    FILE is what `tpuflex bench report` takes. Only points that all runs have are compared: the same
    concurrency, context and generated tokens. A point that is no result in one of them has no
    figure and no factor. The tables say in what the runs differ, the best of each run, the best of
    each model on each accelerator if that is what the runs are, and every point.

    Exit codes: 4 if there is no such file, 1 if it cannot be read or no point is in all runs.
    """
    from tpuflex.cli.bench.show import show_comparison
    from tpuflex.measure.benchmark_files import read_benchmark
    from tpuflex.measure.comparison import compare as compared
    from tpuflex.measure.quantities import COMPARED
    from tpuflex.measure.report_files import write_comparison

    (quantity,) = (each for each in COMPARED if each.name == of)
    comparison = compared([read_benchmark(each) for each in files], quantity, context)
    if file is not None:
        write_comparison(comparison, file, files)
    show_comparison(invocation.output, comparison)


@bench.command(
    examples=("tpuflex bench export bench-prod.jsonl --format llm-d -o reports",),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["llm-d"]),
    default="llm-d",
    show_default=True,
    help="llm-d: Benchmark Report 0.2.1 in YAML, one for each point.",
)
@click.option(
    "-o",
    "--output",
    "directory",
    metavar="DIRECTORY",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the reports are written.",
)
@as_json
@pass_invocation
def export(invocation: Invocation, file: Path, form: str, directory: Path) -> None:
    """Write a benchmark in the format of another tool.

    FILE is what `tpuflex bench report` takes. Points that are no results are left out and listed:
    the format has no place for why they are none.

    Exit codes: 4 if there is no such file, 1 if it cannot be read or has no result.
    """
    from tpuflex.cli.bench.show import show_exported
    from tpuflex.measure.benchmark_files import read_benchmark
    from tpuflex.measure.report_files import export as exported

    del form
    show_exported(invocation.output, exported(read_benchmark(file), directory, (file,)))
