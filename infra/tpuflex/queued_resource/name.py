"""The full name of a queued resource, and its nodes: those it should have, those it has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pulumi_plugin.values import Value
from tpuflex import naming
from tpuflex.errors import TpuflexError
from tpuflex.queued_resource.model import Node
from tpuflex.queued_resource.rows import Group

_NAME = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<zone>[^/]+)/queuedResources/(?P<id>[^/]+)"
)


@dataclass(frozen=True, slots=True)
class RequestName:
    """The full name of a queued resource, taken apart.

    Attributes:
        project: Google Cloud project id.
        zone: zone, such as us-east5-a.
        id: id within the zone.
        nodes: ids of its nodes as far as they are known beforehand; empty for one node that has
            the same id. Two names are equal whatever is known of the nodes.
    """

    project: str
    zone: str
    id: str
    nodes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, text: str) -> RequestName:
        """Read ``projects/P/locations/Z/queuedResources/ID``.

        Raises:
            TpuflexError: ``text`` is not such a name.
        """
        match = _NAME.fullmatch(text)
        if match is None:
            raise TpuflexError(
                f"{text!r} is not the name of a queued resource",
                hint="Write projects/PROJECT/locations/ZONE/queuedResources/ID.",
            )
        return cls(match["project"], match["zone"], match["id"])

    @property
    def parent(self) -> str:
        """``projects/P/locations/Z``."""
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def node_ids(self) -> tuple[str, ...]:
        """Ids of its nodes, of which there may be none yet."""
        return self.nodes or (self.id,)

    def node(self, id_: str) -> str:
        """Full name of the node ``id_``."""
        return f"{self.parent}/nodes/{id_}"

    def holds(self, node: Node) -> bool:
        """Whether the API names this as the request of ``node``, which nobody can set; it writes
        projects as ids or numbers."""
        return (
            node.queued_resource.partition("/locations/")[2]
            == str(self).partition("/locations/")[2]
        )

    def __str__(self) -> str:
        return f"{self.parent}/queuedResources/{self.id}"


_READY = "READY"
#: One sentence names at most this many; the rest is counted.
_NAMED = 3


def ids_of(request: str, multi_node: Value) -> tuple[str, ...]:
    """Ids of the nodes of a request: its own for one, PREFIX-0, PREFIX-1, … for several.

    Args:
        request: id of the queued resource.
        multi_node: the input of that name, if given; valid.
    """
    if not isinstance(multi_node, dict):
        return (request,)
    count, prefix = multi_node.get("nodeCount"), multi_node.get("nodeIdPrefix") or request
    # Numbers come from the engine as floats.
    whole = int(count) if isinstance(count, int | float) else 0
    return naming.node_ids(str(prefix), whole)


class NodeStatus(Group):
    """One node of the request, as it was last seen."""

    id: str
    """Id of the node."""

    state: str | None = None
    """Google's word for its state, while there is such a node."""

    health: str | None = None
    """Google's word for its health, while there is such a node."""

    ip_addresses: tuple[str, ...] = ()
    """Internal IP address of each of its hosts."""

    drifted: tuple[str, ...] | None = None
    """Inputs of the request in which this node differs: of several from the others, of one node
    `labels`, if it has lost one that says whose it is. The next `pulumi up` puts them right."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """One look at the nodes of a request.

    Attributes:
        ids: ids of the nodes that should exist (sooner or later), in Google's order.
        found: the nodes that exist, in that order; then others that name the request as the one
            that made them.
    """

    ids: tuple[str, ...] = ()
    found: tuple[Node, ...] = ()

    @property
    def several(self) -> bool:
        """Whether the request is for more than one node."""
        return len(self.ids) > 1

    @property
    def first(self) -> Node | None:
        """The first that exists."""
        return self.found[0] if self.found else None

    @property
    def states(self) -> tuple[str | None, ...]:
        """State of each node that should exist; None for one that does not."""
        found = {node.id: node.state for node in self.found}
        return tuple(found.get(id_) for id_ in self.ids)

    @property
    def state(self) -> str | None:
        """One state for all: READY if every node is; else that of the first that is not."""
        return next((state for state in self.states if state != _READY), _READY)

    @property
    def health(self) -> str | None:
        """One health for all: HEALTHY if every node is; else that of the first that is not."""
        words = [node.health for node in self.found]
        return next((word for word in words if word != "HEALTHY"), "HEALTHY" if words else "")

    def status(self) -> tuple[NodeStatus, ...]:
        """The status of each, in order."""
        found = {node.id: node for node in self.found}
        ids = dict.fromkeys((*self.ids, *found))
        return tuple(_status(id_, found.get(id_)) for id_ in ids)

    def trouble(self) -> str:
        """What keeps the request from serving, in words: ``the node is missing``, or ``2 of 4
        nodes are not READY: x-1 is PREEMPTED, x-3 is missing``."""
        if not self.several:
            return f"the node is {self.state or 'missing'}"
        bad = [*self._not_ready()]
        rest = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        verb = "is" if len(bad) == 1 else "are"
        named = ", ".join(bad[:_NAMED])
        return f"{len(bad)} of {len(self.ids)} nodes {verb} not READY: {named}{rest}"

    def left_over(self) -> str:
        """What is left of a request that is gone: ``2 of its 4 nodes are there``."""
        count = len(self.found)
        return f"{count} of its {len(self.ids)} nodes {'is' if count == 1 else 'are'} there"

    def _not_ready(self) -> Iterator[str]:
        for id_, state in zip(self.ids, self.states, strict=True):
            if state != _READY:
                yield f"{id_} is {state or 'missing'}"


def _status(id_: str, node: Node | None) -> NodeStatus:
    if node is None:
        return NodeStatus(id=id_)
    addresses = [item.ip_address for item in node.network_endpoints]
    said = {"id": id_, "state": node.state, "health": node.health or None}
    return NodeStatus.model_validate({**said, "ipAddresses": addresses})
