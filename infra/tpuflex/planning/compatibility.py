"""What was seen of a model on an accelerator type, and how much that proves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from tpuflex.planning.figure import sources_json

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model, ReportedRun


class Level(IntEnum):
    """How much was seen; lower is better."""

    SERVED = 0
    """Served on this accelerator type."""
    GENERATION = 1
    """Served on chips of the generation, which slice is not said."""
    NOTHING = 2
    """Nothing was seen."""
    FAILED = 3
    """Only failures were seen, on this type or on chips of the generation."""


_TEXTS = {
    Level.SERVED: "served on {name}",
    Level.GENERATION: "served on {generation}, slice not said",
    Level.NOTHING: "nothing",
    Level.FAILED: "only failures on {name} or {generation}",
}


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Reports of a model on an accelerator type.

    Attributes:
        level: how much they prove.
        text: that in words.
        seen: the reports, of the type itself first; none was made with this configuration unless
            it says so.
    """

    level: Level
    text: str
    seen: tuple[ReportedRun, ...]

    def to_json(self) -> dict[str, object]:
        """The reports in a JSON document."""
        return {
            "text": self.text,
            "reports": [
                {
                    "accelerator": row.accelerator,
                    "result": row.result,
                    "what": row.what,
                    "sources": sources_json((row.source,)),
                }
                for row in self.seen
            ],
        }


def compatibility(model: Model, accelerator: Accelerator) -> Compatibility:
    """The reports of ``model`` on ``accelerator`` or on its generation."""
    here = [row for row in model.seen if row.accelerator == accelerator.name]
    wider = [row for row in model.seen if row.accelerator == accelerator.generation]
    level = _level(here, wider)
    text = _TEXTS[level].format(name=accelerator.name, generation=accelerator.generation)
    return Compatibility(level, text, (*here, *wider))


def _level(here: list[ReportedRun], wider: list[ReportedRun]) -> Level:
    if any(row.result == "served" for row in here):
        return Level.SERVED
    if any(row.result == "served" for row in wider):
        return Level.GENERATION
    return Level.FAILED if here or wider else Level.NOTHING
