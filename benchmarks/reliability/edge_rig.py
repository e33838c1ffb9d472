"""One queued resource, brought into any state of its life cycle along any edge.

The embedded cloud makes every transition that it can make by itself. States that it never enters
(a preempted node, the former name of the queue's state, a state added in the future) are masked
over its answers for as long as the underlying state does not change: the provider sees the mask,
and its calls act on what is really there.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import requests

from embedded_cloud.tpu.records import Initiator, Node, Place, QueuedResource, QueuedState
from pulumi_plugin.log import EngineLog
from reliability.direct import DirectSession
from reliability.servicer_rig import CLOUD_PROJECT, ZONE, ServicerRig
from reliability.small_state import NAME, PROJECT, STACK
from tpuflex.errors import ServiceDisabledError
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import Timing
from tpuflex.gcp.transport import Transport
from tpuflex.naming import LABEL_OWNER, LABEL_STACK, Names
from tpuflex.request.name import RequestName

Json = dict[str, Any]

NAMES = Names(PROJECT, STACK, NAME)
PLACE = Place(CLOUD_PROJECT, ZONE)
#: Longer than any command takes.
FOR_EVER = 1e9


@dataclass(frozen=True, slots=True)
class Mask:
    """A state shown in place of another one in the cloud's answers.

    Attributes:
        kind: ``queuedResources`` or ``nodes``.
        under: the state that it covers.
        shown: the state that is shown.
        create_time: `createTime` of the resource that it covers; later resources are not covered.
    """

    kind: str
    under: str
    shown: str
    create_time: str

    def over(self, document: Json) -> Json:
        """``document`` as it is shown."""
        found = document.get("state")
        state = found.get("state") if isinstance(found, dict) else found
        named = f"/{self.kind}/" in str(document.get("name"))
        if not named or state != self.under or document.get("createTime") != self.create_time:
            return document
        return {
            **document,
            "state": {**found, "state": self.shown} if isinstance(found, dict) else self.shown,
        }


class _MaskedSession(DirectSession):
    """The cloud's answers with masks over them."""

    def __init__(self, rig: EdgeRig) -> None:
        super().__init__(rig.direct)
        self._rig = rig

    def request(self, method: str, url: str, **how: Any) -> requests.Response:
        answer = super().request(method, url, **how)
        if self._rig.masks and answer.ok and method == "GET":
            answer._content = json.dumps(self._shown(answer.json())).encode()
        return answer

    def _shown(self, document: Json) -> Json:
        for mask in self._rig.masks:
            document = mask.over(document)
        for kind in ("queuedResources", "nodes"):
            if isinstance(document.get(kind), list):
                document = {**document, kind: [self._shown(each) for each in document[kind]]}
        return document


class _KeepingLog(EngineLog):
    """Records the provider's messages."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self._told = told

    def write(self, urn: str, text: str, *, passing: bool = False, warning: bool = False) -> None:
        del urn, warning
        if not passing:
            self._told.append(text)


class EdgeRig(ServicerRig):
    """A :class:`ServicerRig` that records the provider's messages and can mask states.

    Attributes:
        told: the provider's messages since they were last cleared.
        masks: the masks over the cloud's answers.
    """

    def __init__(self, state_dir: Path, *, strict: bool = False) -> None:
        self.told: list[str] = []
        self.masks: list[Mask] = []
        super().__init__(state_dir, strict=strict)
        self.log = _KeepingLog(self.told)

    def reset(self, seed: int) -> None:
        self.masks.clear()
        self.told.clear()
        super().reset(seed)

    def client(self) -> TpuClient:
        """A client that sees the cloud through the masks."""
        return TpuClient(self._transport(self.direct.timing()))

    # -- what is there ------------------------------------------------------------------------

    def queued(self) -> QueuedResource | None:
        """The program's queued resource, as the cloud stores it."""
        self.direct.cloud.tick()
        found = self.direct.cloud.tpu.queue.in_place(PLACE)
        return found[0] if found else None

    def node(self) -> Node | None:
        """Its node."""
        found = self.direct.cloud.tpu.nodes.in_place(PLACE)
        return found[0] if found else None

    def there(self) -> QueuedResource:
        """The queued resource, which must exist."""
        found = self.queued()
        assert found is not None
        return found

    def shown(self) -> tuple[str, str]:
        """The states of queued resource and node as a client sees them; empty if absent."""
        client = self.client()
        try:
            requests_ = client.list_queued_resources(CLOUD_PROJECT, ZONE).queued_resources
        except ServiceDisabledError:
            return "", ""  # nothing can have been made in a project where the API is not on yet
        nodes = client.list_nodes(CLOUD_PROJECT, ZONE).nodes
        return (
            requests_[0].state.state if requests_ else "",
            nodes[0].state if nodes else "",
        )

    # -- what happens -------------------------------------------------------------------------

    def pass_time(self, seconds: float, **rule: Any) -> None:
        """Set capacity rules, and let time pass under them."""
        self.direct.capacity(**rule)
        self.direct.clock.advance(seconds)
        self.direct.cloud.tick()

    def put(self, state: QueuedState, initiator: Initiator, **changes: Any) -> None:
        """Put the queued resource into a state that the cloud would not enter by itself."""
        found = self.there()
        now = self.direct.clock.now()
        entered = dataclasses.replace(found, state=state, since=now, initiator=initiator, **changes)
        self.direct.cloud.tpu.queue.enter(entered)

    def cover(self, kind: str, shown: str) -> None:
        """Mask the current state of the queued resource or of its node with ``shown``."""
        found = self.there() if kind == "queuedResources" else self.node()
        assert found is not None
        document = self._api_call("GET", found.name)
        state = document["state"]
        under = state["state"] if isinstance(state, dict) else state
        self.masks.append(Mask(kind, under, shown, document["createTime"]))

    def forget_node(self) -> None:
        """Make the node vanish."""
        node = self.node()
        assert node is not None
        self.direct.cloud.tpu.nodes.remove(node)

    def forget_request(self) -> None:
        """Make the queued resource vanish; its node remains as an orphan."""
        queued, node = self.there(), self.node()
        self.direct.cloud.store.delete(QueuedResource.collection, queued.name)
        if node is not None:
            self.direct.cloud.tpu.nodes.put(dataclasses.replace(node, queued_resource=""))

    def by_api(self, what: Callable[[TpuClient, RequestName], object]) -> None:
        """Call the API as somebody else."""
        what(self.client(), self.name())

    def name(self) -> RequestName:
        """The name of the program's request."""
        return RequestName(CLOUD_PROJECT, ZONE, f"{NAMES.prefix}-g1")

    def on_node(self, verb: str) -> None:
        """Have somebody stop or start the node."""
        name = self.name()
        self._api_call("POST", f"{name.node(name.id)}:{verb}", {})

    def on_request(self, verb: str) -> None:
        """Have somebody reset the queued resource."""
        self._api_call("POST", f"{self.name()}:{verb}", {})

    def serve(self) -> None:
        """Let the nodes' hosts report that they have booted and served."""
        self.hosts.serve()

    def report(self, report: Json, serving: Json | None = None) -> None:
        """Let the host of the latest node report this from now on, and of serving that."""
        nodes = self.direct.cloud.tpu.nodes.in_place(PLACE)
        self.hosts.tell(max(nodes, key=lambda each: each.id), report, serving)

    def make_node(self, labels: Mapping[str, str]) -> None:
        """Have somebody create a node with our name directly, not through the queue."""
        node = {
            "acceleratorType": "v6e-4",
            "runtimeVersion": "v2-alpha-tpuv6e",
            "labels": dict(labels),
        }
        name = self.name()
        self._api_call("POST", f"{name.parent}/nodes", node, {"nodeId": name.id})

    def take_name(self) -> None:
        """Have somebody else request a slice under our name."""
        self.ask({LABEL_OWNER: "ffff", LABEL_STACK: "prod"})

    def ask(self, labels: Mapping[str, str] = MappingProxyType({}), *, valid_for: str = "") -> None:
        """Have somebody request a slice under the program's name."""
        name = self.name()
        node = {
            "acceleratorType": "v6e-4",
            "runtimeVersion": "v2-alpha-tpuv6e",
            "labels": dict(labels),
        }
        body: Json = {
            "tpu": {"nodeSpec": [{"parent": name.parent, "nodeId": name.id, "node": node}]},
            "provisioningModel": "FLEX_START",
            "runDuration": {"maxRunDuration": "14400s"},
        }
        if valid_for:
            body["queueingPolicy"] = {"validUntilDuration": valid_for}
        self.client().create_queued_resource(name, body, request_id="")

    def _api_call(
        self, method: str, path: str, body: Json | None = None, query: Json | None = None
    ) -> Json:
        transport = self._transport(self.direct.timing())
        return dict(transport.call(method, f"/v2alpha1/{path}", query=query or {}, body=body))

    def _transport(self, timing: Timing) -> Transport:
        return Transport(_MaskedSession(self), self.direct.cloud.base_url, timing)
