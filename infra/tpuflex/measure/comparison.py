"""Runs compared with the first of them, at the points that all of them have.

A factor is a run's figure divided by the first run's. Where a point is no result in a run, its
verdict stands in place of a figure, and there is no factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from urllib.parse import urlsplit

from tpuflex.errors import TpuflexError, UsageError
from tpuflex.measure.benchmark_files import Benchmark
from tpuflex.measure.quantities import COMPARED, Quantity
from tpuflex.measure.report import MARKS, WORDS, facts_of, kind_of, price_text
from tpuflex.measure.run import FIGURES, Point, Run

#: Facts that the header has even where all runs agree.
_ALWAYS = ("model", "chips", "server", "price", "load from")
#: Facts that tell runs apart and are no difference between them: a command has paths and addresses.
_OF_ONE_RUN = ("run", "begun", "stack", "its command")
#: Letters of a run's name in the head of a column.
_LONGEST_NAME = 24
#: Factors that prove no difference. A point is measured once, so how far repetitions are from each
#: other is not known: a fifth is a margin that was assumed, not measured.
_UNSURE = (0.8, 1.25)
#: What the tables of a comparison need to be read.
HOW_TO_READ_COMPARISON = (
    "A factor is a run's figure divided by the first run's. Only points with the same concurrency,"
    " context and generated tokens are compared. An asterisk marks a flagged point, ?"
    " one that another tool measured and nothing verified; best figures say at which concurrency x"
    f" context. Each point was measured once: ~ marks factors from {_UNSURE[0]} to {_UNSURE[1]}, by"
    " which two runs of one server may differ, too; measure again before you believe them."
)
#: Options of the load generator that say which server it measures, and how to reach it.
_ADDRESSES = frozenset({"--base-url", "--model", "--served-model-name", "--tokenizer"})
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_NONE = "-"
_RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text.

    Attributes:
        title: what it shows.
        header: heads of the columns.
        rows: the cells.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Best:
    """The best point of each run at the loads that all of them have results for.

    Attributes:
        quantity: of which.
        points: of each run; None where none has a value.
    """

    quantity: Quantity
    points: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True)
class Peaks:
    """The best value of each model on each accelerator.

    Attributes:
        accelerators: the columns, from fewest to most chips.
        rows: model and its best points, one for each accelerator; None where it was not measured.
    """

    accelerators: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Point | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is said of several runs.

    Attributes:
        names: of the runs, each another one.
        facts: name of a fact, and its value in each run.
        quantity: what is compared point by point.
        points: those that all runs have, a point for each run.
        left_out: how many loads some of the runs do not have.
        bests: the best of each quantity, over the loads at which all runs have figures.
        peaks: models on accelerators, where the runs are such; else None.
    """

    names: tuple[str, ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    quantity: Quantity
    points: tuple[tuple[Point, ...], ...]
    left_out: int
    bests: tuple[Best, ...]
    peaks: Peaks | None

    @property
    def different(self) -> tuple[str, ...]:
        """The facts in which the runs differ, as far as these are known."""
        return tuple(
            name
            for name, values in self.facts
            if name != _RESULTS and len(set(filter(None, values))) > 1
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader has to know of the tables, in sentences without text of a file."""
        differ = ", ".join(self.different)
        left_out = f"Points that not all runs have are left out: {self.left_out}."
        models = "The runs are of different models, whose tokens are not the same amount of text."
        return (
            f"The runs differ in: {differ}." if differ else "Nothing is known to differ.",
            *((models,) if "model" in self.different else ()),
            *((left_out,) if self.left_out else ()),
        )

    def to_json(self) -> dict[str, object]:
        """The document of `bench compare`."""
        return {
            "runs": self.names,
            "facts": dict(self.facts),
            "different": self.different,
            "quantity": self.quantity.name,
            "left_out": self.left_out,
            "best": {
                best.quantity.name: [_best_json(best.quantity, point) for point in best.points]
                for best in self.bests
            },
            "points": [
                {
                    "concurrency": row[0].load.concurrency,
                    "context": row[0].load.context,
                    "output": row[0].load.output,
                    "shared": row[0].load.shared,
                    "runs": [
                        {
                            "verdict": point.verdict,
                            "flagged": bool(point.flags),
                            "value": _value(self.quantity, point),
                        }
                        for point in row
                    ],
                    "factors": factors([_value(self.quantity, point) for point in row]),
                }
                for row in self.points
            ],
            "peaks": None
            if self.peaks is None
            else {
                model: {
                    accelerator: None if point is None else self.quantity.of(point)
                    for accelerator, point in zip(self.peaks.accelerators, points, strict=True)
                }
                for model, points in self.peaks.rows
            },
        }

    def tables(self, foreign: Callable[[str], str] = str) -> Iterator[Table]:
        """It as tables, what is most general first; ``foreign`` makes a text of a file harmless."""
        names = tuple(map(foreign, self.names))
        yield Table(
            "What was compared",
            ("", *names),
            tuple((name, *_compared(values, foreign)) for name, values in self.facts),
        )
        yield Table(
            "The best of each run, among the loads with figures in all of them",
            ("METRIC", *_with_factors(names)),
            tuple(_best_row(best) for best in self.bests),
        )
        if self.peaks is not None:
            yield Table(
                f"{self.quantity.title}: the best of each model on each accelerator",
                ("MODEL", *_with_factors(tuple(map(foreign, self.peaks.accelerators)))),
                tuple(
                    (foreign(model), *_figures_and_factors(self.quantity, points))
                    for model, points in self.peaks.rows
                ),
            )
        for (shared, context, output), rows in groupby(self.points, _series):
            same = f", the first {shared:,} of them shared" if shared else ""
            yield Table(
                f"{self.quantity.title}: context {context:,}{same}, {output:,} tokens generated",
                ("CONCURRENCY", *_with_factors(names)),
                tuple(self._point_row(row) for row in rows),
            )

    def _point_row(self, row: tuple[Point, ...]) -> tuple[str, ...]:
        return (f"{row[0].load.concurrency:,}", *_figures_and_factors(self.quantity, row))


def compare(
    benchmarks: Sequence[Benchmark], quantity: Quantity, context: int | None = None
) -> Comparison:
    """Compare ``benchmarks`` with the first of them.

    Args:
        benchmarks: two or more.
        quantity: what is compared point by point.
        context: compare only points with prompts of so many tokens.

    Raises:
        UsageError: there is one benchmark only.
        TpuflexError: there is no load that all of them have.
    """
    if len(benchmarks) < 2:
        raise UsageError("Name two files or more: one run has nothing to be compared with.")
    rows, left_out = _in_common(benchmarks, context)
    if not rows:
        raise _nothing_in_common(benchmarks, context)
    return Comparison(
        names=_names(benchmarks),
        facts=tuple(_facts(benchmarks)),
        quantity=quantity,
        points=rows,
        left_out=left_out,
        bests=tuple(_bests(rows)),
        peaks=_peaks(benchmarks, quantity, context),
    )


def _in_common(
    benchmarks: Sequence[Benchmark], context: int | None
) -> tuple[tuple[tuple[Point, ...], ...], int]:
    """The points at the loads that all of ``benchmarks`` have, a row for each load, and how many
    loads only some of them have."""
    by_key = [
        {point.load.key: point for point in each.points if context in (None, point.load.context)}
        for each in benchmarks
    ]
    common = set.intersection(*(set(points) for points in by_key))
    rows = tuple(tuple(points[key] for points in by_key) for key in sorted(common))
    return rows, len(set().union(*by_key)) - len(common)


def factors(values: Sequence[float | None]) -> list[float | None]:
    """Each value but the first, divided by the first."""
    first, *others = values
    return [each / first if each is not None and first else None for each in others]


def factor_text(factor: float | None) -> str:
    """A factor as tables show it."""
    if factor is None:
        return _NONE
    if factor >= 100:
        return f"{factor:,.0f}x"
    return f"{factor:.2f}x{' ~' if _UNSURE[0] <= factor <= _UNSURE[1] else ''}"


def _nothing_in_common(benchmarks: Sequence[Benchmark], context: int | None) -> TpuflexError:
    def loads(benchmark: Benchmark) -> str:
        found = [
            f"{load.concurrency}x{load.context} (generates {load.output})"
            for load in (point.load for point in benchmark.points)
            if context in (None, load.context)
        ]
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        return f"{benchmark.run.name} has {', '.join(found[:3]) or 'none'}{more}"

    return TpuflexError(
        f"The runs have no point in common: {'; '.join(map(loads, benchmarks))}.",
        hint="A point is concurrency x context with the tokens that are generated, and all three"
        " have to be the same: `bench run` has --points and --output for them.",
    )


def _names(benchmarks: Sequence[Benchmark]) -> tuple[str, ...]:
    """The runs' names; numbered where two have the same."""
    names = [each.run.name[:_LONGEST_NAME] or "run" for each in benchmarks]
    if len(set(names)) == len(names):
        return tuple(names)
    return tuple(f"{name} ({number})" for number, name in enumerate(names, 1))


def _facts(benchmarks: Sequence[Benchmark]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the runs were measured on, as far as it differs or always matters."""
    found = [
        {
            **dict(facts_of(each.run)),
            "model": each.run.server.model,
            "price": price_text(each.run, source=False),
            "load from": _load_from(each.run),
            "load options": options,
        }
        for each, options in zip(benchmarks, _own_options(benchmarks), strict=True)
    ]
    for name in found[0]:
        values = tuple(facts[name] for facts in found)
        if name in _ALWAYS or (name not in _OF_ONE_RUN and len(set(values)) > 1):
            yield name, values
    results = [sum(point.verdict == "result" for point in each.points) for each in benchmarks]
    yield (
        _RESULTS,
        tuple(
            f"{count} of {max(len(each.run.loads), len(each.points))} points"
            for count, each in zip(results, benchmarks, strict=True)
        ),
    )


def _load_from(run: Run) -> str:
    """Where the load generator was, seen from the server; empty if that is not known."""
    host = urlsplit(dict(_options(run)).get("--base-url", "")).hostname
    if host is None:
        return ""
    return "beside the server" if host in _LOOPBACK else f"elsewhere, to {host}"


def _own_options(benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """Options of each run's load generator that not all runs have."""
    found = [
        tuple(option for option in _options(each.run) if option[0] not in _ADDRESSES)
        for each in benchmarks
    ]
    known = [set(options) for options in found if options]
    common = set.intersection(*known) if known else set()
    for options in found:
        yield " ".join(
            f"{name} {value}".strip() for name, value in options if (name, value) not in common
        )


def _options(run: Run) -> Iterator[tuple[str, str]]:
    """The options of the load generator's command, each with its value."""
    for word, after in zip_longest(run.command, run.command[1:], fillvalue="--"):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            yield name, value or ("" if after.startswith("--") else after)


def _compared(values: Sequence[str], foreign: Callable[[str], str]) -> Iterator[str]:
    """The value of each run; once where it is the same in all."""
    same = len(set(values)) == 1
    for number, value in enumerate(values):
        yield "same" if same and number else foreign(value) if value else _NONE


def _series(row: tuple[Point, ...]) -> tuple[int, int, int]:
    load = row[0].load
    return load.shared, load.context, load.output


def _bests(rows: Sequence[tuple[Point, ...]]) -> Iterator[Best]:
    for quantity in COMPARED:
        bests = _best_points(quantity, rows, len(rows[0]))
        if any(bests):
            yield Best(quantity, bests)


def _comparable(rows: Sequence[tuple[Point, ...]]) -> Sequence[tuple[Point, ...]]:
    """The rows in which no point has a mark; where there is none, those with figures."""
    whole = [row for row in rows if all(point.verdict in FIGURES for point in row)]
    return [row for row in whole if all(kind_of(point) == "result" for point in row)] or whole


def _best_json(quantity: Quantity, point: Point | None) -> dict[str, object] | None:
    if point is None:
        return None
    return {
        "value": quantity.of(point),
        "verdict": point.verdict,
        "flagged": bool(point.flags),
        "concurrency": point.load.concurrency,
        "context": point.load.context,
    }


def _best_row(best: Best) -> tuple[str, ...]:
    texts = [
        _NONE
        if point is None
        else f"{_text(best.quantity, point)} at {point.load.concurrency}x{point.load.context}"
        for point in best.points
    ]
    return (best.quantity.title, *_interleaved(texts, _values(best.quantity, best.points)))


def _peaks(
    benchmarks: Sequence[Benchmark], quantity: Quantity, context: int | None
) -> Peaks | None:
    """Models on accelerators; None unless there are two accelerators, with one run for each."""
    found: dict[tuple[str, tuple[int, str]], Benchmark] = {}
    for each in benchmarks:
        server = each.run.server
        if not server.accelerator:
            return None
        if found.setdefault((server.model, (server.chips, server.accelerator)), each) is not each:
            return None
    accelerators = sorted({accelerator for _, accelerator in found})
    if len(accelerators) < 2:
        return None
    models = dict.fromkeys(model for model, _ in found)
    rows = []
    for model in models:
        runs = [found.get((model, accelerator)) for accelerator in accelerators]
        rows.append((model, _peaks_of_model(runs, quantity, context)))
    return Peaks(tuple(name for _, name in accelerators), tuple(rows))


def _peaks_of_model(
    runs: Sequence[Benchmark | None], quantity: Quantity, context: int | None
) -> tuple[Point | None, ...]:
    measured = [run for run in runs if run is not None]
    bests = iter(_best_points(quantity, _in_common(measured, context)[0], len(measured)))
    return tuple(None if run is None else next(bests) for run in runs)


def _best_points(
    quantity: Quantity, rows: Sequence[tuple[Point, ...]], runs: int
) -> tuple[Point | None, ...]:
    """The best point of each run."""
    whole = _comparable(rows)
    return tuple(quantity.best([row[run] for row in whole]) for run in range(runs))


def _value(quantity: Quantity, point: Point) -> float | None:
    return quantity.of(point) if point.verdict in FIGURES else None


def _text(quantity: Quantity, point: Point) -> str:
    kind, value = kind_of(point), _value(quantity, point)
    if kind in WORDS:
        return WORDS[kind]
    return "not known" if value is None else f"{quantity.text(value)}{MARKS.get(kind, '')}"


def _with_factors(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        yield name
        if number:
            yield "FACTOR"


def _figures_and_factors(quantity: Quantity, points: Sequence[Point | None]) -> Iterator[str]:
    texts = [_NONE if point is None else _text(quantity, point) for point in points]
    return _interleaved(texts, _values(quantity, points))


def _values(quantity: Quantity, points: Sequence[Point | None]) -> list[float | None]:
    return [None if point is None else _value(quantity, point) for point in points]


def _interleaved(texts: Sequence[str], values: Sequence[float | None]) -> Iterator[str]:
    """Texts, each but the first followed by the factor of its value."""
    yield texts[0]
    for text, factor in zip(texts[1:], factors(values), strict=True):
        yield text
        yield factor_text(factor)
