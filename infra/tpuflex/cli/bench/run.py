"""What `tpuflex bench run` and `bench ramp` do, and what they show."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tpuflex.measure.bench import (
    BENCH_RAMP,
    BENCH_RUN,
    Benchmark,
    Order,
    bench,
    bench_here,
    never,
    point_text,
    users_text,
)
from tpuflex.measure.ramp import Measure, Ramp, ramp
from tpuflex.measure.run import Verdict
from tpuflex.terminal.money import dollars

if TYPE_CHECKING:
    from tpuflex.advice import Advice
    from tpuflex.cli.invocation import Invocation
    from tpuflex.measure.gates import Gate
    from tpuflex.measure.grid import Grid
    from tpuflex.measure.run import Point, Quantiles
    from tpuflex.terminal.output import Output

#: Where runs are kept, in the project.
_DIRECTORY = "bench"
_HEADER = ("USERS", "TOKENS", "VERDICT", "REQ/S", "OUT/S", "OF MAX", "TTFT 50/95", "TPOT", "$/M")
#: Lines about points that are no results.
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command that measures is asked for, beside its points.

    Attributes:
        file: where they are kept; None for a new file in the project.
        resumed: the file that is gone on with.
        name: what reports call the run; empty for the file's name.
        seed: of the prompts; None for another one each time.
        url: the server; empty for the stack's endpoint.
        model: its served model; empty for the only one.
        tokenizer: directory or name in the Hub of its tokenizer; empty for the model's name.
    """

    file: Path | None = None
    resumed: Path | None = None
    name: str = ""
    seed: int | None = None
    url: str = ""
    model: str = ""
    tokenizer: str = ""

    @property
    def server(self) -> str:
        """The options that name the server at a URL."""
        named = {"--here": self.url, "--model": self.model, "--tokenizer": self.tokenizer}
        return " ".join(f"{option} {shlex.quote(text)}" for option, text in named.items() if text)


def run_bench(invocation: Invocation, asked: Asked, grid: Grid | None) -> None:
    """Measure the stack's endpoint, or the server at a URL, show its points, and end with the exit
    code of what they are worth; without a ``grid``, measure the points that a file lacks."""
    found = measurement(invocation, asked, grid)(enough=never)
    show_benchmark(invocation.output, found)
    found.require_results()


def run_ramp(
    invocation: Invocation,
    asked: Asked,
    grid: Grid | None,
    gates: Sequence[Gate],
    *,
    to_end: bool,
) -> None:
    """Measure step by step until one of ``gates`` fails, show the steps, and end with the exit code
    of what has become of the gates; ``grid`` as for :func:`run_bench`."""
    typed = [f"--gate {shlex.quote(gate.text)}" for gate in gates] + ["--to-end"] * to_end
    measure = measurement(invocation, asked, grid, BENCH_RAMP, " ".join(typed))
    found = ramp(measure, gates, invocation.report, to_end=to_end)
    show_ramp(invocation.output, found)
    found.require_kept()


def measurement(
    invocation: Invocation,
    asked: Asked,
    grid: Grid | None,
    command: Advice = BENCH_RUN,
    options: str = "",
) -> Measure:
    """What measures the stack's endpoint, or the server at a URL.

    Args:
        invocation: the run of the command line.
        asked: what is asked for beside the points.
        grid: the points; None for those that the file lacks.
        command: goes on with it.
        options: what has to be typed for that, beside the server.
    """
    stamp = invocation.now().astimezone().strftime("%Y%m%d-%H%M%S")

    def order(default: Path) -> Order:
        path = asked.resumed or asked.file or default
        typed = " ".join(filter(None, (asked.server, options)))
        return Order(path, grid, asked.name, asked.seed, typed, command)

    if asked.url:
        trusted = invocation.environ.get("SSL_CERT_FILE")
        return partial(
            bench_here,
            asked.url,
            order(Path(_DIRECTORY, f"here-{stamp}.jsonl")),
            invocation.report,
            consent=invocation.consent,
            model=asked.model,
            tokenizer=asked.tokenizer,
            key=invocation.environ.get("OPENAI_API_KEY", ""),
            ca=None if not trusted else Path(trusted),
        )
    cloud = invocation.connect(invocation.open_deployed(), start=False)
    kept = order(_default(cloud.stack.project.root, cloud.stack.name, stamp))
    return partial(bench, cloud, kept, invocation.report, consent=invocation.consent)


def _default(root: Path, stack: str, stamp: str) -> Path:
    """The file of a run in the project, as one would type it here."""
    path, here = root / _DIRECTORY / f"{stack}-{stamp}.jsonl", Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def show_benchmark(output: Output, found: Benchmark) -> None:
    """Print the points, with remarks on them below."""
    output.document(found.to_json())
    server = found.run.server
    chips = f" on {server.accelerator}" if server.accelerator else ""
    output.heading(f"{server.model}{chips}, vLLM {server.vllm}".removesuffix(", vLLM "))
    rows = [_row(point) for point in found.points]
    shown = [
        index
        for index, title in enumerate(_HEADER)
        if title not in ("OF MAX", "$/M") or any(row[index] != "-" for row in rows)
    ]
    output.table(
        [_HEADER[index] for index in shown], [[row[index] for index in shown] for row in rows]
    )
    output.result(f"\n{_legend(found)}")
    _show_remarks(output, found)
    counts = [
        f"{count:,} {'results' if verdict == 'result' and count > 1 else verdict.replace('_', ' ')}"
        for verdict in get_args(Verdict)
        if (count := found.count(verdict))
    ]
    output.result(f"\n{', '.join(counts)}: {found.path}")


def _legend(found: Benchmark) -> str:
    shared = {point.load.shared for point in found.points} - {0}
    prefix = "TOKENS of a prompt; OUT/S: tokens of answers a second; TTFT, TPOT: seconds"
    if shared:
        prefix = f"{prefix}; +: {', '.join(f'{each:,}' for each in shared)} tokens are shared"
    return prefix


def _row(point: Point) -> tuple[str, ...]:
    load, measured = point.load, point.measured
    first = (
        f"{load.concurrency:,}",
        f"{load.context:,}{'+' if load.shared else ''}",
        point.verdict.replace("_", " ") + ("*" if point.flags else ""),
    )
    if measured is None:
        return (*first, *("-",) * 6)
    most = point.ceilings.output_per_second
    share = "-" if not most else f"{measured.output_per_second / most:.1%}"
    price = point.usd_per_million
    return (
        *first,
        _short(measured.requests_per_second),
        _short(measured.output_per_second),
        share,
        _pair(measured.ttft),
        "-" if measured.tpot is None else _short(measured.tpot.p50),
        "-" if price is None else dollars(price),
    )


def _pair(seconds: Quantiles | None) -> str:
    return "-" if seconds is None else f"{_short(seconds.p50)}/{_short(seconds.p95)}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _show_remarks(output: Output, found: Benchmark) -> None:
    """Why points are no results; of those that are not feasible the first, since all are alike."""
    wrong = [point for point in found.points if point.verdict == "not_a_result"]
    for point in wrong[:_MOST_REASONS]:
        for reason in point.reasons:
            output.result(f"{point_text(point.load)}: not a result: {reason}.", hanging="  ")
    if len(wrong) > _MOST_REASONS:
        output.result(f"and {len(wrong) - _MOST_REASONS:,} more: each has its reasons in the file")
    for point in found.points:
        for flag in point.flags:
            output.result(f"* {point_text(point.load)}: {flag}.", hanging="  ")
    infeasible = [point for point in found.points if point.verdict == "not_feasible"]
    for point in infeasible[:1]:
        more = "" if len(infeasible) == 1 else "such as "
        output.result(
            f"not feasible: {more}{point_text(point.load)}: {point.reasons[0]}.", hanging="  "
        )


def show_ramp(output: Output, found: Ramp) -> None:
    """Print the steps, what has become of the gates, and how far the server goes."""
    output.document(found.to_json())
    show_benchmark(output, found.benchmark)
    if found.gates:
        output.result()
        output.facts((each.gate.text, each.text) for each in found.decisions)
    output.result()
    if (peak := found.peak) is not None and peak.measured is not None:
        rate = _short(peak.measured.output_per_second)
        output.result(f"Peak: {rate} tokens/s of answers, with {users_text(peak.load)}.")
    if found.gates:
        highest = found.highest
        output.result(
            "No step keeps all gates."
            if highest is None
            else f"All gates are kept with {users_text(highest.load)}: the highest such step."
        )
