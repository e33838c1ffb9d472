"""What a report of benchmarks says: facts, heat maps, reasons. How it looks is for
:mod:`~tpuflex.measure.report_markdown` and :mod:`~tpuflex.measure.report_html`.

Texts in it are as the file has them: untrusted, to be escaped by what shows them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from tpuflex.measure.quantities import (
    CACHED,
    INTER_TOKEN,
    OUTPUT,
    PROMPT,
    TPOT,
    TTFT,
    USD,
    Quantity,
)
from tpuflex.measure.run import FIGURES, Load, Point, Run, Verdict
from tpuflex.terminal.money import dollars

#: What a cell of a heat map says of its point: the point's verdict; ``flagged``: a result with a
#: flag; ``not_measured``: of the run, and not measured yet; ``not_asked``: not of the run.
Kind = Verdict | Literal["flagged", "not_measured", "not_asked"]

#: Kind -> what a cell shows in place of a figure.
WORDS: dict[Kind, str] = {
    "not_a_result": "not a result",
    "not_feasible": "not feasible",
    "not_measured": "not measured",
    "not_asked": "not asked",
}
#: Kind -> what follows a figure.
MARKS: dict[Kind, str] = {"flagged": " *", "not_verified": " ?"}

HOW_TO_READ = (
    "A cell is one point: so many requests kept in flight (concurrency), each with a prompt of so"
    " many tokens (context). "
    "It shows a figure only where the point agrees with itself: concurrency is throughput times"
    " latency, the client's tokens are the server's, and the load generator had processor to spare;"
    ' otherwise it says "not a result", and "?" marks what another tool measured and nothing'
    " verified: the reasons are below. "
    '"Not feasible" means that the server cannot hold so many tokens at once: that was not tried,'
    " and has neither passed nor failed. "
    "Throughput grows with concurrency up to a bend, beyond which requests only wait longer; dashed"
    " lines are what the chips allow, and a point with a figure beyond them is marked with an"
    " asterisk and listed: these chips have not computed that, most often because the prompts were"
    " cached."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A point in a heat map.

    Attributes:
        text: its figure, or the word of its kind.
        kind: what it is.
        shade: where its figure stands between the least (0) and the largest (1) of the map.
    """

    text: str
    kind: Kind
    shade: float = 0.0


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A quantity by concurrency and context.

    Attributes:
        quantity: which.
        contexts: the columns.
        rows: concurrency and its cells, one for each context.
    """

    quantity: Quantity
    contexts: tuple[int, ...]
    rows: tuple[tuple[int, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """Why a point is no plain result.

    Attributes:
        load: the point's load.
        verdict: its verdict.
        texts: its reasons, then its flags.
    """

    load: Load
    verdict: Verdict
    texts: tuple[str, ...]

    @property
    def word(self) -> str:
        """Its verdict in words; of a result, that it is flagged."""
        return "flagged" if self.verdict == "result" else self.verdict.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Series:
    """Points that differ in concurrency and context alone.

    Attributes:
        shared: tokens that all prompts of a point begin with.
        output: tokens that are generated for each request.
        points: those that have been measured or ruled out.
        maps: the heat maps.
        remarks: of the points that are no plain results.
    """

    shared: int
    output: int
    points: tuple[Point, ...]
    maps: tuple[HeatMap, ...]
    remarks: tuple[Remark, ...]

    @property
    def title(self) -> str:
        """What it is, in words."""
        prompts = (
            f"Prompts that share their first {self.shared:,} tokens"
            if self.shared
            else "Prompts with nothing in common"
        )
        return f"{prompts}, {self.output:,} tokens generated for each"


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of one run.

    Attributes:
        run: the run.
        facts: what was measured on what: name and value.
        counts: kind of point -> how many points.
        series: those with unique prompts first.
    """

    run: Run
    facts: tuple[tuple[str, str], ...]
    counts: tuple[tuple[str, int], ...]
    series: tuple[Series, ...]

    @property
    def summary(self) -> str:
        """How many points of which kind, in words."""
        return ", ".join(f"{count} {word}" for word, count in self.counts)

    def to_json(self) -> dict[str, object]:
        """Its part of the document of `bench report`."""
        return {"name": self.run.name, "id": self.run.id, "points": dict(self.counts)}


def report_of(run: Run, points: Sequence[Point]) -> Report:
    """The report of ``run``, which has measured ``points``."""
    loads = {load.key: load for load in (*run.loads, *(point.load for point in points))}
    by_series: dict[tuple[int, int], dict[tuple[int, int, int, int], Load]] = {}
    for key, load in loads.items():
        by_series.setdefault((load.shared, load.output), {})[key] = load
    return Report(
        run,
        tuple(facts_of(run)),
        tuple(_counts(points, len(loads))),
        tuple(
            _series(shared, output, by_series[shared, output], points)
            for shared, output in sorted(by_series)
        ),
    )


def _counts(points: Sequence[Point], loads: int) -> Iterator[tuple[str, int]]:
    for verdict, word in (
        ("result", "results"),
        ("not_verified", "not verified"),
        ("not_a_result", "not a result"),
        ("not_feasible", "not feasible"),
    ):
        count = sum(point.verdict == verdict for point in points)
        if count or verdict == "result":
            yield word, count
    if loads > len(points):
        yield "not measured", loads - len(points)
    if flagged := sum(bool(point.flags) for point in points):
        yield "flagged", flagged


def facts_of(run: Run) -> Iterator[tuple[str, str]]:
    """What ``run`` was measured on: names and values, empty where one is not known."""
    server = run.server
    known = server.catalog_model
    catalog = f" ({known} in the catalog)" if known not in ("", server.model) else ""
    yield "model", f"{server.model}{catalog}"
    yield "chips", _chips(run)
    yield "zone", server.zone
    yield "server", f"vLLM {server.vllm}" if server.vllm else ""
    yield "image", server.image
    cache = [f"{server.kv_tokens:,} tokens"] if server.kv_tokens is not None else []
    if server.block_size is not None:
        cache.append(f"blocks of {server.block_size}")
    yield "KV cache", ", ".join(cache)
    limits = []
    if server.max_model_len is not None:
        limits.append(f"{server.max_model_len:,} tokens a sequence")
    if server.max_num_seqs is not None:
        limits.append(f"{server.max_num_seqs:,} sequences at once")
    yield "limits", ", ".join(limits)
    yield "arguments", shlex.join(server.args)
    yield "price", price_text(run) or "not known"
    yield "stack", run.stack
    yield "stack hash", run.stack_hash
    yield "load generator", run.generator
    yield "its command", shlex.join(run.command)
    yield "tpuflex", run.tpuflex
    yield "run", run.id
    yield "begun", run.started.isoformat(timespec="seconds") if run.started else ""


def _chips(run: Run) -> str:
    count = run.server.chips
    word = "1 chip" if count == 1 else f"{count} chips"
    return f"{run.server.accelerator} ({word})" if count else run.server.accelerator


def price_text(run: Run, *, source: bool = True) -> str:
    """The price of the slice, with its source if that is wanted; empty if it is not known."""
    if run.server.usd_per_hour is None:
        return ""
    read = f" ({run.server.price_source})" if source and run.server.price_source else ""
    return f"{dollars(run.server.usd_per_hour)} per hour{read}"


def _series(
    shared: int,
    output: int,
    loads: dict[tuple[int, int, int, int], Load],
    points: Iterable[Point],
) -> Series:
    found = {point.load.key: point for point in points if point.load.key in loads}
    ordered = tuple(found[key] for key in sorted(found))
    tokens = TPOT if any(TPOT.of(point) is not None for point in ordered) else INTER_TOKEN
    quantities = (OUTPUT, TTFT, tokens, USD, PROMPT, *((CACHED,) if shared else ()))
    return Series(
        shared,
        output,
        ordered,
        tuple(
            heat_map(quantity, loads, found)
            for quantity in quantities
            if quantity is OUTPUT or any(quantity.of(point) is not None for point in ordered)
        ),
        tuple(
            Remark(point.load, point.verdict, (*point.reasons, *point.flags))
            for point in ordered
            if point.verdict != "result" or point.flags
        ),
    )


def heat_map(
    quantity: Quantity,
    loads: dict[tuple[int, int, int, int], Load],
    points: dict[tuple[int, int, int, int], Point],
) -> HeatMap:
    """``quantity`` of the points of one series."""
    shared, output = {(load.shared, load.output) for load in loads.values()}.pop()
    contexts = sorted({load.context for load in loads.values()})
    concurrencies = sorted({load.concurrency for load in loads.values()})
    shown = [
        value
        for point in points.values()
        if point.verdict in FIGURES and (value := quantity.of(point))
    ]
    scale = (min(shown), max(shown)) if shown else (0.0, 0.0)

    def cell(concurrency: int, context: int) -> Cell:
        key = (shared, context, concurrency, output)
        if key not in loads:
            return Cell(WORDS["not_asked"], "not_asked")
        point = points.get(key)
        return (
            Cell(WORDS["not_measured"], "not_measured")
            if point is None
            else _cell(quantity, point, scale)
        )

    rows = ((each, tuple(cell(each, context) for context in contexts)) for each in concurrencies)
    return HeatMap(quantity, tuple(contexts), tuple(rows))


def kind_of(point: Point) -> Kind:
    """What a cell says of ``point``."""
    return "flagged" if point.flags and point.verdict == "result" else point.verdict


def _cell(quantity: Quantity, point: Point, scale: tuple[float, float]) -> Cell:
    kind = kind_of(point)
    if kind in WORDS:
        return Cell(WORDS[kind], kind)
    value = quantity.of(point)
    if value is None:
        return Cell("not known", kind)
    least, largest = scale
    shade = log(value / least) / log(largest / least) if value > 0 and least < largest else 0.0
    return Cell(f"{quantity.text(value)}{MARKS.get(kind, '')}", kind, min(max(shade, 0.0), 1.0))
