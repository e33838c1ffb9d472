"""Published points held against what their chips can compute, read and hold.

A figure is impossible where it is above what the chips do at their peak in the narrowest type, and
not credible where it is above their peak in bfloat16, or so near to it that nothing is left for
what the ceilings do not count. Decoding is held against the narrowest type with speculation, unless
the point rules that out. All others are possible, which does not mean that they were reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpuflex.catalog.catalog import Catalog
from tpuflex.planning.memory import MemoryPlan, plan_memory
from tpuflex.planning.published import PublishedPoint
from tpuflex.planning.request import MemoryRequest, NotPlannable
from tpuflex.planning.throughput import (
    arithmetic_ceiling,
    decode_ceiling,
    first_token_bound,
    judge,
    prompt_ceiling,
)

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model

#: ``not_feasible``: the KV cache cannot hold so many requests at once. ``not_known``: what would
#: have to be known to judge it is not. The others are those of a claim (:func:`judge`).
PointVerdict = Literal["possible", "not_credible", "not_feasible", "not_known", "impossible"]
#: The worst first.
VERDICTS: tuple[PointVerdict, ...] = (
    "impossible",
    "not_feasible",
    "not_credible",
    "not_known",
    "possible",
)
#: Weights in 4 bits are read four times as fast as in bfloat16; nothing is served in fewer, and no
#: chip computes more than twice as fast in another type.
_NARROWEST = 4
#: Tokens that a decoding step with speculation may yield for a request: no published draft has more
#: guessed right on average.
_GUESSED = 8
#: Words of a setup that rule speculation out.
_NO_SPECULATION = re.compile(
    r"\b(no|without|not) specul|specul\w*( decoding)?:? (off|disabled|none)\b", re.IGNORECASE
)
#: By how much figures of a row may disagree: they are rounded.
_ROUNDED = 1.05
#: Share below which what a row does is too little for what it says: a ramp and its end take some.
_TOO_LITTLE = 0.5
#: Share of a chip's memory for weights and cache: the highest that a recipe of Google has.
_UTILIZATION = 0.98
#: Bytes of a value in the narrowest cache that the TPU back-end allocates.
_CACHE_BYTES = 1


@dataclass(frozen=True, slots=True)
class Plausibility:
    """A published point, judged.

    Attributes:
        point: the point.
        verdict: the worst of what is said of its figures.
        reasons: why, by how much, in a sentence each; those that decide the verdict first.
        missing: what would have to be known to judge all of it.
    """

    point: PublishedPoint
    verdict: PointVerdict
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The point in a JSON document."""
        return {
            **self.point.model_dump(mode="json", exclude_none=True),
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "missing": list(self.missing),
        }


def judge_point(point: PublishedPoint, catalog: Catalog) -> Plausibility:
    """Hold ``point`` against the model, the chips and the prices of ``catalog``."""
    model = catalog.model(point.model)
    accelerator = catalog.accelerator(point.accelerator)
    if model is None or accelerator is None:
        return Plausibility(point, "not_known", missing=tuple(_strangers(point, catalog)))
    judgement = _Judgement(point, model, accelerator, catalog)
    said = sorted(judgement.said(), key=lambda each: VERDICTS.index(each[0]))
    missing = tuple(judgement.missing)
    if said:
        return Plausibility(point, said[0][0], tuple(text for _, text in said), missing)
    return Plausibility(point, "possible" if judgement.judged else "not_known", missing=missing)


def _strangers(point: PublishedPoint, catalog: Catalog) -> Iterator[str]:
    if catalog.model(point.model) is None:
        yield _not_there(f"the model {point.model}", catalog.nearest_models(point.model))
    if catalog.accelerator(point.accelerator) is None:
        near = catalog.nearest_accelerators(point.accelerator)
        yield _not_there(f"the accelerator type {point.accelerator}", near)


def _not_there(what: str, near: tuple[str, ...]) -> str:
    return f"{what} is not in the catalog{f' (nearest: {near[0]})' if near else ''}"


class _Judgement:
    """A point of a model and chips that the catalog has, being judged.

    Attributes:
        judged: whether anything of it could be held against anything.
        missing: what would have to be known to judge the rest.
    """

    def __init__(
        self, point: PublishedPoint, model: Model, accelerator: Accelerator, catalog: Catalog
    ) -> None:
        self._point = point
        self._model = model
        self._accelerator = accelerator
        self._catalog = catalog
        self.judged = False
        self.missing: list[str] = []

    def said(self) -> Iterator[tuple[PointVerdict, str]]:
        """What speaks against the point."""
        if arithmetic_ceiling(self._model, self._accelerator) is None:
            self.missing.append(f"the peak of {self._accelerator.name} is not known")
        else:
            yield from self._arithmetic()
            yield from self._decoding()
            yield from self._first_token()
            yield from self._inter_token()
            yield from self._price()
        yield from self._rates()
        yield from self._little()
        yield from self._cache()

    @property
    def _prompts(self) -> float | None:
        """Prompt tokens per second, as they are claimed or follow from the requests."""
        point = self._point
        return point.prompt_tokens_per_second or _product(point.requests_per_second, point.context)

    @property
    def _answers(self) -> float | None:
        point = self._point
        return point.output_tokens_per_second or _product(point.requests_per_second, point.output)

    def _arithmetic(self) -> Iterator[tuple[PointVerdict, str]]:
        prompts, answers = self._prompts, self._answers
        if prompts is None and answers is None:
            return
        self.judged = True
        found = judge(self._model, self._accelerator, (prompts or 0) + (answers or 0))
        if found.verdict != "possible":
            both = "" if prompts is None or answers is None else "prompts and answers together: "
            yield found.verdict, both + found.text

    def _decoding(self) -> Iterator[tuple[PointVerdict, str]]:
        answers, concurrency = self._answers, self._point.concurrency
        if answers is None or concurrency is None:
            return
        bound = self._decode_ceiling(concurrency)
        if bound is not None and answers > bound:
            requests = "1 request" if concurrency == 1 else f"{concurrency:,} requests"
            yield (
                self._decoded(answers / bound),
                f"{answers:,.0f} output tokens/s is {_times(answers / bound)} the {bound:,.0f} that"
                f" memory and arithmetic of {self._accelerator.name} allow {requests} at once in"
                f" bfloat16, without speculation{self._anyway(answers / bound)}",
            )

    @property
    def _fastest(self) -> int:
        """How many times as fast as plainly in bfloat16 the point may have been decoded."""
        excluded = _NO_SPECULATION.search(self._point.setup or "")
        return _NARROWEST * (1 if excluded else _GUESSED)

    def _decoded(self, factor: float) -> PointVerdict:
        return "impossible" if factor > self._fastest else "not_credible"

    def _anyway(self, factor: float) -> str:
        if factor <= self._fastest:
            return ""
        if self._fastest == _NARROWEST:
            return _even(factor)
        return f", and both 4 bits and speculation are {self._fastest} times as fast at most"

    def _decode_ceiling(self, concurrency: int) -> float | None:
        context = self._point.context or 1
        return decode_ceiling(self._model, self._accelerator, concurrency, context, _CACHE_BYTES)

    def _first_token(self) -> Iterator[tuple[PointVerdict, str]]:
        seconds, context = self._point.ttft_s, self._point.context
        bound = first_token_bound(self._model, self._accelerator, context or 1, 1)
        if seconds is None or bound is None:
            return
        self.judged = True
        if seconds < bound.alone:
            prompt = f"a prompt of {context:,} tokens" if context else "any prompt"
            yield (
                _verdict(bound.alone / seconds),
                f"{seconds:.3g} s to the first token: {prompt} takes {bound.alone:.3g} s at least"
                f" on {self._accelerator.name} in bfloat16, where none of it is cached"
                f"{_even(bound.alone / seconds)}",
            )

    def _inter_token(self) -> Iterator[tuple[PointVerdict, str]]:
        seconds, bound = self._point.inter_token_s, self._decode_ceiling(1)
        if seconds is None or bound is None:
            return
        self.judged = True
        if seconds < 1 / bound:
            yield (
                self._decoded(1 / bound / seconds),
                f"{seconds * 1000:.3g} ms between two tokens: reading the weights once takes"
                f" {1000 / bound:.3g} ms on {self._accelerator.name} in bfloat16, without"
                f" speculation{self._anyway(1 / bound / seconds)}",
            )

    def _price(self) -> Iterator[tuple[PointVerdict, str]]:
        claimed = self._point.usd_per_million
        rate = prompt_ceiling(self._model, self._accelerator, eight_bit=True)
        if claimed is None or rate is None:
            return
        generation = self._accelerator.generation
        hourly = min(
            (
                float(row.usd_per_chip_hour)
                for row in self._catalog.prices.values()
                if row.generation == generation and row.usd_per_chip_hour is not None
            ),
            default=None,
        )
        if hourly is None:
            self.missing.append(f"no price of {generation} is known")
            return
        self.judged = True
        least = hourly * self._accelerator.chips * 1e6 / 3600 / rate
        if claimed < least:
            yield (
                "impossible",
                f"{claimed:.3g} USD per million tokens is too low by a factor of"
                f" {least / claimed:,.1f}: {self._accelerator.name} at peak in any type costs"
                f" {least:.3g}, at {hourly:.2f} USD per chip and hour, the lowest price in the"
                " catalog",
            )

    def _rates(self) -> Iterator[tuple[PointVerdict, str]]:
        """Requests/s x tokens of a request is tokens/s; of prompts, those that were computed."""
        point, rate = self._point, self._point.requests_per_second
        for what, claimed, tokens in (
            ("prompt", point.prompt_tokens_per_second, point.context),
            ("output", point.output_tokens_per_second, point.output),
        ):
            follows = _product(rate, tokens)
            if claimed is None or not follows:
                continue
            self.judged = True
            text = (
                f"{rate:,.3g} requests/s of {tokens:,} {what} tokens each are {follows:,.0f}"
                f" tokens/s, not {claimed:,.0f}: the figures contradict each other"
            )
            if claimed > _ROUNDED * follows:
                yield "impossible", text
            elif what == "output" and claimed < _TOO_LITTLE * follows:
                yield "not_credible", text

    def _little(self) -> Iterator[tuple[PointVerdict, str]]:
        """Throughput x latency is the number of requests in flight (Little's law)."""
        point = self._point
        rate = (
            point.requests_per_second
            or _quotient(point.prompt_tokens_per_second, point.context)
            or _quotient(point.output_tokens_per_second, point.output)
        )
        decoding = _product(point.inter_token_s, (point.output or 1) - 1)
        latency = (point.ttft_s or 0) + (decoding or 0)
        if rate is None or point.concurrency is None or not latency:
            return
        self.judged = True
        if (flying := rate * latency) > _ROUNDED * point.concurrency:
            yield (
                "impossible",
                f"{rate:,.3g} requests/s that take {latency:.3g} s each are {flying:,.0f} at once,"
                f" not {point.concurrency:,}: the figures contradict each other",
            )
        elif point.ttft_s and decoding is not None and flying < _TOO_LITTLE * point.concurrency:
            yield (
                "not_credible",
                f"{rate:,.3g} requests/s that take {latency:.3g} s each are {flying:,.3g} at once:"
                f" most of the {point.concurrency:,} were not in flight, or waited before the time"
                " was taken",
            )

    def _cache(self) -> Iterator[tuple[PointVerdict, str]]:
        point = self._point
        if point.concurrency is None or point.context is None:
            return
        length = point.context + (point.output or 0)
        plan = self._plan(length, point.concurrency)
        if isinstance(plan, NotPlannable):
            self.missing.append(f"what the KV cache holds: {plan.reason}")
            return
        self.judged = True
        name = self._accelerator.name
        if plan.cached_tokens <= 0:
            yield "not_feasible", f"the weights do not fit {name} in bfloat16"
        elif (wanted := point.concurrency * length) > plan.cached_tokens:
            yield (
                "not_feasible",
                f"{point.concurrency:,} requests of {length:,} tokens are {wanted:,}, and the KV"
                f" cache of {name} holds {plan.cached_tokens:,} at most, in 8 bits: the rest"
                " waited, unless prompts began alike",
            )

    def _plan(self, length: int, concurrency: int) -> MemoryPlan | NotPlannable:
        return plan_memory(
            MemoryRequest(
                model=self._model,
                accelerator=self._accelerator,
                tensor_parallel_size=self._accelerator.chips,
                max_model_len=length,
                kv_cache_dtype="fp8",
                gpu_memory_utilization=_UTILIZATION,
                max_num_seqs=concurrency,
            )
        )


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _quotient(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


def _verdict(factor: float) -> PointVerdict:
    """Of a figure that is ``factor`` times what bfloat16 allows."""
    return "impossible" if factor > _NARROWEST else "not_credible"


def _even(factor: float) -> str:
    return ", and 4 bits are four times as fast at most" if factor > _NARROWEST else ""


def _times(factor: float) -> str:
    return f"{factor:,.1f} times"
