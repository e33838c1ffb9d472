"""Client of the Cloud TPU API v2alpha1: queued resources, nodes and operations.

Plain REST: no published client library can express Flex-start, and why none reads the rest says
docs/adr/0044-googles-tpu-client-reads-nothing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from tpuflex.errors import ApiError, NotFoundError
from tpuflex.google.paging import entries, objects, pages
from tpuflex.google.timing import DEFAULT_BUDGET
from tpuflex.host.report import NAMESPACE, HostReport, host_report
from tpuflex.queued_resource.model import (
    GuestAttributesAnswer,
    Node,
    NodeList,
    Operation,
    QueuedResource,
    QueuedResourceList,
)
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle, lifecycle

if TYPE_CHECKING:
    # Not needed to run: importing requests is put off until there is something to send.
    from tpuflex.google.transport import Api

JsonObject = dict[str, JsonValue]

_VERSION = "/v2alpha1/"
#: Of these, no node can be there that would tell more than the queued resource itself.
_BEFORE_NODE = frozenset({Lifecycle.WAITING, Lifecycle.PROVISIONING})
_Answer = TypeVar("_Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class QueuedResourceListing:
    """All pages of a list.

    Attributes:
        queued_resources: what was found.
        unreachable: locations that did not answer; the list is incomplete if there are any.
    """

    queued_resources: tuple[QueuedResource, ...]
    unreachable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeListing:
    """All pages of a list of nodes; incomplete if any location is ``unreachable``."""

    nodes: tuple[Node, ...]
    unreachable: tuple[str, ...]


class TpuClient:
    """Calls of the TPU API.

    ``get_*`` answer None for what does not exist; their ``budget`` is how many seconds retries
    may take: little where the caller polls anyway. All else raises as
    :meth:`tpuflex.google.transport.Transport.call` says. Safe to use from several threads.
    """

    def __init__(self, transport: Api) -> None:
        self._transport = transport

    def create_queued_resource(
        self, name: RequestName, body: JsonObject, *, request_id: str
    ) -> Operation:
        """Ask for a slice. ``request_id`` makes the retries of this one call idempotent."""
        query = {"queuedResourceId": name.id, "requestId": request_id}
        answer = self._transport.call(
            "POST", f"{_VERSION}{name.parent}/queuedResources", query=query, body=body
        )
        return _read(Operation, answer)

    def get_queued_resource(
        self, name: RequestName, *, budget: float = DEFAULT_BUDGET
    ) -> QueuedResource | None:
        """The queued resource ``name``."""
        return self._get(QueuedResource, str(name), budget)

    def delete_queued_resource(
        self, name: RequestName, *, request_id: str, force: bool = True
    ) -> Operation:
        """Delete ``name``; with ``force`` its nodes first, without which an ACTIVE one is refused.

        Raises:
            NotFoundError: it is gone already.
            ConflictError: not possible in its present state, such as PROVISIONING.
        """
        query = {"force": "true" if force else "false", "requestId": request_id}
        answer = self._transport.call("DELETE", f"{_VERSION}{name}", query=query)
        return _read(Operation, answer)

    def reset_queued_resource(self, name: RequestName) -> Operation:
        """Boot the machines of ``name`` again, which is ACTIVE.

        Google documents no more than that it "resets" them. Who did it found the same machines
        rebooted within minutes, with their disks and what was in memory lost.

        Raises:
            ConflictError: it is in another state.
        """
        return _read(Operation, self._transport.call("POST", f"{_VERSION}{name}:reset", body={}))

    def list_queued_resources(self, project: str, zone: str) -> QueuedResourceListing:
        """All queued resources of a zone; the zone ``-`` stands for all zones."""
        answers = [
            _read(QueuedResourceList, page)
            for page in self._pages(f"projects/{project}/locations/{zone}/queuedResources")
        ]
        return QueuedResourceListing(
            tuple(item for answer in answers for item in answer.queued_resources),
            tuple(place for answer in answers for place in answer.unreachable),
        )

    def snapshot(
        self, name: RequestName, wall: Callable[[], float], *, budget: float = DEFAULT_BUDGET
    ) -> Snapshot:
        """The queued resource ``name`` and all of its nodes as they are now.

        Args:
            name: the queued resource.
            wall: the clock, in seconds since the epoch.
            budget: seconds that the retries of each question may take.
        """
        request = self.get_queued_resource(name, budget=budget)
        at = wall()
        if request is not None:
            name = replace(name, nodes=request.node_ids(name.id))
            if lifecycle(request.state.state, None) in _BEFORE_NODE:
                return Snapshot(name, request, Nodes(name.node_ids), at)
        nodes = self._nodes(name, budget, unexpected=request is None)
        return Snapshot(name, request, Nodes(name.node_ids, nodes), at)

    def _nodes(self, name: RequestName, budget: float, *, unexpected: bool) -> tuple[Node, ...]:
        """The nodes of ``name``: one question for one node, one list for several. What the list
        leaves out is asked for by itself, before it counts as missing.

        With ``unexpected``, of several also nodes with other ids that name it as the request that
        made them.
        """
        listed: dict[str, Node] = {}
        if len(name.node_ids) > 1:
            zone = self.list_nodes(name.project, name.zone, budget=budget)
            listed = {node.id: node for node in zone.nodes}
        nodes = [
            listed.pop(id_, None) or self.get_node(name.node(id_), budget=budget)
            for id_ in name.node_ids
        ]
        if unexpected:
            nodes += [node for node in listed.values() if name.holds(node)]
        return tuple(node for node in nodes if node is not None)

    def get_node(self, node: str, *, budget: float = DEFAULT_BUDGET) -> Node | None:
        """The node with the full name ``node``."""
        return self._get(Node, node, budget)

    def list_nodes(self, project: str, zone: str, *, budget: float = DEFAULT_BUDGET) -> NodeListing:
        """All nodes of a zone; the zone ``-`` stands for all zones."""
        answers = [
            _read(NodeList, page)
            for page in self._pages(f"projects/{project}/locations/{zone}/nodes", budget)
        ]
        return NodeListing(
            tuple(item for answer in answers for item in answer.nodes),
            tuple(place for answer in answers for place in answer.unreachable),
        )

    def patch_node(self, node: str, body: JsonObject, *, mask: Iterable[str]) -> Operation:
        """Change the fields of ``node`` that ``mask`` names."""
        query = {"updateMask": ",".join(mask)}
        return _read(
            Operation, self._transport.call("PATCH", f"{_VERSION}{node}", query=query, body=body)
        )

    def delete_node(self, node: str) -> Operation:
        """Delete a node that no queued resource holds.

        Raises:
            NotFoundError: it is gone already.
        """
        return _read(Operation, self._transport.call("DELETE", f"{_VERSION}{node}"))

    def list_accelerator_types(self, project: str, zone: str) -> tuple[JsonObject, ...]:
        """The accelerator types that ``zone`` knows, each with `type` and `acceleratorConfigs`.

        Raises:
            AccessError: the caller lacks tpu.acceleratortypes.list.
        """
        found = self._offered(project, zone, "acceleratorTypes")
        keys = ("type", "acceleratorConfigs")
        each = ({key: item[key] for key in keys if key in item} for item in found)
        return tuple(sorted(each, key=lambda item: str(item.get("type"))))

    def list_runtime_versions(self, project: str, zone: str) -> tuple[str, ...]:
        """The TPU software versions that ``zone`` knows.

        Raises:
            AccessError: the caller lacks tpu.runtimeversions.list.
        """
        found = self._offered(project, zone, "runtimeVersions")
        return tuple(sorted(str(item["version"]) for item in found if "version" in item))

    def _offered(self, project: str, zone: str, collection: str) -> list[JsonObject]:
        """All of a list that Cloud TPU keeps for ``zone``.

        Raises:
            ApiError: the zone did not answer.
        """
        found: list[JsonObject] = []
        for page in self._pages(f"projects/{project}/locations/{zone}/{collection}"):
            if entries(page, "unreachable"):
                raise ApiError(f"{zone} did not answer, so its {collection} are not known")
            found += objects(page, collection)
        return found

    def get_operation(self, name: str, *, budget: float = DEFAULT_BUDGET) -> Operation | None:
        """The operation ``name``; None once Google no longer keeps it."""
        return self._get(Operation, name, budget)

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        """What each host of ``node`` wrote into its guest attributes under ``namespace``.

        Raises:
            NotFoundError: there is no such node, or nothing was written yet.
        """
        answer = self._transport.call(
            "POST",
            f"{_VERSION}{node}:getGuestAttributes",
            body={"queryPath": f"{namespace}/"},
        )
        hosts = _read(GuestAttributesAnswer, answer).guest_attributes
        return tuple({item.key: item.value for item in host.query_value.items} for host in hosts)

    def _get(self, kind: type[_Answer], name: str, budget: float) -> _Answer | None:
        try:
            return _read(kind, self._transport.call("GET", f"{_VERSION}{name}", budget=budget))
        except NotFoundError:
            return None

    def _pages(self, collection: str, budget: float = DEFAULT_BUDGET) -> Iterable[JsonObject]:
        path = f"{_VERSION}{collection}"
        return pages(self._transport, path, {"pageSize": "500"}, budget=budget)


def _read(kind: type[_Answer], answer: JsonObject) -> _Answer:
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, item["loc"])) for item in error.errors())
        raise ApiError(f"the TPU API answered with unexpected types in: {fields}") from error


class GuestAttributes(Protocol):
    """The part of :class:`TpuClient` that is used here."""

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        """What each host of the node wrote."""


def observe_host(node: str, tpu: GuestAttributes) -> HostReport | None:
    """What the first host of ``node``, its full name, says of itself; None when it has written
    nothing yet.

    Raises:
        AccessError, ApiError: the API refuses, or does not answer.
    """
    try:
        hosts = tpu.guest_attributes(node, NAMESPACE)
    except NotFoundError:
        return None
    return host_report(hosts[0]) if hosts else None
