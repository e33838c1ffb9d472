"""What of a stack's state, and of the cloud, a `tpuflex down` may delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuflex.engine.events import name_of
from tpuflex.engine.state import Stored, known_ids, state_ids, used
from tpuflex.inventory.ownership import NO_STATE_ID
from tpuflex.inventory.unlisted import reasons
from tpuflex.recovery.foreign import compared, forgotten
from tpuflex.recovery.look import CloudLook

if TYPE_CHECKING:
    from tpuflex.inventory.inventory import Inventory
    from tpuflex.stack.connection import Connection


@dataclass(frozen=True, slots=True)
class Ours:
    """What is ours.

    Attributes:
        deployment: the state, without what is somebody else's by now.
        foreign: why that is not ours, by URN.
        states: ids of the states that are ours.
        uncompared: why nobody could look whether what the state knows is still ours, by URN.
    """

    deployment: Stored
    foreign: Mapping[str, str]
    states: frozenset[str]
    uncompared: Mapping[str, str] = field(default_factory=dict)

    def inventory(self, cloud: Connection) -> Inventory:
        """Everything in the cloud that has the stack's names; what is proved ours is told apart."""
        kept = used(self.deployment) if self.deployment else None
        return cloud.inventory(self.states, known_ids(self.deployment), kept)

    def foreign_lines(self) -> Iterator[str]:
        """A line for each thing in the state that is not ours any more."""
        for urn, why in self.foreign.items():
            yield f"Not deleted: {name_of(urn)} is in the state, but not ours any more: {why}"

    def uncompared_lines(self) -> list[str]:
        """What could not be compared with the cloud: a line for each reason."""
        return reasons(f"{name_of(urn)}: {why}" for urn, why in self.uncompared.items())


def what_is_ours(cloud: Connection, deployment: Stored) -> Ours:
    """What of ``deployment``, empty if there is none, and of the cloud is ours; its state ids are
    remembered, so that what a teardown leaves can still be proved ours.

    Raises:
        EngineError, AccessError: what this home remembers is damaged, or others may write it.
    """
    stack, seen = cloud.stack.name, cloud.seen_states
    own = state_ids(deployment)
    seen.remember(stack, own)
    # A program without a state id, of queued resources alone, has made things without one.
    without = frozenset() if own or not deployment else frozenset({NO_STATE_ID})
    # What the state knows and carries no id may be such a queued resource beside an endpoint.
    found = compared(deployment, CloudLook(cloud.apis(), {*own, NO_STATE_ID}))
    left = forgotten(deployment, found.foreign)
    return Ours(left, found.foreign, own | seen.of(stack) | without, found.uncompared)
