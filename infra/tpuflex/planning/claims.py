"""Published claims about a model on chips that arithmetic or the price list contradicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.planning.anchors import Anchor, anchors_of, price_claims
from tpuflex.planning.figure import Figure, source_json
from tpuflex.planning.first_token import Load
from tpuflex.planning.throughput import judge

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model, Source


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A claim that does not hold.

    Attributes:
        text: the claim and what contradicts it, in a sentence.
        sources: the claim's source first, then those of what contradicts it.
    """

    text: str
    sources: tuple[Source, ...]

    def to_json(self) -> dict[str, object]:
        """The claim in a JSON document."""
        return {"text": self.text, "sources": [source_json(source) for source in self.sources]}


def throughput_contradictions(model: Model, accelerator: Accelerator) -> Iterator[Contradiction]:
    """Claimed peaks of ``model`` on ``accelerator`` that the chips cannot have computed."""
    for row in anchors_of(model.name, accelerator.name):
        rate = row.prompt_tokens_per_second
        if rate is None or row.ttft_seconds is not None:
            continue
        judgement = judge(model, accelerator, rate)
        if judgement.verdict != "possible":
            text = f"{judgement.text}; prompts that repeat may have been cached ({row.setup})"
            yield Contradiction(text, (row.source, model.source, accelerator.source))


def price_contradictions(accelerator: Accelerator, per_hour: Figure) -> Iterator[Contradiction]:
    """Claimed prices of ``accelerator`` that the price list contradicts."""
    if per_hour.value is None:
        return
    for claim in price_claims(accelerator.name):
        if claim.usd_per_hour >= per_hour.value:
            continue
        text = (
            f"${claim.usd_per_hour} per hour for {accelerator.name}: the price list says"
            f" ${per_hour.value:.2f} ({per_hour.basis}), and the text's own"
            f" {claim.tokens_per_dollar:,} tokens per dollar at {claim.at_tokens_per_second:,.0f}"
            f" tokens/s are ${claim.implied_usd_per_hour} per hour"
        )
        yield Contradiction(text, (claim.source, *per_hour.sources))


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
