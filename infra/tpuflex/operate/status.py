"""Where an endpoint stands: the request in the queue, its node, and the host's own report.

Read from the Cloud TPU API, not from Pulumi's state, so it needs no engine and tells the
truth also after somebody else has changed something.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from tpuflex.catalog.cost import expiry
from tpuflex.errors import NotFoundError
from tpuflex.naming import LABEL_OWNER, Names, generation_of
from tpuflex.operate.host import NAMESPACE, HostReport, host_report
from tpuflex.operate.slice import SliceStatus
from tpuflex.request.causes import classify
from tpuflex.request.outcomes import TABLE, Condition
from tpuflex.request.states import NOT_FOUND, Lifecycle, describe, lifecycle

if TYPE_CHECKING:
    from tpuflex.gcp.queued_resources import Listing, NodeListing
    from tpuflex.request.model import Node, QueuedResource
    from tpuflex.settings.model import StackSettings

#: Which of several requests is the endpoint: the further along, the better.
_RANK = (
    Lifecycle.ACTIVE,
    Lifecycle.PROVISIONING,
    Lifecycle.WAITING,
    Lifecycle.DELETING,
    Lifecycle.LOST,
    Lifecycle.ENDED,
    Lifecycle.FAILED,
)


class Tpu(Protocol):
    """The part of :class:`tpuflex.gcp.queued_resources.TpuClient` that is used here."""

    def list_queued_resources(self, project: str, zone: str) -> Listing:
        """All queued resources of a zone."""

    def get_node(self, node: str) -> Node | None:
        """The node with that full name."""

    def list_nodes(self, project: str, zone: str) -> NodeListing:
        """All nodes of a zone."""

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        """What each host of the node wrote."""


def slice_status(
    settings: StackSettings, names: Names, tpu: Tpu, *, now: datetime | None = None
) -> SliceStatus:
    """The endpoint's slice: of several requests, the one that is furthest along.

    Args:
        settings: the stack's settings, which name the zones.
        names: the endpoint's names, which tell what is its own.
        tpu: the TPU API.
        now: the time, which tells a run that somebody cut short from one that is over.

    Raises:
        NotFoundError: no zone of the stack holds a request or node of the endpoint.
    """
    moment = now or datetime.now(UTC)
    found = [*_requests(settings, names, tpu, moment)]
    found += _orphans(settings, names, tpu, {(s.zone, s.queued_resource) for s in found})
    if not found:
        raise _absent(settings, names, tpu)
    best = min(found, key=lambda status: _RANK.index(status.lifecycle))
    rest = tuple(f"{s.queued_resource} in {s.zone}: {s.state}" for s in found if s is not best)
    best = replace(best, others=rest)
    if not best.node_state:
        return best
    return replace(best, host=observe_host(best.node, tpu))


def _absent(settings: StackSettings, names: Names, tpu: Tpu) -> NotFoundError:
    """The error for an endpoint that is not there; tells a free name from one that is taken."""
    zones = ", ".join(settings.slice.zones)
    for zone in settings.slice.zones:
        requests = tpu.list_queued_resources(settings.project, zone).queued_resources
        nodes = tpu.list_nodes(settings.project, zone).nodes
        names_there = [*(each.name for each in requests), *(each.name for each in nodes)]
        for identity in (name.rpartition("/")[2] for name in names_there):
            if generation_of(names.prefix, identity) is not None:
                return NotFoundError(
                    f"Stack {names.stack} has no queued resource in {zones},"
                    f" and {identity} in {zone} belongs to somebody else.",
                    hint=f"{TABLE[Condition.FOREIGN].status.text}.",
                )
    hint = f"{TABLE[Condition.GONE].status.text}: tpuflex up --stack {names.stack}"
    if settings.slice.on_run_end == "delete" and settings.slice.renew_before is None:
        # The cloud does not show it, but the state remembers a run whose leftover `up` deleted.
        hint += "\nAfter a run that ended: change tpuflex:slice.rerun first."
    return NotFoundError(f"Stack {names.stack} has no queued resource in {zones}.", hint=hint)


def observe_host(node: str, tpu: Tpu) -> HostReport | None:
    """The report of the node's first host; None when it has written none yet."""
    try:
        hosts = tpu.guest_attributes(node, NAMESPACE)
    except NotFoundError:
        return None
    return host_report(hosts[0]) if hosts else None


def _requests(
    settings: StackSettings, names: Names, tpu: Tpu, now: datetime
) -> Iterable[SliceStatus]:
    for zone in settings.slice.zones:
        for request in tpu.list_queued_resources(settings.project, zone).queued_resources:
            if request.spec.node.labels.get(LABEL_OWNER) == names.owner:
                yield _status(request, zone, tpu, now)


def _orphans(
    settings: StackSettings, names: Names, tpu: Tpu, known: set[tuple[str, str]]
) -> Iterable[SliceStatus]:
    """Nodes of the endpoint without a queued resource: they are billed all the same."""
    for zone in settings.slice.zones:
        for node in tpu.list_nodes(settings.project, zone).nodes:
            held_by = (node.queued_resource or node.name).rpartition("/")[2]
            if node.labels.get(LABEL_OWNER) == names.owner and (zone, held_by) not in known:
                status = SliceStatus(
                    queued_resource=node.name.rpartition("/")[2],
                    zone=zone,
                    state=NOT_FOUND,
                    lifecycle=Lifecycle.LOST,
                    sentence=TABLE[Condition.ORPHANED].meaning,
                    node=node.name,
                )
                yield _with_node(status, node, [])


def _status(request: QueuedResource, zone: str, tpu: Tpu, now: datetime) -> SliceStatus:
    identity = request.name.rpartition("/")[2]
    parent = request.name.partition("/queuedResources/")[0]
    node_name = f"{parent}/nodes/{request.node_ids(identity)[0]}"
    node = tpu.get_node(node_name)
    stands = lifecycle(
        request.state.state,
        node.state if node else None,
        cut_short=request.cut_short(now.timestamp()),
        too_early=request.too_early(now.timestamp()),
    )
    sentence = describe(request.state.state)
    if stands is Lifecycle.LOST:
        sentence = TABLE[Condition.NODE_MISSING].meaning
    failed = request.state.failed_data
    error = ""
    if failed is not None:
        cause = classify(failed.error.code, failed.error.message)
        error = f"{failed.error.message} (cause: {cause})"
    status = SliceStatus(
        queued_resource=identity,
        zone=zone,
        state=request.state.state,
        lifecycle=stands,
        sentence=sentence,
        error=error,
        created=_time(request.create_time),
        node=node_name,
    )
    return status if node is None else _with_node(status, node, _endings(request, node))


def _with_node(status: SliceStatus, node: Node, endings: list[datetime]) -> SliceStatus:
    endpoints = node.network_endpoints
    return replace(
        status,
        node_state=node.state,
        health=node.health,
        address=endpoints[0].ip_address if endpoints else "",
        active_since=_time(node.create_time),
        expires=min(endings, default=None),
    )


def _endings(request: QueuedResource, node: Node) -> list[datetime]:
    """Every time at which Google says that the run ends; before it says so, what was asked for."""
    said = (request.run_duration.termination_time, node.scheduling_config.termination_timestamp)
    times = [time for time in map(_time, said) if time is not None]
    began = _time(node.create_time)
    asked = request.run_duration.max_run_duration.removesuffix("s")
    if not times and began is not None and asked.isdigit():
        return [expiry(began, timedelta(seconds=int(asked)))]
    return times


def _time(text: str) -> datetime | None:
    """An RFC 3339 time; None when it is absent or unreadable."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
