"""What others have published: times to the first token and throughputs, as they stand.

Nothing here was measured by this project, and nothing was averaged or scaled. Which of it is
believed is decided by :mod:`tpuflex.planning.throughput`, not by leaving rows out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from tpuflex.catalog.rows import Source
from tpuflex.planning.figure import source_json

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model

_31B = "google/gemma-4-31B-it"
_26B = "google/gemma-4-26B-A4B-it"
_12B = "google/gemma-4-12B-it"
_E4B = "google/gemma-4-E4B-it"
_E2B = "google/gemma-4-E2B-it"

_REPORT_31B = Source(
    where="https://dev.to/gde/gemma4-5fon (one practitioner's benchmark)", date=date(2026, 5, 8)
)
_REPORT_26B = Source(
    where="https://dev.to/xbill/gemma-4-26b-on-v6e-4-tpu-benchmarks-3cah"
    " (one practitioner's benchmark)",
    date=date(2026, 5, 7),
)
_TURBO_STABLE = Source(
    where="https://dev.to/gde/gemma-4-26b-on-v6e-4-turbo-stable-benchmark-7pn"
    " (one practitioner's benchmark)",
    date=date(2026, 5, 14),
)
_REPORT_E2B = Source(
    where="https://dev.to/gde/debugging-deployments-with-gemma-2b-tpu-v6e-4-mcp-and-antigravity-cli"
    "-539h (one practitioner's benchmark)",
    date=date(2026, 6, 30),
)

_MIXED_LENGTHS = (
    "mean over prompts from 128 to 16,384 tokens, prefix caching not ruled out; vLLM 0.20.2rc1"
)
_CACHED = "prefix caching was on, so prompts that repeat were not computed; fp8 KV cache"
_SHORT = "requests of 8 tokens of context; length of the answers not stated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the server has to do.

    Attributes:
        context: tokens of the longest sequence; the prompt is taken to be as long.
        concurrency: sequences at once.
    """

    context: int
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One published measurement.

    Attributes:
        model: Hugging Face id.
        accelerator: accelerator type.
        concurrency: requests at once; None where it is not stated.
        context: prompt tokens of a request; None where it is not stated, or where the figure is a
            mean over several lengths.
        ttft_seconds: mean time to the first token.
        prompt_tokens_per_second: throughput that the report claims for prompts.
        output_tokens_per_second: throughput that the report claims for answers.
        requests_per_second: requests served per second.
        setup: under which circumstances, as far as they are stated.
        source: the report.
    """

    model: str
    accelerator: str
    concurrency: int | None
    context: int | None = None
    ttft_seconds: float | None = None
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None
    requests_per_second: float | None = None
    setup: str
    source: Source


def _dense_31b() -> tuple[Anchor, ...]:
    rows = (
        (1, 0.546599, 14_778.3),
        (2, 0.562068, 28_121.7),
        (4, 0.595823, 51_869.1),
        (8, 0.679816, 88_055.5),
        (16, 0.872466, 133_697.0),
        (32, 1.16488, 191_631.0),
        (64, 1.55596, 261_802.0),
        (128, 2.15464, 328_909.0),
        (256, 3.55723, 352_654.0),
        (512, 7.59987, 318_854.0),
        (1024, 21.005, 240_170.0),
    )
    return tuple(
        Anchor(
            model=_31B,
            accelerator="v6e-4",
            concurrency=concurrency,
            ttft_seconds=ttft,
            prompt_tokens_per_second=rate,
            setup=_MIXED_LENGTHS,
            source=_REPORT_31B,
        )
        for concurrency, ttft, rate in rows
    )


def _moe_26b() -> tuple[Anchor, ...]:
    rows = (
        (256, 128, 1.14308, 18_554.9),
        (256, 8192, 3.15647, 419_771.0),
        (256, 16384, 5.58021, 457_101.0),
        (512, 128, 3.80498, 11_249.3),
        (512, 8192, 6.69551, 374_758.0),
        (512, 16384, 10.7299, 443_335.0),
        (1024, 128, 14.7126, 5_878.47),
        (1024, 8192, 19.6215, 267_038.0),
        (1024, 16384, 24.6752, 388_684.0),
    )
    return tuple(
        Anchor(
            model=_26B,
            accelerator="v6e-4",
            concurrency=concurrency,
            context=context,
            ttft_seconds=ttft,
            prompt_tokens_per_second=rate,
            setup=_CACHED,
            source=_REPORT_26B,
        )
        for concurrency, context, ttft, rate in rows
    )


def _requests(
    model: str, accelerator: str, rates: dict[int, float], doubt: str = ""
) -> tuple[Anchor, ...]:
    setup = f"{_SHORT}{'; ' if doubt else ''}{doubt}"
    return tuple(
        Anchor(
            model=model,
            accelerator=accelerator,
            concurrency=concurrency,
            context=8,
            requests_per_second=rate,
            setup=setup,
            source=_REPORT_E2B,
        )
        for concurrency, rate in rates.items()
    )


ANCHORS: tuple[Anchor, ...] = (
    *_dense_31b(),
    Anchor(
        model=_31B,
        accelerator="v6e-4",
        concurrency=256,
        prompt_tokens_per_second=463_345.0,
        setup="peak claimed for 256 at once, where the report's own table has 352,654; another"
        " report of the same author gives the figure to a model of 4B",
        source=_REPORT_31B,
    ),
    Anchor(
        model=_31B,
        accelerator="v6e-4",
        concurrency=1,
        context=128,
        ttft_seconds=0.314,
        setup="the shortest prompt, one request; vLLM 0.20.2rc1",
        source=_REPORT_31B,
    ),
    *_moe_26b(),
    Anchor(
        model=_26B,
        accelerator="v6e-4",
        concurrency=1024,
        prompt_tokens_per_second=467_825.0,
        setup=f"peak, flags called turbo-stable; {_CACHED}",
        source=_TURBO_STABLE,
    ),
    Anchor(
        model=_26B,
        accelerator="v6e-4",
        concurrency=None,
        prompt_tokens_per_second=483_930.0,
        setup=f"peak of an earlier run, in which 6 % of the points failed; {_CACHED}",
        source=_TURBO_STABLE,
    ),
    Anchor(
        model=_26B,
        accelerator="v6e-4",
        concurrency=256,
        context=2048,
        ttft_seconds=1.157,
        setup=f"flags called turbo-stable; {_CACHED}",
        source=_TURBO_STABLE,
    ),
    Anchor(
        model=_26B,
        accelerator="v6e-4",
        concurrency=1,
        ttft_seconds=0.302,
        setup=f"called interactive, prompt length not stated; {_CACHED}",
        source=_TURBO_STABLE,
    ),
    Anchor(
        model=_E2B,
        accelerator="v6e-4",
        concurrency=1,
        ttft_seconds=0.310,
        output_tokens_per_second=207.27,
        setup="one short question, about 493 tokens of answer; fp8 KV cache",
        source=_REPORT_E2B,
    ),
    *_requests(
        _E2B,
        "v6e-4",
        {
            1: 5.14,
            2: 8.32,
            4: 12.52,
            8: 16.49,
            16: 34.34,
            32: 58.07,
            64: 101.45,
            128: 140.37,
            256: 181.42,
            512: 222.82,
            1024: 231.19,
            2048: 173.50,
        },
    ),
    *_requests(
        _E2B,
        "v6e-1",
        {
            1: 3.81,
            2: 6.72,
            4: 11.86,
            8: 21.49,
            16: 34.92,
            32: 58.22,
            64: 64.66,
            128: 71.86,
            256: 72.39,
            512: 70.12,
            1024: 72.83,
            2048: 71.43,
        },
    ),
    *_requests(
        _E4B,
        "v6e-4",
        {
            1: 6.13,
            4: 15.56,
            16: 34.34,
            64: 101.45,
            256: 178.86,
            512: 202.80,
            1024: 223.85,
            2048: 176.67,
        },
        "the values at 16 and 64 are those of E2B, so the report may have mixed its runs up",
    ),
    *_requests(
        _12B,
        "v6e-4",
        {
            1: 3.81,
            4: 11.86,
            16: 34.92,
            64: 54.11,
            256: 61.98,
            512: 63.09,
            1024: 61.33,
            2048: 62.10,
        },
        "the values at 1, 4 and 16 are those of E2B on v6e-1, so the report may have mixed its"
        " runs up",
    ),
)


def anchors_of(model: str, accelerator: str) -> tuple[Anchor, ...]:
    """What was published of ``model`` on ``accelerator``."""
    return tuple(row for row in ANCHORS if (row.model, row.accelerator) == (model, accelerator))


@dataclass(frozen=True, slots=True)
class Published:
    """A published throughput, as it stands.

    Attributes:
        text: the figure with what it was measured under.
        source: the report.
    """

    text: str
    source: Source

    def to_json(self) -> dict[str, object]:
        """The figure in a JSON document."""
        return {"text": self.text, "sources": [source_json(self.source)]}


def published(model: Model, accelerator: Accelerator, load: Load) -> Iterator[Published]:
    """Published rates of requests and answers nearest to ``load``."""
    rows = anchors_of(model.name, accelerator.name)
    requests = [row for row in rows if row.requests_per_second is not None]
    if requests:
        row = min(requests, key=lambda row: abs((row.concurrency or 0) - load.concurrency))
        yield Published(f"{row.requests_per_second:g} requests/s {_with(row)}", row.source)
    for row in rows:
        if row.output_tokens_per_second is not None:
            yield Published(f"{row.output_tokens_per_second:g} tokens/s {_with(row)}", row.source)


def _with(row: Anchor) -> str:
    return f"with {row.concurrency or 0:,} at once ({row.setup})"
