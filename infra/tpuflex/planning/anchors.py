"""Published figures nearest to a load, quoted as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.planning.figure import source_json
from tpuflex.planning.published import PublishedPoint, points_of

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the server has to do.

    Attributes:
        context: tokens of the longest sequence; the prompt is taken to be as long.
        concurrency: sequences at once.
    """

    context: int
    concurrency: int


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
    rows = points_of(model.name, accelerator.name)
    requests = [row for row in rows if row.requests_per_second is not None]
    if requests:
        row = min(requests, key=lambda row: abs((row.concurrency or 0) - load.concurrency))
        yield Published(f"{row.requests_per_second:g} requests/s {_with(row)}", row.source)
    for row in rows:
        if row.output_tokens_per_second is not None:
            yield Published(f"{row.output_tokens_per_second:g} tokens/s {_with(row)}", row.source)


def _with(row: PublishedPoint) -> str:
    if row.concurrency is None:
        return f"({row.setup})"
    return f"with {row.concurrency:,} at once ({row.setup})"
