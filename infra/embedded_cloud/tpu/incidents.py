"""What befalls single parts of a request outside of its own life, on demand: for tests and trials.

The service does none of it to order: a node is preempted or lost while its queued resource is
still ACTIVE, or a queued resource goes and leaves its nodes, which are billed on.
"""

from __future__ import annotations

import re

from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.tpu.records import NodeState, Place
from embedded_cloud.tpu.state import TpuState

_NAME = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)"
    r"/(?P<kind>nodes|queuedResources)/(?P<id>[^/]+)"
)
_EXPECTED = (
    'expected {"name": "projects/P/locations/Z/nodes/N", "mishap": "preempted" or "lost"}, or the'
    ' name of a queued resource with "lost", which leaves its nodes'
)


def befall(state: TpuState, wanted: JsonObject) -> JsonObject:
    """Let something befall one node or queued resource; tells what is left of it.

    Args:
        state: the TPU service.
        wanted: ``{"name": full name, "mishap": "preempted" or "lost"}``.

    Raises:
        CloudError: 400 for anything else, 404 if there is no such thing.
    """
    mishap = text(wanted, "mishap")
    match = _NAME.fullmatch(text(wanted, "name"))
    if wanted.keys() != {"name", "mishap"} or match is None:
        raise invalid_argument(_EXPECTED)
    place, id_ = Place(match["project"], match["zone"]), match["id"]
    state.sync()
    if match["kind"] == "queuedResources" and mishap == "lost":
        state.queue.lose(state.queue.get(place, id_))
    elif match["kind"] == "nodes" and mishap == "lost":
        state.nodes.remove(state.nodes.get(place, id_))
    elif match["kind"] == "nodes" and mishap == "preempted":
        node = state.nodes.get(place, id_)
        entered = state.nodes.enter(node, NodeState.PREEMPTED, state.now())
        return {"name": entered.name, "state": entered.state.value}
    else:
        raise invalid_argument(_EXPECTED)
    return {"name": text(wanted, "name"), "state": "GONE"}
