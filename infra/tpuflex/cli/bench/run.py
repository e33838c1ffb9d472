"""What `tpuflex bench run` does, and what it shows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.measure.bench import Benchmark, Order, bench, bench_here, point_text
from tpuflex.terminal.money import dollars

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.measure.grid import Grid
    from tpuflex.measure.run import Point, Quantiles
    from tpuflex.terminal.output import Output

#: Where runs are kept, in the project.
_DIRECTORY = "bench"
_VERDICTS = {"result": "result", "not_a_result": "not a result", "not_feasible": "not feasible"}
_HEADER = ("USERS", "TOKENS", "VERDICT", "REQ/S", "OUT/S", "OF MAX", "TTFT 50/95", "ITL", "$/M")
#: Lines about points that are no results.
_MOST_REASONS = 20


def run_bench(
    invocation: Invocation,
    grid: Grid,
    *,
    file: Path | None,
    resumed: Path | None,
    name: str,
    seed: int | None,
    url: str,
    model: str,
) -> None:
    """Measure the stack's endpoint, or the server at ``url``, show its points, and end with the
    exit code of what they are worth."""
    wanted = None if resumed is not None else grid
    stamp = invocation.now().astimezone().strftime("%Y%m%d-%H%M%S")
    if url:
        options = f"--here {shlex.quote(url)}{f' --model {shlex.quote(model)}' if model else ''}"
        path = resumed or file or Path(_DIRECTORY, f"here-{stamp}.jsonl")
        order = Order(path, wanted, name, seed, options)
        key = invocation.environ.get("OPENAI_API_KEY", "")
        trusted = invocation.environ.get("SSL_CERT_FILE")
        found = bench_here(
            url,
            order,
            invocation.report,
            consent=invocation.consent,
            model=model,
            key=key,
            ca=None if not trusted else Path(trusted),
        )
    else:
        cloud = invocation.connect(invocation.open_deployed(), start=False)
        path = resumed or file or _default(cloud.stack.project.root, cloud.stack.name, stamp)
        order = Order(path, wanted, name, seed)
        found = bench(cloud, order, invocation.report, consent=invocation.consent)
    show_benchmark(invocation.output, found)
    found.require_results()


def _default(root: Path, stack: str, stamp: str) -> Path:
    """The file of a run in the project, as one would type it here."""
    path, here = root / _DIRECTORY / f"{stack}-{stamp}.jsonl", Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def show_benchmark(output: Output, found: Benchmark) -> None:
    """Print the points, and what is to be said of them."""
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
    output.result(
        f"\n{found.count('result'):,} results, {found.count('not_a_result'):,} not a result,"
        f" {found.count('not_feasible'):,} not feasible, in {found.path}"
    )


def _legend(found: Benchmark) -> str:
    shared = {point.load.shared for point in found.points} - {0}
    prefix = "TOKENS of a prompt; OUT/S: tokens of answers a second; TTFT, ITL: seconds"
    if shared:
        prefix = f"{prefix}; +: {', '.join(f'{each:,}' for each in shared)} tokens are shared"
    return prefix


def _row(point: Point) -> tuple[str, ...]:
    load, measured = point.load, point.measured
    first = (
        f"{load.concurrency:,}",
        f"{load.context:,}{'+' if load.shared else ''}",
        _VERDICTS[point.verdict] + ("*" if point.flags else ""),
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
        "-" if measured.inter_token is None else _short(measured.inter_token.p50),
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
