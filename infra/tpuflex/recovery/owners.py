"""Whose what a program would create already is: asked before a new state makes or adopts anything.

Names are deterministic, so anyone who has created the same project and stack with another state
holds the same names (docs/adr/0015).
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError, ServiceDisabledError, TpuflexError
from tpuflex.inventory.cloud_resource import Marker, marker_of
from tpuflex.inventory.kinds import Kind, of_type
from tpuflex.inventory.listing import Unlisted
from tpuflex.inventory.resource_ids import ResourceId, ids_of

if TYPE_CHECKING:
    from tpuflex.engine.events import Step
    from tpuflex.google.apis import Apis

#: Questions at once.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Taken:
    """Something that exists under a name of the program's.

    Attributes:
        kind: what people call it.
        id: its id as a state spells it.
        marker: whose it says it is.
    """

    kind: str
    id: str
    marker: Marker

    @property
    def owner(self) -> str:
        """Who owns it, in words for people."""
        marker = self.marker
        if not marker.owner:
            return "not made by tpuflex"
        of = f"stack {marker.stack} of project {marker.project}, " if marker.stack else ""
        state = f"state ID {marker.state_id}" if marker.state_id else "no state ID"
        return f"{of}owner {marker.owner}, {state}"

    def __str__(self) -> str:
        return f"{self.kind} {self.id.rpartition('/')[2]}: {self.owner}"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a program would take, as far as they are known.

    Attributes:
        taken: what exists under them.
        unlisted: those that could not be looked at, each with the reason.
    """

    taken: tuple[Taken, ...]
    unlisted: tuple[Unlisted, ...]


def find_taken(apis: Apis, steps: Iterable[Step]) -> tuple[Taken, ...]:
    """What of the creations among ``steps`` exists already, and may be read."""
    return names(apis, steps).taken


def names(apis: Apis, steps: Iterable[Step]) -> Names:
    """What is there under the names of the creations among ``steps``."""
    asked = [
        (kind, place)
        for step in steps
        if step.operation == "create" and (kind := of_type(step.type)) and kind.found_by == "api"
        for place in ids_of(step.type, step.inputs)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda each: _found(apis, *each), asked)
        every = tuple(found)
    return Names(
        tuple(each for each in every if isinstance(each, Taken)),
        tuple(each for each in every if isinstance(each, Unlisted)),
    )


def _found(apis: Apis, kind: Kind, place: ResourceId) -> Taken | Unlisted | None:
    """What is there; the name with the reason, if that cannot be determined."""
    try:
        answer = kind.client(apis).call("GET", place.path)
    except (NotFoundError, ServiceDisabledError):  # in an API that is off nothing is in use
        return None
    except TpuflexError as error:
        return Unlisted.of(f"{kind.name} {place.id.rpartition('/')[2]}", error)
    return Taken(kind.name, place.id, marker_of(kind, answer))
