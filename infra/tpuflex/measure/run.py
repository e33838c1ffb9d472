"""A benchmark as documents: the run, and its points.

A run is kept in a file of JSON Lines: the first line is the :class:`Run`, every other one is a
:class:`Point`. Reports, comparisons and exports read nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pulumi_plugin.printable import printable
from tpuflex.both_ends import both_ends

# Files come from others, too: what they hold is bounded, so that it can be computed with and shown.
Count = Annotated[int, Field(ge=0, le=10**15)]
Seconds = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
Usd = Annotated[Decimal, Field(ge=0, le=10**15, max_digits=100)]
#: Letters of a text that are kept.
_LONGEST_TEXT = 2000


def _line(text: str) -> str:
    return both_ends(printable(text), _LONGEST_TEXT)


#: A text of one line, in which nothing acts on a terminal.
Line = Annotated[str, AfterValidator(_line)]

#: ``result``: it agrees with itself. ``not_a_result``: it was measured, and contradicts itself.
#: ``not_feasible``: the server cannot hold it at once, so it was not tried. ``not_verified``:
#: another tool measured it, whose file does not say what would have to agree.
Verdict = Literal["result", "not_a_result", "not_feasible", "not_verified"]
#: Verdicts of points whose figures are shown.
FIGURES: frozenset[Verdict] = frozenset({"result", "not_verified"})


class Document(BaseModel):
    """A part of the file. What a later version adds is kept out of it, not refused."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Load(Document):
    """What the server is asked for at a point.

    Attributes:
        concurrency: requests that are kept in flight.
        context: tokens of a prompt.
        output: tokens that are generated for each; the server is asked to go on after an end.
        requests: requests of the whole point.
        shared: tokens at the beginning of every prompt that all of the point's requests share; 0:
            no prompt begins as another does.
        seed: of the prompts; no two points of a run have the same.
    """

    concurrency: Annotated[int, Field(ge=1, le=1_000_000)]
    context: Annotated[int, Field(ge=1, le=100_000_000)]
    output: Annotated[int, Field(ge=1, le=100_000_000)]
    requests: Annotated[int, Field(ge=1, le=100_000_000)]
    shared: Count = 0
    seed: Count = 0

    @property
    def key(self) -> tuple[int, int, int, int]:
        """What tells a point from the others of its run."""
        return self.shared, self.context, self.concurrency, self.output


class Quantiles(Document):
    """Of seconds that were measured one by one.

    Attributes:
        mean: their mean.
        p50, p90, p95, p99: their quantiles, by the nearest rank.
        max: the longest.
    """

    mean: Seconds
    p50: Seconds
    p90: Seconds
    p95: Seconds
    p99: Seconds
    max: Seconds

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles | None:
        """The quantiles of ``seconds``; None if there are none."""
        if not seconds:
            return None
        ranked = sorted(seconds)

        def nearest(share: int) -> float:
            return ranked[-(-share * len(ranked) // 100) - 1]

        return cls(
            mean=sum(ranked) / len(ranked),
            p50=nearest(50),
            p90=nearest(90),
            p95=nearest(95),
            p99=nearest(99),
            max=ranked[-1],
        )


class Requests(Document):
    """Each request of a point, as columns.

    Attributes:
        start: seconds since the first one was sent.
        ttft: seconds to its first token.
        latency: seconds to its last token.
        prompt_tokens: tokens of its prompt.
        output_tokens: tokens of its answer.
        error: why it failed; empty if it did not.
    """

    start: tuple[Seconds, ...] = ()
    ttft: tuple[Seconds, ...] = ()
    latency: tuple[Seconds, ...] = ()
    prompt_tokens: tuple[Count, ...] = ()
    output_tokens: tuple[Count, ...] = ()
    error: tuple[str, ...] = ()


class Counted(Document):
    """What the server has counted between the beginning and the end of a point.

    Attributes:
        prompt_tokens: tokens of prompts.
        cached_tokens: those of them that it had in its prefix cache, and did not compute.
        output_tokens: tokens that it has generated.
        preemptions: requests that it has put back to make room.
    """

    prompt_tokens: Count
    cached_tokens: Count
    output_tokens: Count
    preemptions: Count = 0


class Measured(Document):
    """What a point has measured.

    Attributes:
        seconds: from the first request to the end of the last one.
        completed: requests that were answered in full.
        failures: kind of failure -> requests that failed so.
        requests_per_second: answered requests.
        output_per_second: tokens of answers.
        prompt_per_second: tokens of prompts that were computed, not read from the prefix cache.
        ttft: seconds to the first token.
        tpot: a request's seconds between its first token and its last one, divided by how many
            follow the first; however many tokens a chunk of its stream has.
        inter_token: seconds between two tokens of a request; None where chunks of the stream are
            not single tokens.
        latency: seconds to the last token.
        little: throughput x latency as a share of the concurrency, in the steady part of the point;
            None where that has no request.
        counted: the server's own figures; None where it gives none.
        generator_lag: longest time in seconds that the load generator stood still meanwhile.
        generator_busy: processor seconds of the load generator per second.
        requests: each request.
    """

    seconds: Seconds
    completed: Count
    failures: dict[Line, Count] = Field(default_factory=dict)
    requests_per_second: Rate
    output_per_second: Rate
    prompt_per_second: Rate
    ttft: Quantiles | None = None
    tpot: Quantiles | None = None
    inter_token: Quantiles | None = None
    latency: Quantiles | None = None
    little: Share | None = None
    counted: Counted | None = None
    generator_lag: Seconds | None = None
    generator_busy: Share | None = None
    requests: Requests = Requests()


class Ceilings(Document):
    """What the chips allow at most at a point; None where it is not known.

    Attributes:
        prompt_per_second: tokens of prompts, by arithmetic.
        output_per_second: tokens of answers, by bandwidth or arithmetic, whichever is lower.
        first_token: least seconds to the first token of a request alone.
    """

    prompt_per_second: Rate | None = None
    output_per_second: Rate | None = None
    first_token: Seconds | None = None


class Point(Document):
    """One point of a run.

    Attributes:
        load: what was asked.
        verdict: whether it is a result.
        reasons: why it is none, or why that is not known.
        flags: what else a reader should know of its figures, each in a sentence.
        doubtful: whether a flag says that a figure is not credible: it decides no gate.
        measured: the figures; None of a point that was not tried.
        ceilings: what the chips allow.
        usd_per_million: dollars for a million generated tokens at this rate; None where the price
            is not known.
        at: when its measurement began.
    """

    load: Load
    verdict: Verdict
    reasons: tuple[Line, ...] = ()
    flags: tuple[Line, ...] = ()
    doubtful: bool = False
    measured: Measured | None = None
    ceilings: Ceilings = Ceilings()
    usd_per_million: Usd | None = None
    at: datetime | None = None


class Server(Document):
    """What a run was measured on.

    Attributes:
        model: name of the served model.
        catalog_model: its name in the catalog; empty if it is not there.
        vllm: version of the server.
        image: serving image, pinned by digest; empty where it is not known.
        accelerator: accelerator type; empty where it is not known.
        chips: how many there are.
        zone: the zone.
        kv_tokens: tokens that the KV cache holds; None where the server does not say.
        block_size: tokens of a block of it.
        max_model_len: tokens of the longest sequence.
        max_num_seqs: sequences that are computed at once.
        args: the server's other arguments.
        usd_per_hour: price of the slice; None where it is not known.
        price_source: where the price comes from.
    """

    model: Line
    catalog_model: Line = ""
    vllm: Line = ""
    image: Line = ""
    accelerator: Line = ""
    chips: Count = 0
    zone: Line = ""
    kv_tokens: Count | None = None
    block_size: Count | None = None
    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    args: tuple[Line, ...] = ()
    usd_per_hour: Usd | None = None
    price_source: Line = ""


class Run(Document):
    """One benchmark.

    Attributes:
        format: version of these documents.
        id: tells it from other runs.
        name: what reports call it.
        started: when it began; None where it is not known.
        stack: the stack; empty for an endpoint by its URL.
        stack_hash: SHA-256 of the stack's settings; a run goes on with the same ones only.
        server: what it was measured on.
        generator: the load generator with its version.
        command: its command line at a point, with the point's own values left out.
        tpuflex: version of tpuflex.
        loads: the points, in the order in which they are measured.
    """

    format: Literal[1] = 1
    id: Line
    name: Line
    started: datetime | None = None
    stack: Line = ""
    stack_hash: Line = ""
    server: Server
    generator: Line = ""
    command: tuple[Line, ...] = ()
    tpuflex: Line = ""
    loads: tuple[Load, ...] = ()
