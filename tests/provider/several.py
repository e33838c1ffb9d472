"""A zone with one request for three nodes, as a script answers for it."""

from __future__ import annotations

from typing import Any

from pulumi_plugin.values import Properties
from tests.provider.fakes import NAME, Answer, Sent, args, missing, node, queued
from tpuflex.errors import TpuflexError
from tpuflex.queued_resource.check import input_properties

THREE = args(multiNode={"nodeCount": 3})
KNOWN: Properties = input_properties(THREE)
IDS = ("slice-g1-0", "slice-g1-1", "slice-g1-2")
STATE: Properties = {**KNOWN, "name": NAME, "lifecycle": "active"}
PLACE = NAME.partition("/queuedResources/")[0]


class Zone:
    """A zone with one request for three nodes; what is asked for deletion is gone at once.

    ``refuses`` are nodes that answer any change with an error; ``unlisted`` ones are there, but
    not in the list.
    """

    def __init__(self, state: str = "ACTIVE", **states: str) -> None:
        self.request: Answer | None = queued(state, THREE)
        self.nodes: dict[str, dict[str, Any]] = {
            id_: self.node(number, states.get(f"node{number}", "READY"))
            for number, id_ in enumerate(IDS)
            if states.get(f"node{number}") != "MISSING"
        }
        self.refuses: dict[str, TpuflexError] = {}
        self.unlisted: set[str] = set()

    @staticmethod
    def node(number: int, state: str = "READY", **more: Any) -> dict[str, Any]:
        return node(
            state,
            THREE,
            name=f"{PLACE}/nodes/slice-g1-{number}",
            queuedResource=NAME,
            networkEndpoints=[{"ipAddress": f"10.0.0.{number}"}],
            **more,
        )

    def __call__(self, sent: Sent) -> Answer:
        id_ = sent.path.rpartition("/")[2]
        if sent.method == "POST":
            self.request = queued("ACTIVE", THREE)
            self.nodes = {each: self.node(number) for number, each in enumerate(IDS)}
            return {"name": "operations/1", "done": True}
        if "operations" in sent.path:
            return {"name": sent.path, "done": True}
        if sent.path == f"{PLACE}/nodes":
            return {"nodes": [n for i, n in self.nodes.items() if i not in self.unlisted]}
        if sent.path == NAME:
            return self._request(sent)
        if id_ not in self.nodes:
            return missing(sent.path)
        if sent.method != "GET" and id_ in self.refuses:
            return self.refuses[id_]
        if sent.method == "DELETE":
            del self.nodes[id_]
        elif sent.method == "PATCH":
            self.nodes[id_] |= sent.body or {}
        else:
            return self.nodes[id_]
        return {"name": "operations/2", "done": True}

    def _request(self, sent: Sent) -> Answer:
        if self.request is None:
            return missing()
        if sent.method == "DELETE":
            self.request, self.nodes = None, {}
            return {"name": "operations/2", "done": True}
        return self.request
