"""Benchmarks read from files: those of `bench run`, and those of other tools, told apart by what is
in them.

A directory stands for one run, too: of other tools' files each has one point.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isclose
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.files.trusted import open_regular
from tpuflex.measure.benchmark_report import VERSIONS, point_of_report
from tpuflex.measure.judgement import LITTLE_LIMIT, in_flight, per_token
from tpuflex.measure.run import Load, Measured, Point, Quantiles, Run, Server, Verdict
from tpuflex.measure.run_file import read_run
from tpuflex.measure.vllm_result import VllmResult
from tpuflex.settings.stack_yaml import RefusedYamlError, read_yaml

T = TypeVar("T")

_READ = (
    "What can be read: a file of `bench run` or `bench ramp`, the JSON of"
    " `vllm bench serve --save-result --save-detailed`, and llm-d's Benchmark Report 0.2;"
    " a directory of the last two is one run."
)
_SUFFIXES = (".json", ".yaml", ".yml")
#: Bytes of another tool's file, which has one point.
_LARGEST = 256 * 1024 * 1024
#: By how much a figure may differ from that of its requests, whose times are rounded.
_ROUNDING = 1e-3
_UNSEEN = (
    "the file does not say what the server has counted, nor what the load generator's processor"
    " did: prompts may have been cached, and the generator may have measured itself"
)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A run with its points.

    Attributes:
        run: the run.
        points: those that were measured or ruled out.
    """

    run: Run
    points: tuple[Point, ...]


def read_benchmark(path: Path) -> Benchmark:
    """The benchmark in the file or directory ``path``.

    Raises:
        NotFoundError: there is no such file, or none in the directory.
        TpuflexError: it is not one that can be read.
    """
    if path.is_dir():
        files = files_of(path)
        if not files:
            raise NotFoundError(f"{path} has no file that could be a benchmark.", hint=_READ)
        return _joined(path, [(each, _read(each)) for each in files])
    if not path.exists():
        raise NotFoundError(f"There is no file {path}.", hint=_READ)
    return _read(path)


def files_of(path: Path) -> list[Path]:
    """The files that a benchmark at ``path`` is read from."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)


def _read(path: Path) -> Benchmark:
    if _is_run(path):
        recorded = read_run(path)
        return Benchmark(recorded.run, tuple(map(_believed, recorded.points)))
    document = _document(path)
    try:
        if {"request_throughput", "total_output_tokens"} <= document.keys():
            return _of_vllm(VllmResult.model_validate(document), path)
        if document.get("version") in VERSIONS and "results" in document:
            run, point = point_of_report(document, path.name, _UNSEEN)
            return Benchmark(run, (point,))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise TpuflexError(f"{path} cannot be used: {where}: {first['msg']}.") from error
    except (ValueError, OverflowError) as error:
        raise TpuflexError(f"{path} cannot be used: {error}.") from error
    raise TpuflexError(f"{path} is not a benchmark that can be read.", hint=_READ)


def _believed(point: Point) -> Point:
    """``point``; no result if it contradicts itself."""
    if point.measured is None:
        return point
    wrong = "; ".join(_contradictions(point, point.measured))
    if not wrong:
        return point
    reason = f"the file contradicts itself: {wrong}"
    return point.model_copy(update={"verdict": "not_a_result", "reasons": (reason, *point.reasons)})


def _contradictions(point: Point, measured: Measured) -> Iterator[str]:
    """Where figures of ``point`` are not those that its requests give."""
    if measured.failures and point.verdict == "result":
        yield "it is a result, and requests failed"
    requests = measured.requests
    if not requests.start:
        return
    kinds = Counter(filter(None, requests.error))
    answered = [index for index, error in enumerate(requests.error) if not error]

    def of(column: tuple[T, ...]) -> list[T]:
        return [column[index] for index in answered if index < len(column)]

    if kinds != Counter(measured.failures):
        yield f"it has {_failed(measured.failures)}, and its requests have {_failed(kinds)}"
    ttft, latency = Quantiles.of(of(requests.ttft)), Quantiles.of(of(requests.latency))
    seconds = max(measured.seconds, 1e-9)
    figures: list[tuple[str, float | None, float | None]] = [
        ("completed", measured.completed, len(answered)),
        ("requests/s", measured.requests_per_second, len(answered) / seconds),
        ("output tokens/s", measured.output_per_second, sum(of(requests.output_tokens)) / seconds),
        ("little", measured.little, in_flight(point.load, requests.start, requests.latency)),
    ]
    for title, said, found in (
        ("time to first token", measured.ttft, ttft),
        ("latency", measured.latency, latency),
    ):
        for name in Quantiles.model_fields:
            figures.append(
                (f"{title} {name}", getattr(said, name, None), getattr(found, name, None))
            )
    for title, value, computed in figures:
        if not _same(value, computed):
            yield f"{title} is {_shown(value)}, and its requests give {_shown(computed)}"


def _same(one: float | None, other: float | None) -> bool:
    """Whether two figures differ by no more than columns are rounded."""
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=_ROUNDING, abs_tol=1e-5)


def _shown(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4g}"


def _failed(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items())) or "no failures"


def _is_run(path: Path) -> bool:
    """Whether the first line is that of a file of `bench run`."""
    try:
        with open_regular(path) as file:
            first = json.loads(file.readline(_LARGEST))
    except OSError as error:
        raise TpuflexError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"format", "server"} <= first.keys()


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with open_regular(path) as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise TpuflexError(f"{path} is larger than 256 MiB.", hint=_READ)
        text = content.decode()
        document = json.loads(text) if text.lstrip()[:1] == "{" else read_yaml(text).value
    except RefusedYamlError as error:
        raise TpuflexError(f"{path} {error.problem}.", hint=error.remedy) from error
    except OSError as error:
        raise TpuflexError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise TpuflexError(f"{path} is not a benchmark that can be read.", hint=_READ) from error
    return document if isinstance(document, dict) else {}


def _joined(path: Path, found: list[tuple[Path, Benchmark]]) -> Benchmark:
    """One run of the points of all files.

    Raises:
        TpuflexError: they are of different servers or tools, or two have the same point.
    """
    first_file, first = found[0]
    points: dict[tuple[int, int, int, int], tuple[Path, Point]] = {}
    for file, each in found:
        for what in ("server", "generator"):
            if getattr(each.run, what) != getattr(first.run, what):
                raise TpuflexError(
                    f"{path} is no one run: {first_file.name} and {file.name} do not name the same"
                    f" {what}.",
                    hint="Give the files themselves, or a directory for each run.",
                )
        for point in each.points:
            other, _ = points.setdefault(point.load.key, (file, point))
            if other != file:
                raise TpuflexError(
                    f"{path} is no one run: {other.name} and {file.name} have the same load.",
                    hint="Give the files themselves, or a directory for each run.",
                )
    measured = tuple(point for _, point in points.values())
    loads = tuple(each.load for each in measured)
    run = Run(**{**dict(first.run), "name": path.resolve().name, "loads": loads})
    return Benchmark(run, measured)


# -- vllm bench serve --------------------------------------------------------------------------


def _of_vllm(result: VllmResult, path: Path) -> Benchmark:
    """The one point of ``result``.

    Raises:
        ValueError: it has no concurrency, or no request.
    """
    requests = result.num_prompts or result.completed + result.failed
    if result.max_concurrency is None:
        raise ValueError("it has no max_concurrency: it was measured at a rate of requests")
    if not result.completed or not result.total_input_tokens or not result.total_output_tokens:
        raise ValueError("no request was answered")
    load = Load(
        concurrency=result.max_concurrency,
        context=max(1, round(result.total_input_tokens / result.completed)),
        output=max(1, round(result.total_output_tokens / result.completed)),
        requests=requests,
    )
    answered = [index for index, error in enumerate(result.errors) if not error]

    def of(column: tuple[T, ...]) -> list[T]:
        return [column[index] for index in answered if index < len(column)]

    detailed = len(result.start_times) == len(result.latencies)
    little = in_flight(load, result.start_times, result.latencies) if detailed else None
    point = Point(
        load=load,
        verdict="not_verified",
        measured=Measured(
            seconds=result.duration,
            completed=result.completed,
            failures={"failed": result.failed} if result.failed else {},
            requests_per_second=result.request_throughput,
            output_per_second=result.output_throughput,
            prompt_per_second=result.total_input_tokens / max(result.duration, 1e-9),
            ttft=Quantiles.of(of(result.ttfts)),
            tpot=Quantiles.of(
                per_token(of(result.ttfts), of(result.latencies), of(result.output_lens))
            ),
            inter_token=Quantiles.of([gap for each in of(result.itls) for gap in each]),
            latency=Quantiles.of(of(result.latencies)),
            little=little,
        ),
    )
    verdict, reasons = _worth(result, little, load)
    run = Run(
        id=path.name,
        name=path.stem,
        started=_date(result.date),
        server=Server(model=result.model_id or "not known"),
        generator="vllm bench serve",
        loads=(load,),
    )
    return Benchmark(run, (point.model_copy(update={"verdict": verdict, "reasons": reasons}),))


def _worth(result: VllmResult, little: float | None, load: Load) -> tuple[Verdict, tuple[str, ...]]:
    reasons = []
    if result.failed:
        reasons.append(f"{result.failed:,} of {load.requests:,} requests failed")
    if little is not None and abs(little - 1) > LITTLE_LIMIT:
        reasons.append(
            f"throughput x latency is {little * load.concurrency:.3g} requests in flight, and"
            f" {load.concurrency:,} were asked for"
        )
    if reasons:
        return "not_a_result", tuple(reasons)
    reasons = [_UNSEEN]
    answers = {tokens for tokens in result.output_lens if tokens}
    if len(answers) > 1:
        reasons.append(
            f"answers have {min(answers):,} to {max(answers):,} tokens: whether they ended so or"
            " were cut short, the file does not say"
        )
    if not result.ttfts:
        reasons.append("it was saved without --save-detailed: it has no latencies")
    return "not_verified", tuple(reasons)


def _date(text: str) -> datetime | None:
    """When it was written, as the generator says: ``20261128-120000``, in no time zone."""
    try:
        return datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
