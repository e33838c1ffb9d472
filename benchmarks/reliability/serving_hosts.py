"""Hosts that boot, serve and drain, on a cloud that runs none.

A host goes on with each question for its report: the calls of a command, and so the points at which
it can be killed, are the same however fast the machine is. What it says are guest attributes in the
cloud's own store; they go with its node, and are in every copy of the cloud.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from embedded_cloud.cloud import Cloud
from embedded_cloud.core.inbound_request import InboundRequest
from embedded_cloud.core.json_types import JsonValue
from embedded_cloud.core.routing import Match
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.services.tpu.records import Node, NodeState, Place
from embedded_cloud.services.tpu.validation import node_ids
from tpuflex.host.report import CONFIG_KEY, DRAIN_KEY, NAMESPACE, READY, REPORT
from tpuflex.host.serving import SERVING, ServingPhase
from tpuflex.naming import LABEL_OWNER

Json = dict[str, Any]

#: The event in the history before a slice is deleted: which one, and what hosts said until then.
DELETION = "deletion"
_TPU = "tpu.projects.locations."
#: What a host reports while it boots, look by look; after that it is READY.
_BOOT: tuple[Json | None, ...] = (None, {"phase": "weights"})
#: How many requests a host that drains answers, look by look; after that it has drained.
_RUNNING = (1, 1)
#: Where a host keeps how far it is, beside its reports.
_MEMORY = ("rig", "memory")


@dataclass(frozen=True, slots=True)
class _Memory:
    """How far a host is: looks while it booted and while it drained, the value with which it was
    asked to drain, and when it said first that it is READY, by the cloud's clock."""

    boot: int = 0
    drain: int = 0
    asked: str = ""
    since: float = 0.0


class ServingHosts:
    """The hosts of a cloud's nodes: of those that boot with a configuration of ours."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._guest = GuestAttributes(cloud.store)
        # Asked before each call: it refuses none.
        cloud.pipeline._admission = (*cloud.pipeline._admission, self)

    def check(self, match: Match, _inbound: InboundRequest) -> None:
        """Let a host go on that is asked for its report, and note what all say before a slice is
        deleted."""
        method_id = match.route.method_id
        place = Place(match.params.get("project", ""), match.params.get("location", ""))
        id_ = [*match.params.values()][-1] if match.params else ""
        if method_id == f"{_TPU}nodes.getGuestAttributes":
            node = self._cloud.tpu.nodes.find(f"{place.parent}/nodes/{id_}")
            if node is not None and _speaks(node):
                self._look(node)
        elif method_id == f"{_TPU}queuedResources.delete":
            request = f"{place.parent}/queuedResources/{id_}"
            now, serving = self._cloud.clock.now(), list[JsonValue](self._serving())
            self._cloud.history.note(DELETION, request=request, now=now, serving=serving)

    def serve(self) -> None:
        """Let all that boot be READY: `tpuflex up` ends when they are."""
        for node in self._cloud.tpu.nodes.all():
            memory = self._memory(node)
            if _speaks(node) and memory.boot < len(_BOOT):
                self._remember(
                    node, replace(memory, boot=len(_BOOT), since=self._cloud.clock.now())
                )
                self._say_serving(node, ServingPhase.SERVING, running=1)

    def _look(self, node: Node) -> None:
        memory, asked = self._memory(node), _asked(node)
        if memory.boot < len(_BOOT):
            if (report := _BOOT[memory.boot]) is not None:
                self._say(node, REPORT, report)
            self._remember(node, replace(memory, boot=memory.boot + 1))
            return
        if asked != memory.asked:
            memory = replace(memory, asked=asked, drain=0)
        if not memory.since:
            memory = replace(memory, since=self._cloud.clock.now())
        if not asked:
            self._say_serving(node, ServingPhase.SERVING, running=1)
        elif memory.drain < len(_RUNNING):
            self._say_serving(node, ServingPhase.DRAINING, running=_RUNNING[memory.drain])
            memory = replace(memory, drain=memory.drain + 1)
        else:
            self._say_serving(node, ServingPhase.DRAINING, running=0, drained=True)
        self._remember(node, memory)

    def _serving(self) -> Iterator[Json]:
        """The slices that answer: who has them, until when they were asked to drain, whether they
        have, and whether they came to serve too late to be handed over."""
        for node in self._cloud.tpu.nodes.all():
            said = {key: json.loads(text) for _, key, text in self._said(node, NAMESPACE)}
            phase = said.get(SERVING, {}).get("phase")
            answers = phase in (ServingPhase.SERVING, ServingPhase.DRAINING)
            ready = answers and said[REPORT]["phase"] == READY
            if ready and _speaks(node) and self._is_whole(node):
                yield {
                    "request": node.queued_resource,
                    "owner": _owner(node),
                    "asked": _asked(node),
                    "drained": said[SERVING].get("drained", False),
                    "late": self._is_late(node),
                }

    def _is_late(self, node: Node) -> bool:
        """Whether ``node`` came to serve only when another one, which is to replace it, was there:
        by then nobody waits for that one any more."""
        since, owner = self._memory(node).since, _owner(node)
        return any(
            _owner(each) == owner
            and each.queued_resource != node.queued_resource
            and node.created_at < each.created_at <= since
            for each in self._cloud.tpu.nodes.all()
            if _speaks(each)
        )

    def _is_whole(self, node: Node) -> bool:
        """Whether the request of ``node`` is there, with all of its nodes: one that has lost any is
        not what serves, and neither handed over nor drained (docs/adr/0036)."""
        found = self._cloud.tpu.queue.in_place(node.place)
        expected = next((q for q in found if q.name == node.queued_resource), None)
        ready = [
            each.id
            for each in self._cloud.tpu.nodes.all()
            if each.queued_resource == node.queued_resource and each.state is NodeState.READY
        ]
        return expected is not None and len(ready) == len(node_ids(expected.id, expected.spec))

    def _say_serving(self, node: Node, phase: ServingPhase, **more: object) -> None:
        self._say(node, REPORT, {"phase": READY})
        self._say(node, SERVING, {"phase": phase, "at": self._cloud.clock.now(), **more})

    def _say(self, node: Node, key: str, document: Json) -> None:
        self._guest.put(node.name, 0, NAMESPACE, key, json.dumps(document))

    def _said(self, node: Node, path: str) -> list[tuple[str, str, str]]:
        return self._guest.query(node.name, 0, path)

    def _memory(self, node: Node) -> _Memory:
        found = self._said(node, "/".join(_MEMORY))
        return _Memory(**json.loads(found[0][2])) if found else _Memory()

    def _remember(self, node: Node, memory: _Memory) -> None:
        self._guest.put(node.name, 0, *_MEMORY, json.dumps(asdict(memory)))


def _metadata(node: Node) -> Json:
    found = node.spec.get("metadata")
    return found if isinstance(found, dict) else {}


def _owner(node: Node) -> str:
    return str(dict(node.spec["labels"])[LABEL_OWNER])  # type: ignore[arg-type]


def _speaks(node: Node) -> bool:
    return node.state is NodeState.READY and CONFIG_KEY in _metadata(node)


def _asked(node: Node) -> str:
    return str(_metadata(node).get(DRAIN_KEY, ""))
