"""Failures the real service never produces on demand, for tests and trials.

A node is preempted, lost or restarted while its queued resource is still ACTIVE, or a queued
resource disappears and leaves its nodes, which are still billed.
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
    'expected {"name": "projects/P/locations/Z/nodes/N", "mishap": "preempted", "lost" or'
    ' "rebooted"}, or the name of a queued resource with "lost", which leaves its nodes'
)


def inflict(state: TpuState, incident: JsonObject) -> JsonObject:
    """Inflict an incident on one node or queued resource; returns its name and new state.

    Args:
        state: the TPU service.
        incident: ``{"name": full name, "mishap": "preempted", "lost" or "rebooted"}``.

    Raises:
        CloudError: 400 for anything else, 404 if the resource does not exist.
    """
    mishap = text(incident, "mishap")
    match = _NAME.fullmatch(text(incident, "name"))
    if incident.keys() != {"name", "mishap"} or match is None:
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
    elif match["kind"] == "nodes" and mishap == "rebooted":
        # As somebody's `sudo reboot`, which the API does not see: the same state, another boot.
        node = state.nodes.get(place, id_)
        entered = state.nodes.enter(node, node.state, state.now())
        return {"name": entered.name, "state": entered.state.value}
    else:
        raise invalid_argument(_EXPECTED)
    return {"name": text(incident, "name"), "state": "GONE"}
