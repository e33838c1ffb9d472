"""A benchmark from its first point to its last: asked for, driven, judged, kept.

No load is made here: that does a :class:`~tpuflex.measure.load.Generator`.
"""

from __future__ import annotations

import math
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex import __version__
from tpuflex.advice import Advice
from tpuflex.duration import format_roughly
from tpuflex.errors import (
    ApiError,
    ImplausibleError,
    InterruptedByUser,
    ServerDownError,
    TpuflexError,
    UsageError,
)
from tpuflex.measure.grid import Grid, seeded, why_not_feasible
from tpuflex.measure.judgement import NOT_CONNECTED, Evidence, judged
from tpuflex.measure.load import Drive, Generator, here, on_host
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.measure.run import Load, Point, Run
from tpuflex.measure.run_file import RunFile, create, differences, resume
from tpuflex.measure.subject import Subject, subject_at, subject_of
from tpuflex.operate.endpoint_connection import serving_slice
from tpuflex.stack.progress import Consent, Report, require_consent, silent, working

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: What is asked for first, and is not recorded: the first requests of a connection, and of a
#: server that has done nothing for a while, take longer.
_WARMUP_CONCURRENCY, _WARMUP_REQUESTS, _WARMUP_OUTPUT = 4, 8, 8
#: The commands that measure.
BENCH_RUN, BENCH_RAMP = Advice("{bench_run}"), Advice("{bench_ramp}")
#: Says of a point whether no more of them are wanted.
Enough = Callable[[Point], bool]


def never(_: Point) -> bool:
    """That all points are wanted."""
    return False


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be measured, and where it is kept.

    Attributes:
        path: the file of the run.
        grid: its points; None to measure what the file lacks.
        name: what reports call it; empty for the file's name.
        seed: of the prompts; by default another one each time, since a server remembers prompts.
        options: what has to be typed, beside the stack, to go on with it.
        command: by which command.
    """

    path: Path
    grid: Grid | None
    name: str = ""
    seed: int | None = None
    options: str = ""
    command: Advice = BENCH_RUN

    @property
    def goes_on(self) -> Advice:
        """The command that goes on with the run."""
        options = f"{self.options} " if self.options else ""
        return Advice(
            "{command} {options}--resume {path}",
            command=self.command,
            options=options,
            path=self.path,
        )


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A run with all its points.

    Attributes:
        path: its file.
        run: the run.
        points: its points, by series, context and concurrency.
    """

    path: Path
    run: Run
    points: tuple[Point, ...]

    def count(self, verdict: str) -> int:
        """How many points have ``verdict``."""
        return sum(point.verdict == verdict for point in self.points)

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex bench run --json``: all but the single requests, which are in
        the file."""
        kept = {"measured": {"requests"}}
        return {
            "file": str(self.path),
            "run": self.run.model_dump(mode="json"),
            "points": [point.model_dump(mode="json", exclude=kept) for point in self.points],
        }

    def require_results(self) -> None:
        """Raise unless every point that was tried is a result.

        Raises:
            ImplausibleError: one of them is none.
        """
        wrong = self.count("not_a_result")
        if wrong:
            tried = wrong + self.count("result")
            raise ImplausibleError(
                f"{wrong:,} of {tried:,} points are not results: their figures contradict"
                " themselves.",
                hint="Each says why. Measure them again in a file of their own, with --points.",
            )


def bench(
    cloud: Connection,
    order: Order,
    report: Report = silent,
    *,
    consent: Consent,
    enough: Enough = never,
) -> Benchmark:
    """Measure the endpoint of the stack of ``cloud``, with a load generator beside its server.

    Args:
        cloud: the stack's cloud.
        order: what, and where it is kept.
        report: receives a line for each point, and how long the rest takes.
        consent: is asked before the load begins.
        enough: says whether a point is the last one that is wanted; the others stay missing.

    Raises:
        NotFoundError: there is no endpoint.
        InterruptedByUser: no consent; or Ctrl-C, after which the file has all points that were
            measured to their end.
        TpuflexError: the file cannot be used, or the load generator failed.
    """
    status = serving_slice(cloud)
    subject = subject_of(cloud, status)
    return measure(subject, lambda: on_host(cloud, status, report), order, report, consent, enough)


def bench_here(
    url: str,
    order: Order,
    report: Report = silent,
    *,
    consent: Consent,
    model: str = "",
    tokenizer: str = "",
    key: str = "",
    ca: Path | None = None,
    enough: Enough = never,
) -> Benchmark:
    """Measure the server at ``url`` with a load generator on this machine.

    Args:
        url: base URL of an OpenAI server, with or without ``/v1``.
        order: what, and where it is kept.
        report: as for :func:`bench`.
        consent: as for :func:`bench`.
        model: name of the served model; by default the only one that it serves.
        tokenizer: directory or name in the Hub of its tokenizer; by default ``model``, or the
            server's own name of it where the catalog has that.
        key: the API key; empty for none.
        ca: certificates that are trusted.
        enough: as for :func:`bench`.

    Raises:
        AccessError, ApiError: the server refuses the key, or does not answer.
        UsageError: nobody but the server says which tokenizer to load.
        InterruptedByUser, TpuflexError: as :func:`bench`.
    """
    subject = subject_at(url, model=model, key=key, ca=ca)
    loaded = tokenizer or model or subject.server.catalog_model
    if not loaded:
        raise UsageError(
            f"The server calls its model {subject.server.model}, which the catalog does not have:"
            " say where its tokenizer is.",
            option="--tokenizer",
        )

    def generator() -> AbstractContextManager[Generator]:
        return here(url, subject.server.model, key=key, tokenizer=loaded, ca=ca, report=report)

    return measure(subject, generator, order, report, consent, enough)


def measure(
    subject: Subject,
    generator: Callable[[], AbstractContextManager[Generator]],
    order: Order,
    report: Report,
    consent: Consent,
    enough: Enough = never,
) -> Benchmark:
    """Measure ``subject`` with the load of ``generator``, which is started once there is consent;
    as :func:`bench`."""
    seed = secrets.randbits(32) if order.seed is None else order.seed
    with ExitStack() as opened:
        file: RunFile | None = None
        if order.grid is None:
            file = opened.enter_context(resume(order.path))
            # Prompts of a point that was killed may be in the server's cache.
            loads = tuple(seeded(load, seed) for load in file.missing)
        else:
            loads = order.grid.loads(seed)
            _require_blocks(order.grid, subject)
            _require_new(order)
        if file is not None and any(map(enough, file.points)):
            return _benchmark(file)
        if file is not None and not loads:
            report(f"{order.path} has all its points.")
            return _benchmark(file)
        feasible = [load for load in loads if not why_not_feasible(load, subject.server)]
        if feasible:
            report(_announcement(subject, loads, feasible))
            require_consent(consent, f"Put this load on {subject.server.model}?")
        with ExitStack() as running:
            try:
                load_generator = running.enter_context(generator()) if feasible else None
                file = _opened(opened, file, order, _run(subject, order, load_generator, loads))
                for load in loads:
                    if why := why_not_feasible(load, subject.server):
                        file.append(_not_feasible(subject, load, why))
                if load_generator is not None:
                    _Points(subject, load_generator, file, report).measure(feasible, enough)
            except KeyboardInterrupt:
                raise _stopped(order, file) from None
            except TpuflexError as error:
                if file is not None and file.points:
                    report(_kept(order, file))
                    goes_on = Advice("To go on: {again}", again=order.goes_on)
                    error.hint = Advice.lines(error.hint, goes_on)
                raise
        return _benchmark(file)


def _require_new(order: Order) -> None:
    if order.path.exists():
        raise TpuflexError(
            f"{order.path} is there already.",
            hint=Advice("Name another file, or go on with it: {again}", again=order.goes_on),
        )


def _require_blocks(grid: Grid, subject: Subject) -> None:
    """Refuse prompts that share too little for the server to have it in its cache."""
    block = subject.server.block_size
    if block is not None and 0 < grid.shared < block:
        raise UsageError(
            f"{grid.shared:,} tokens are less than a block of the KV cache, which has {block:,}:"
            " the server would find nothing of them in its prefix cache.",
            option="--shared",
        )


def _opened(opened: ExitStack, file: RunFile | None, order: Order, run: Run) -> RunFile:
    """The file of ``run``, made now, or found to be of the same run.

    Raises:
        TpuflexError: it is of another one.
    """
    if file is None:
        return opened.enter_context(create(order.path, run))
    if different := differences(file.run, run):
        raise TpuflexError(
            f"{order.path} has points of another server or command:\n  " + "\n  ".join(different),
            hint="Points that are compared have to be measured alike: begin a new file.",
        )
    return file


def _run(
    subject: Subject, order: Order, generator: Generator | None, loads: tuple[Load, ...]
) -> Run:
    return Run(
        id=uuid.uuid4().hex,
        name=order.name or order.path.stem,
        started=datetime.now(UTC),
        stack=subject.stack,
        stack_hash=subject.stack_hash,
        server=subject.server,
        generator="" if generator is None else f"vllm bench serve {generator.version}",
        command=() if generator is None else generator.command,
        tpuflex=__version__,
        loads=loads,
    )


def _announcement(subject: Subject, loads: Sequence[Load], feasible: Sequence[Load]) -> str:
    server = subject.server
    count = "1 point" if len(feasible) == 1 else f"{len(feasible):,} points"
    if len(feasible) < len(loads):
        count += f" of {len(loads):,}: the others are more than its KV cache or context holds"
    requests = sum(load.requests for load in feasible)
    most = max(load.concurrency for load in feasible)
    least = subject.least_seconds(feasible)
    lasting = (
        "How long it takes is shown after the first point."
        if least is None
        else f"It takes {format_roughly(timedelta(seconds=least))} at the very least, at the chips'"
        " peak; a better estimate is shown after the first point."
    )
    price = (
        ""
        if server.usd_per_hour is None
        else f" The chips cost ${server.usd_per_hour:,.2f} per hour, with or without it."
    )
    return (
        f"{count}, {requests:,} requests, up to {most:,} at a time. Whoever uses the endpoint"
        f" meanwhile waits longer, and spoils the points. {lasting}{price}"
    )


def _not_feasible(subject: Subject, load: Load, why: str) -> Point:
    return Point(
        load=load,
        verdict="not_feasible",
        reasons=(why,),
        ceilings=subject.chips.ceilings(load),
        at=datetime.now(UTC),
    )


def _kept(order: Order, file: RunFile) -> str:
    return f"{len(file.points):,} of {len(file.run.loads):,} points are in {order.path}."


def _stopped(order: Order, file: RunFile | None) -> InterruptedByUser:
    if file is None or not file.points:
        return InterruptedByUser("Stopped before the first point.")
    return InterruptedByUser(
        f"Stopped: {_kept(order, file)}", hint=Advice("To go on: {again}", again=order.goes_on)
    )


def _benchmark(file: RunFile) -> Benchmark:
    return Benchmark(
        file.path, file.run, tuple(sorted(file.points, key=lambda point: point.load.key))
    )


class _Points:
    """Measures points one after the other.

    Args:
        subject: what is measured.
        generator: what makes the load.
        file: takes the points.
        report: receives progress.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        subject: Subject,
        generator: Generator,
        file: RunFile,
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subject = subject
        self._generator = generator
        self._file = file
        self._report = report
        self._clock = clock

    def measure(self, loads: Sequence[Load], enough: Enough) -> None:
        """Measure ``loads``, up to one that is ``enough``.

        Raises:
            ApiError: the server does not answer.
            TpuflexError: the generator failed.
        """
        with working(self._report, "Warming up"):
            self._warm_up(loads)
        taken: list[tuple[Load, float]] = []
        count, before = len(self._file.run.loads), len(self._file.points)
        for index, load in enumerate(loads):
            number = f"{before + index + 1}/{count}"
            began = self._clock()
            with working(
                self._report, f"{number}  {point_text(load)}{_left(loads[index:], taken)}"
            ):
                point = self._point(load)
            seconds = self._clock() - began
            taken.append((load, seconds))
            self._file.append(point)
            left = _left(loads[index + 1 :], taken)
            outcome = _outcome(point)
            self._report(f"{number}  {point_text(load)}: {outcome} ({seconds:.0f} s{left})")
            if enough(point):
                return

    def _warm_up(self, loads: Sequence[Load]) -> None:
        smallest = min(loads, key=lambda load: (load.context, load.concurrency))
        load = smallest.model_copy(
            update={
                "concurrency": min(smallest.concurrency, _WARMUP_CONCURRENCY),
                "output": min(smallest.output, _WARMUP_OUTPUT),
                "requests": _WARMUP_REQUESTS,
                "shared": 0,
                "seed": secrets.randbits(32),
            }
        )
        self._require_answers(
            judged(load, evidence(self._generator.drive(load)), self._subject.chips)
        )

    def _point(self, load: Load) -> Point:
        began = datetime.now(UTC)
        found = evidence(self._generator.drive(load))
        point = judged(load, found, self._subject.chips, began)
        if NOT_CONNECTED in (point.measured.failures if point.measured else ()):
            self._require_answers(point)
        return point

    def _require_answers(self, point: Point) -> None:
        measured = point.measured
        if measured is None or measured.completed:
            return
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in measured.failures.items())
        error = ServerDownError if NOT_CONNECTED in measured.failures else ApiError
        raise error(
            f"The endpoint answered none of {point.load.requests:,} requests: {kinds}.",
            hint=Advice("`{status}` says whether it serves.") if self._subject.stack else "",
        )


def evidence(drive: Drive) -> Evidence:
    """What is known of ``drive``, with what the server has counted meanwhile."""
    counted, restarted, open_before = None, False, 0.0
    at = datetime.now(UTC)
    try:
        before = EngineMetrics.parse(drive.before, at)
        interval = EngineMetrics.parse(drive.after, at).since(before)
        counted, restarted = interval, interval.restarted
        open_before = (before.running or 0.0) + (before.waiting or 0.0)
    except ApiError:
        pass  # no metrics of vLLM: the judgement says so
    return Evidence(
        drive.result, counted, restarted, drive.lag, drive.busy, drive.stalled, open_before
    )


def point_text(load: Load) -> str:
    """A point in a few words."""
    shared = f", {load.shared:,} shared" if load.shared else ""
    return f"{users_text(load)} x {load.context:,} tokens{shared}"


def users_text(load: Load) -> str:
    """Its concurrency in words."""
    return "1 user" if load.concurrency == 1 else f"{load.concurrency:,} users"


def _outcome(point: Point) -> str:
    measured = point.measured
    if measured is None or point.reasons:
        return f"not a result: {'; '.join(point.reasons)}"
    ttft = "" if measured.ttft is None else f", TTFT p95 {measured.ttft.p95:.3g} s"
    return f"{measured.output_per_second:,.0f} tokens/s{ttft}"


def _left(loads: Sequence[Load], taken: Sequence[tuple[Load, float]]) -> str:
    """How long ``loads`` take, by those that were measured; empty before the first."""
    if not taken or not loads:
        return ""
    seconds = sum(expected_seconds(load, taken) for load in loads)
    return f"; {format_roughly(timedelta(seconds=seconds))} left"


def expected_seconds(load: Load, taken: Iterable[tuple[Load, float]]) -> float:
    """How long ``load`` will take, by the nearest point that was measured: a request takes as long
    as there, and longer in proportion where there are more of them, or more tokens."""

    def distance(other: Load) -> float:
        users = math.log2(load.concurrency / other.concurrency)
        return abs(users) + abs(math.log2(load.context / other.context))

    near, seconds = min(taken, key=lambda each: distance(each[0]))
    request = seconds * near.concurrency / near.requests
    users = max(1.0, load.concurrency / near.concurrency)
    tokens = max(1.0, (load.context + load.output) / (near.context + near.output))
    return request * users * tokens * load.requests / load.concurrency
