"""The queue of requests for TPUs, and how a request changes as time passes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from functools import partial

from embedded_cloud.core.clock import parse_duration
from embedded_cloud.core.errors import already_exists, not_found
from embedded_cloud.core.json_types import JsonObject, child, children, text
from embedded_cloud.core.routing import Context
from embedded_cloud.services.tpu import lifecycle, quota, validation
from embedded_cloud.services.tpu.capacity import CapacityBook, CapacityRule
from embedded_cloud.services.tpu.nodes import Nodes
from embedded_cloud.services.tpu.records import NodeState, Place, QueuedResource, QueuedState


class Queue:
    """The queued resources of all places; creates and removes their nodes."""

    def __init__(self, context: Context, capacity: CapacityBook, nodes: Nodes) -> None:
        self._store = context.store
        self._clock = context.clock
        self._capacity = capacity
        self._nodes = nodes

    def get(self, place: Place, queued_id: str) -> QueuedResource:
        """One queued resource; 404 if there is none."""
        name = f"{place.parent}/queuedResources/{queued_id}"
        queued = self.find(name)
        if queued is None:
            raise not_found(f"Resource '{name}' was not found")
        return queued

    def find(self, name: str) -> QueuedResource | None:
        """The queued resource of that full name, or ``None``."""
        document = self._store.get(QueuedResource.collection, name)
        return None if document is None else QueuedResource.from_json(document)

    def in_place(self, place: Place) -> list[QueuedResource]:
        """The queued resources of a place; zone ``-`` means all zones."""
        return [
            queued
            for queued in self._all(f"projects/{place.project}/locations/")
            if queued.zone == place.zone or place.zone == "-"
        ]

    def add(self, place: Place, queued_id: str, spec: JsonObject) -> QueuedResource:
        """Add a valid request; 409 if one of its ids is taken, 429 if it exceeds the quota."""
        queued = self._requested(place, queued_id, spec)
        self._check_free(queued)
        self.check_quota(place, quota.of_queued_resource(place, spec))
        self._put(queued)
        return queued

    def check_quota(self, place: Place, needed: Counter[str]) -> None:
        """429 if ``needed``, by quota id, is more than the project has left in the zone."""
        quota.check(
            place,
            needed,
            limit=partial(self._capacity.current().limit, place.zone),
            queued=self.in_place(place),
            nodes=self._nodes.in_place(place),
        )

    def promised(self, place: Place) -> set[str]:
        """Ids of the nodes that requests in this place have or may still get."""
        return {
            node_id
            for queued in self.in_place(place)
            if queued.state not in lifecycle.ENDED
            for node_id in validation.node_ids(queued.id, queued.spec)
        }

    def poll(self, queued: QueuedResource) -> bool:
        """Count a GET of ``queued``; true if that changed anything."""
        polled = lifecycle.polled(queued, self._rule(queued.place), self._clock.now())
        if polled is queued:
            return False
        self._put(polled)
        return True

    def reset(self, queued: QueuedResource) -> None:
        """Boot the machines of an ACTIVE request again; they and the request stay what they are.
        Google documents no more than the name; so it was seen on a slice of eight hosts
        (2026-08-17: rebooted within four minutes, disks intact, what was in memory lost)."""
        lifecycle.require_resettable(queued)
        for node in self._nodes.of_queued_resource(queued.name):
            if node.state is NodeState.READY:
                self._nodes.enter(node, node.state, self._clock.now())

    def lose(self, queued: QueuedResource) -> None:
        """Forget ``queued`` but keep its nodes; those that are being deleted still go."""
        self._store.delete(QueuedResource.collection, queued.name)
        for node in self._nodes.of_queued_resource(queued.name):
            if node.state is NodeState.DELETING:
                self._nodes.put(dataclasses.replace(node, queued_resource=""))

    def sync(self, now: float) -> None:
        """Apply everything that is due by ``now``, each change at its own time."""
        since = self._capacity.since()
        for queued in list(self._all()):
            current = queued
            while current.state is not QueuedState.GONE:
                rule = self._rule(current.place)
                following = lifecycle.next_change(current, rule, rule_since=since)
                if following is None or following.since > now:
                    break
                self.enter(following)
                current = following

    def enter(self, queued: QueuedResource) -> None:
        """Store ``queued`` in its new state, and bring its nodes in line."""
        match queued.state:
            case QueuedState.PROVISIONING:
                self._create_nodes(queued)
            case QueuedState.ACTIVE:
                self._enter_nodes(queued, NodeState.READY)
            case QueuedState.SUSPENDING | QueuedState.DELETING:
                self._enter_nodes(queued, NodeState.DELETING)
            case QueuedState.SUSPENDED | QueuedState.FAILED | QueuedState.GONE:
                self._remove_nodes(queued)
            case _:
                pass
        if queued.state is QueuedState.GONE:
            self._store.delete(QueuedResource.collection, queued.name)
        else:
            self._put(queued)

    def _create_nodes(self, queued: QueuedResource) -> None:
        ids = iter(validation.node_ids(queued.id, queued.spec))
        for node_spec in children(child(queued.spec, "tpu"), "nodeSpec"):
            for _ in range(validation.node_count(node_spec)):
                self._nodes.create(
                    queued.place,
                    next(ids),
                    child(node_spec, "node"),
                    api_version="V2_ALPHA1",
                    at=queued.since,
                    queued_resource=queued.name,
                )

    def _enter_nodes(self, queued: QueuedResource, state: NodeState) -> None:
        for node in self._nodes.of_queued_resource(queued.name):
            self._nodes.enter(node, state, queued.since)

    def _remove_nodes(self, queued: QueuedResource) -> None:
        for node in self._nodes.of_queued_resource(queued.name):
            self._nodes.remove(node)

    def _requested(self, place: Place, queued_id: str, spec: JsonObject) -> QueuedResource:
        now = self._clock.now()
        run = child(spec, "runDuration")
        run_for = text(run, "maxRunDuration")
        after, until = _validity(child(spec, "queueingPolicy"), now)
        return QueuedResource(
            project=place.project,
            zone=place.zone,
            id=queued_id,
            spec=spec,
            created_at=now,
            since=now,
            rejection=validation.flex_rejection(
                place, spec, self._capacity.current().unsupported_zones
            ),
            valid_after=after,
            valid_until=until,
            run_for=parse_duration(run_for) if run_for else None,
            run_until=validation.moment(
                "run_duration.termination_time", text(run, "terminationTime")
            ),
        )

    def _check_free(self, requested: QueuedResource) -> None:
        """409 if the id is taken, or a node id by a node or by a request that may get it."""
        if self.find(requested.name) is not None:
            raise already_exists(f"Resource '{requested.name}' already exists")
        taken = {node.id for node in self._nodes.in_place(requested.place)}
        taken |= self.promised(requested.place)
        for node_id in validation.node_ids(requested.id, requested.spec):
            if node_id in taken:
                name = f"{requested.place.parent}/nodes/{node_id}"
                raise already_exists(f"Resource '{name}' already exists")
            taken.add(node_id)

    def _all(self, prefix: str = "") -> Iterator[QueuedResource]:
        for _, document in self._store.list(QueuedResource.collection, prefix):
            yield QueuedResource.from_json(document)

    def _put(self, queued: QueuedResource) -> None:
        self._store.put(QueuedResource.collection, queued.name, queued.to_json())

    def _rule(self, place: Place) -> CapacityRule:
        return self._capacity.current().rule(place.zone)


def _validity(policy: JsonObject, now: float) -> tuple[float | None, float | None]:
    """The queueing policy as (not before, not after), in epoch seconds."""
    interval = child(policy, "validInterval")
    after = validation.moment("queueing_policy.valid_after_time", text(policy, "validAfterTime"))
    until = validation.moment("queueing_policy.valid_until_time", text(policy, "validUntilTime"))
    if text(policy, "validAfterDuration"):
        after = now + parse_duration(text(policy, "validAfterDuration"))
    if text(policy, "validUntilDuration"):
        until = now + parse_duration(text(policy, "validUntilDuration"))
    if interval:
        field = "queueing_policy.valid_interval"
        after = validation.moment(f"{field}.start_time", text(interval, "startTime"))
        until = validation.moment(f"{field}.end_time", text(interval, "endTime"))
    return after, until
