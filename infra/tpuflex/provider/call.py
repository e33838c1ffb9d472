"""What the handling of one engine call has at hand, and how it looks at the cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import uuid4

from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import DEFAULT_BUDGET, Timing
from tpuflex.provider.pace import Waits
from tpuflex.request.model import Node
from tpuflex.request.name import RequestName
from tpuflex.request.nodes import Nodes
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import Lifecycle, lifecycle

#: Seconds that the retries of one question may take in a wait, which asks again by itself.
POLL_BUDGET = 15.0
#: Pause between two looks that must agree before something counts as gone, in seconds.
_SECOND_LOOK = 0.5
#: Of these, no node can be there that would tell more than the queued resource itself.
_BEFORE_NODE = frozenset({Lifecycle.WAITING, Lifecycle.PROVISIONING})


class Report(Protocol):
    """Tells people what is going on."""

    def __call__(self, text: str, *, passing: bool = False, warning: bool = False) -> None:
        """Show ``text`` at the resource; ``passing`` text may be replaced by the next one."""


@dataclass(frozen=True, slots=True)
class Call:
    """One engine call.

    Attributes:
        client: the TPU API.
        timing: clocks and pauses; a pause is cut short when the engine cancels.
        report: where progress goes.
        new_id: makes the idempotency id of one mutating API call.
        waits: the waits of this process, which share the pace.
    """

    client: TpuClient
    timing: Timing
    report: Report
    new_id: Callable[[], str] = lambda: str(uuid4())
    waits: Waits = field(default_factory=Waits)

    def look(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Snapshot:
        """The queued resource and all of its nodes as they are now.

        Args:
            name: the queued resource.
            budget: seconds that the retries of each question may take.
        """
        found = self.client.get_queued_resource(name, budget=budget)
        at = self.timing.wall()
        if found is not None:
            name = replace(name, nodes=found.node_ids(name.id))
            if lifecycle(found.state.state, None) in _BEFORE_NODE:
                return Snapshot(name, found, Nodes(name.node_ids), at)
        nodes = self._nodes(name, budget, strays=found is None)
        return Snapshot(name, found, Nodes(name.node_ids, nodes), at)

    def _nodes(self, name: RequestName, budget: float, *, strays: bool) -> tuple[Node, ...]:
        """The nodes of ``name``: one question for one node, one list for several. What the list
        leaves out is asked for by itself, before it counts as missing.

        Args:
            name: the queued resource, with the ids of its nodes.
            budget: seconds that the retries of each question may take.
            strays: whether to take, of several, also those under other ids that name it as the
                request that made them.
        """
        ids = name.node_ids
        listed: dict[str, Node] = {}
        if len(ids) > 1:
            zone = self.client.list_nodes(name.project, name.zone, budget=budget)
            listed = {node.id: node for node in zone.nodes}
        found = [
            listed.pop(id_, None) or self.client.get_node(name.node(id_), budget=budget)
            for id_ in ids
        ]
        if strays:
            found += [node for node in listed.values() if _made_by(name, node)]
        return tuple(node for node in found if node is not None)

    def look_twice(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Snapshot:
        """As :meth:`look`, but what is missing is looked for once more, a little later: one
        404 from a distributed system is not yet a fact."""
        seen = self.look(name, budget=budget)
        if seen.lifecycle is not Lifecycle.LOST:
            return seen
        self.pause(_SECOND_LOOK)
        return self.look(name, budget=budget)

    def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            InterruptedByUser: the engine cancelled.
        """
        if self.timing.pause(seconds):
            raise InterruptedByUser("stopped on request")


def _made_by(name: RequestName, node: Node) -> bool:
    """Whether ``node`` names ``name`` as its queued resource; projects may be ids or numbers."""
    return node.queued_resource.partition("/locations/")[2] == str(name).partition("/locations/")[2]


class UnreadyError(TpuflexError):
    """The request exists, or may exist, but is not active: it must stay in the state.

    Attributes:
        snapshot: the last that was seen of it.
    """

    def __init__(self, message: str, *, snapshot: Snapshot, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.snapshot = snapshot
