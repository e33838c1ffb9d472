"""Whether a time to the first token can be reached: by arithmetic, or by what was published.

Nothing is predicted. A target below the arithmetic bound cannot be met; one that a published
measurement meets under at least the same load was met there; everything else is not known. A
measurement whose prompts cannot have been computed proves nothing about prompts that are new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpuflex.planning.figure import Figure, sources_json
from tpuflex.planning.published import PublishedPoint, points_of
from tpuflex.planning.request import Load
from tpuflex.planning.throughput import first_token_bound, judge

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model, Source

#: ``impossible``: arithmetic forbids it. ``missed``, ``met``: a published measurement says so.
FirstTokenVerdict = Literal["met", "missed", "impossible", "not_known", "not_asked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken:
    """What is known of the time to the first token.

    Attributes:
        verdict: whether the target can be met.
        text: why, in a sentence.
        sources: where the reason comes from.
        alone: least seconds for one request that nothing delays.
        burst: least mean seconds if all arrive at once.
    """

    verdict: FirstTokenVerdict
    text: str
    sources: tuple[Source, ...]
    alone: Figure
    burst: Figure

    def to_json(self) -> dict[str, object]:
        """It in a JSON document."""
        return {
            "verdict": self.verdict,
            "text": self.text,
            "sources": sources_json(self.sources),
            "alone": self.alone.to_json(),
            "burst": self.burst.to_json(),
        }


def judge_first_token(
    model: Model, accelerator: Accelerator, load: Load, target: float | None
) -> FirstToken:
    """What is known of the time to the first token of ``model`` on ``accelerator``.

    Args:
        model: the model.
        accelerator: the chips.
        load: what it has to do.
        target: seconds within which the first token is wanted; None when that does not matter.
    """
    alone, burst = _bounds(model, accelerator, load)
    verdict, text, sources = _verdict(model, accelerator, load, target, alone)
    return FirstToken(verdict=verdict, text=text, sources=sources, alone=alone, burst=burst)


def _is_credible(point: PublishedPoint, model: Model, accelerator: Accelerator) -> bool:
    """Whether the chips can have computed the prompts that ``point`` counts."""
    rate = point.prompt_tokens_per_second
    return rate is None or judge(model, accelerator, rate).verdict == "possible"


def _bounds(model: Model, accelerator: Accelerator, load: Load) -> tuple[Figure, Figure]:
    sources = (model.source, accelerator.source)
    bound = first_token_bound(model, accelerator, load.context, load.concurrency)
    if bound is None:
        unknown = Figure(None, "seconds", f"the peak of {accelerator.name} is not known", sources)
        return unknown, unknown
    words = f"arithmetic lower bound: {load.context:,} prompt tokens at peak bfloat16, none cached"
    return (
        Figure(round(bound.alone, 4), "seconds", f"{words}, one request alone", sources),
        Figure(
            round(bound.burst_mean, 4),
            "seconds",
            f"{words}, mean of {load.concurrency:,} that reach one stack at once",
            sources,
        ),
    )


def _verdict(
    model: Model, accelerator: Accelerator, load: Load, target: float | None, alone: Figure
) -> tuple[FirstTokenVerdict, str, tuple[Source, ...]]:
    if target is None:
        return "not_asked", "", ()
    if alone.value is not None and alone.value > target:
        text = (
            f"a prompt of {load.context:,} tokens takes at least {alone.value:.2f} s at the peak of"
            f" {accelerator.name} in bfloat16"
        )
        return "impossible", text, alone.sources
    rows = [row for row in points_of(model.name, accelerator.name) if row.ttft_s is not None]
    credible = [row for row in rows if _is_credible(row, model, accelerator)]
    met = _first(row for row in credible if _as_hard(row, load) and _ttft(row) <= target)
    if met is not None:
        return "met", f"published: {_described(met)}", (met.source,)
    missed = _first(row for row in rows if _as_easy(row, load) and _ttft(row) > target)
    if missed is not None:
        return "missed", f"published: {_described(missed)}", (missed.source,)
    if (near := _nearest(rows, load)) is not None:
        return (
            "not_known",
            f"published: {_described(near)}{_doubt(near, model, accelerator)}",
            (near.source,),
        )
    return "not_known", "nothing was published, and arithmetic does not forbid it", alone.sources


def _doubt(point: PublishedPoint, model: Model, accelerator: Accelerator) -> str:
    rate = point.prompt_tokens_per_second
    text = "" if rate is None else judge(model, accelerator, rate).text
    return f"; but its {text}, so its prompts were not all computed" if text else ""


def _described(point: PublishedPoint) -> str:
    """A published time to the first token, with what it was measured under."""
    requests = "1 request" if point.concurrency == 1 else f"{point.concurrency or 0:,} requests"
    prompt = "" if point.context is None else f" of {point.context:,} tokens"
    return f"{_ttft(point):.3g} s with {requests}{prompt} at once ({point.setup})"


def _ttft(point: PublishedPoint) -> float:
    if point.ttft_s is None:
        raise ValueError("the point has no time to the first token")
    return point.ttft_s


def _as_hard(point: PublishedPoint, load: Load) -> bool:
    """Whether the point's load is at least ``load``."""
    if point.concurrency is None or point.context is None:
        return False
    return point.concurrency >= load.concurrency and point.context >= load.context


def _as_easy(point: PublishedPoint, load: Load) -> bool:
    """Whether the point's load is at most ``load``."""
    if point.concurrency is None or point.context is None:
        return False
    return point.concurrency <= load.concurrency and point.context <= load.context


def _first(points: Iterable[PublishedPoint]) -> PublishedPoint | None:
    return next(iter(points), None)


def _nearest(points: Iterable[PublishedPoint], load: Load) -> PublishedPoint | None:
    """The point with the least concurrency that is at least ``load``'s, or the highest one."""
    rows = sorted(
        (row for row in points if row.concurrency is not None),
        key=lambda row: (row.concurrency or 0, abs((row.context or load.context) - load.context)),
    )
    above = (row for row in rows if (row.concurrency or 0) >= load.concurrency)
    return _first(above) or (rows[-1] if rows else None)
