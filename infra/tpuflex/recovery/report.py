"""What a recovery found and did, resource by resource."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from tpuflex.engine.events import name_of
from tpuflex.engine.state import Stored
from tpuflex.errors import TpuflexError


class Settlement(StrEnum):
    """What became of one resource."""

    ADOPTED = "adopted"
    CLEARED = "cleared"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Settled:
    """One resource that was looked at.

    Attributes:
        urn: its URN.
        type: its type token.
        operation: what was pending; empty when nothing was, and the program would have
            created what the cloud already has.
        settlement: what became of it.
        detail: its id, or why, for people.
    """

    urn: str
    type: str
    operation: str
    settlement: Settlement
    detail: str

    @property
    def name(self) -> str:
        """Its logical name."""
        return name_of(self.urn)


@dataclass
class Recovery:
    """What a recovery found and did.

    Attributes:
        settled: every resource about which something was unclear.
        unfinished: why the program could not be compared with the cloud, if it could not.
        foreign: why what the program would create was not adopted, where its name is taken; a
            line each. What says whose it is only once the state has an id is not among it.
        not_looked_at: why it could not be looked for what the program would create, by URN.
    """

    settled: list[Settled] = field(default_factory=list)
    unfinished: TpuflexError | None = None
    foreign: list[str] = field(default_factory=list)
    not_looked_at: dict[str, TpuflexError] = field(default_factory=dict)

    @property
    def left(self) -> list[Settled]:
        """What could not be settled, and is pending as before."""
        return [item for item in self.settled if item.settlement is Settlement.LEFT]

    @property
    def clean(self) -> bool:
        """Whether nothing is pending any more, all that the program names was looked for, and
        nothing stands in the way of an ``up``."""
        return not self.left and not self.not_looked_at and self.unfinished is None

    def adopted(self, resource: Stored, operation: str, detail: str) -> None:
        """Note that ``resource`` was taken into the state."""
        self._note(resource, operation, Settlement.ADOPTED, detail)

    def cleared(self, resource: Stored, operation: str, detail: str) -> None:
        """Note that nothing is pending for ``resource`` any more."""
        self._note(resource, operation, Settlement.CLEARED, detail)

    def left_pending(self, resource: Stored, operation: str, detail: str) -> None:
        """Note that ``resource`` could not be settled."""
        self._note(resource, operation, Settlement.LEFT, detail)

    def to_json(self) -> list[dict[str, object]]:
        """The document under ``resources`` that ``tpuflex recover --json`` prints."""
        return [
            {
                "urn": item.urn,
                "type": item.type,
                "name": item.name,
                "pending": item.operation or None,
                "outcome": item.settlement.value,
                "detail": item.detail,
            }
            for item in self.settled
        ]

    def _note(self, resource: Stored, operation: str, settlement: Settlement, detail: str) -> None:
        noted = Settled(resource["urn"], resource["type"], operation, settlement, detail)
        self.settled.append(noted)


def replaced(resource: Stored) -> str:
    """The detail of a resource that was taken into the state only to be deleted."""
    return f"{resource['id']}, which was replaced: the next `up` deletes it"


def counted(things: Collection[object], noun: str) -> str:
    """``3 resources``."""
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
