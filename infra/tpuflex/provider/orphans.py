"""Nodes whose queued resource is gone: they are billed, and nothing groups them any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tpuflex.errors import AccessError, ApiError, NotFoundError
from tpuflex.provider.call import POLL_BUDGET, Call
from tpuflex.request.model import Node
from tpuflex.request.name import Nodes, RequestName


@dataclass
class Orphans:
    """The deletion of nodes whose queued resource is gone: one by one, because nothing groups them
    any more.

    Attributes:
        call: the engine call.
        name: the queued resource that is gone.
        operations: our delete operations by node id; empty once one has ended.
    """

    call: Call
    name: RequestName
    operations: dict[str, str] = field(default_factory=dict)

    def left(self, nodes: Iterable[Node]) -> list[Node]:
        """Those of ``nodes`` whose deletion is not under way."""
        return [node for node in nodes if node.state != "DELETING" and not self._running(node.id)]

    def delete(self, nodes: Iterable[Node]) -> None:
        """Request the deletion of all that are left; a refusal does not stop the rest.

        Raises:
            AccessError, ApiError: the first refusal, after the others were requested.
        """
        failures = list[AccessError | ApiError]()
        for node in nodes:
            if node.state == "DELETING" or self.operations.get(node.id):
                continue
            try:
                answer = self.call.client.delete_node(self.name.node(node.id))
            except NotFoundError:
                continue
            except (AccessError, ApiError) as error:
                failures.append(error)
            else:
                self.operations[node.id] = answer.name
        if failures:
            raise failures[0]

    def _running(self, id_: str) -> bool:
        """Whether our delete operation of the node is still running; it counts as running while
        Google does not answer, and as ended once Google has forgotten it."""
        operation = self.operations.get(id_)
        if not operation:
            return False
        try:
            found = self.call.client.get_operation(operation, budget=POLL_BUDGET)
        except ApiError:
            return True
        if found is not None and not found.done:
            return True
        self.operations[id_] = ""
        return False


def orphaned(nodes: Nodes) -> str:
    """The state of the nodes, in words: ``its node is DELETING``."""
    if nodes.several:
        return nodes.left_over()
    return f"its node is {nodes.first.state if nodes.first is not None else ''}"
