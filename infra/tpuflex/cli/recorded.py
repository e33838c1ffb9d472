"""Where a stack's state says that its slice is: its stack file may have been changed since."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tpuflex.engine.state import Stored, known_ids
from tpuflex.engine.state_files import file_backend
from tpuflex.errors import TpuflexError
from tpuflex.gcp.places import zones_in

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud

_REQUEST = re.compile(r"/locations/([^/]+)/queuedResources/([^/]+)$")


def recorded_requests(cloud: Cloud) -> tuple[str, ...]:
    """Each request for a slice that the state has, or has begun, as ``ID in ZONE``; empty where
    there is no state, or none that can be read now."""
    try:
        ids = known_ids(_deployment(cloud))
    except TpuflexError:
        return ()
    found = (match for id_ in ids if (match := _REQUEST.search(id_)))
    return tuple(sorted({f"{match[2]} in {match[1]}" for match in found}))


def recorded_zones(cloud: Cloud) -> tuple[str, ...]:
    """The zones where the state of the stack has its slice, or has begun to ask for it; empty where
    there is no state, or none that can be read now."""
    try:
        return zones_in(known_ids(_deployment(cloud)))
    except TpuflexError:
        return ()


def _deployment(cloud: Cloud) -> Stored:
    """The state, read from its file without the engine where it is in one.

    Raises:
        TpuflexError: there is none, or it cannot be read.
    """
    project, stack = cloud.stack.project, cloud.stack.name
    backend = file_backend(cloud.environ.get("PULUMI_BACKEND_URL", ""))
    if backend is not None:
        file = backend / ".pulumi" / "stacks" / project.name / f"{stack}.json"
        try:
            return dict(json.loads(file.read_bytes())["checkpoint"]["latest"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}
    from tpuflex.engine.commands import Target
    from tpuflex.engine.failure import ProgramFailures
    from tpuflex.engine.find import search
    from tpuflex.engine.run import EngineRun

    engine = search(project.home, cloud.environ).engine
    if engine is None:
        return {}  # to build one would take minutes
    target = Target(project.root, stack, engine, cloud.environ)
    return EngineRun(target, lambda: None, failures=ProgramFailures()).deployment()
