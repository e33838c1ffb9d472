"""Lists of the TPU API that the statuses of many stacks share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tpuflex.google.queued_resources import NodeListing, QueuedResourceListing
    from tpuflex.operate.slice import Tpu
    from tpuflex.queued_resource.model import Node

_Answer = TypeVar("_Answer")


class TpuLists:
    """The TPU API at one time, for the statuses of any number of stacks
    (:func:`tpuflex.operate.slice.slice_status`): each list is read once, nodes are found in it, and
    guest attributes alone are asked for one by one.

    Safe to use from several threads: while one reads a list, the others wait for it.

    Args:
        tpu: the API.
    """

    def __init__(self, tpu: Tpu) -> None:
        self._tpu = tpu
        self._lock = Lock()
        self._lists = dict[tuple[str, ...], Future[Any]]()

    def list_queued_resources(self, project: str, zone: str) -> QueuedResourceListing:
        """All queued resources of a zone."""
        read = partial(self._tpu.list_queued_resources, project, zone)
        return self._once(("queued resources", project, zone), read)

    def list_nodes(self, project: str, zone: str) -> NodeListing:
        """All nodes of a zone."""
        return self._once(("nodes", project, zone), partial(self._tpu.list_nodes, project, zone))

    def get_node(self, node: str) -> Node | None:
        """The node with that full name; asked for by itself only where the list of its zone is not
        whole."""
        _, project, _, zone, _, id_ = node.split("/")
        listing = self.list_nodes(project, zone)
        found = next((each for each in listing.nodes if each.id == id_), None)
        if found is None and listing.unreachable:
            return self._tpu.get_node(node)
        return found

    @property
    def whole(self) -> bool:
        """Whether every list that was read so far has all that there is."""
        with self._lock:
            read = [each.result() for each in self._lists.values() if each.done()]
        return not any(getattr(each, "unreachable", ()) for each in read)

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        """What each host of the node wrote."""
        return self._tpu.guest_attributes(node, namespace)

    def _once(self, what: tuple[str, ...], read: Callable[[], _Answer]) -> _Answer:
        with self._lock:
            first = what not in self._lists
            answer: Future[_Answer] = self._lists.setdefault(what, Future())
        if first:
            try:
                answer.set_result(read())
            except BaseException as error:
                answer.set_exception(error)
        return answer.result()
