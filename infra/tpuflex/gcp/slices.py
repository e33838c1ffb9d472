"""Reads a queued resource and all of its nodes as one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import DEFAULT_BUDGET
from tpuflex.request.model import Node
from tpuflex.request.name import Nodes, RequestName
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import Lifecycle, lifecycle

#: Of these, no node can be there that would tell more than the queued resource itself.
_BEFORE_NODE = frozenset({Lifecycle.WAITING, Lifecycle.PROVISIONING})


def take_snapshot(
    client: TpuClient,
    name: RequestName,
    wall: Callable[[], float],
    *,
    budget: float = DEFAULT_BUDGET,
) -> Snapshot:
    """The queued resource and all of its nodes as they are now.

    Args:
        client: the TPU API.
        name: the queued resource.
        wall: the clock, in seconds since the epoch.
        budget: seconds that the retries of each question may take.
    """
    request = client.get_queued_resource(name, budget=budget)
    at = wall()
    if request is not None:
        name = replace(name, nodes=request.node_ids(name.id))
        if lifecycle(request.state.state, None) in _BEFORE_NODE:
            return Snapshot(name, request, Nodes(name.node_ids), at)
    nodes = _nodes(client, name, budget, unexpected=request is None)
    return Snapshot(name, request, Nodes(name.node_ids, nodes), at)


def _nodes(
    client: TpuClient, name: RequestName, budget: float, *, unexpected: bool
) -> tuple[Node, ...]:
    """The nodes of ``name``: one question for one node, one list for several. What the list
    leaves out is asked for by itself, before it counts as missing.

    Args:
        client: the TPU API.
        name: the queued resource, with the ids of its nodes.
        budget: seconds that the retries of each question may take.
        unexpected: whether to take, of several, also nodes with other ids that name it as the
            request that made them.
    """
    listed: dict[str, Node] = {}
    if len(name.node_ids) > 1:
        zone = client.list_nodes(name.project, name.zone, budget=budget)
        listed = {node.id: node for node in zone.nodes}
    nodes = [
        listed.pop(id_, None) or client.get_node(name.node(id_), budget=budget)
        for id_ in name.node_ids
    ]
    if unexpected:
        nodes += [node for node in listed.values() if name.holds(node)]
    return tuple(node for node in nodes if node is not None)
