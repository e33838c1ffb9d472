"""Where a stack's state says that its slice is: its stack file may have been changed since."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpuflex.engine.state import Stored, known_ids
from tpuflex.engine.state_files import file_backend, state_in_file
from tpuflex.errors import TpuflexError
from tpuflex.inventory.resource_ids import zones_in

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

_REQUEST = re.compile(r"/locations/([^/]+)/queuedResources/([^/]+)$")


def recorded_requests(cloud: Connection) -> tuple[str, ...]:
    """Each request for a slice that the state has, or has begun, as ``ID in ZONE``."""
    found = (match for id_ in _known_ids(cloud) if (match := _REQUEST.search(id_)))
    return tuple(sorted({f"{match[2]} in {match[1]}" for match in found}))


def recorded_zones(cloud: Connection) -> tuple[str, ...]:
    """The zones where the state of the stack has its slice, or has begun to ask for it."""
    return zones_in(_known_ids(cloud))


def _known_ids(cloud: Connection) -> frozenset[str]:
    """The ids in the state; none where there is no state, or none that can be read now."""
    try:
        return known_ids(_state(cloud))
    except TpuflexError:
        return frozenset()


def _state(cloud: Connection) -> Stored:
    """The state, read from its file without the engine where it is in one.

    Raises:
        TpuflexError: there is none, or it cannot be read.
    """
    project, stack = cloud.stack.project, cloud.stack.name
    backend = file_backend(cloud.environ.get("PULUMI_BACKEND_URL", ""))
    if backend is not None:
        return state_in_file(backend, project.name, stack)
    from tpuflex.engine.backend import stored_state
    from tpuflex.engine.commands import Target
    from tpuflex.engine.find import search

    engine = search(project.home, cloud.environ).engine
    if engine is None:
        return {}  # to build one would take minutes
    return stored_state(Target(cloud.stack.engine_project, stack, engine, cloud.environ), stack)
