"""An endpoint's slice as the cloud has it: the request in the queue, its nodes, the host's report;
and what follows from that: advice, exit code, cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from tpuflex.advice import Advice
from tpuflex.boot.planned import planned_weights
from tpuflex.errors import AccessError, ApiError, NotFoundError, TpuflexError
from tpuflex.google.queued_resources import observe_host
from tpuflex.host.report import HostReport
from tpuflex.host.serving import ServingPhase
from tpuflex.inventory.listing import ANY_ZONE
from tpuflex.naming import LABEL_OWNER, LABEL_STATE, Names, generation_of
from tpuflex.queued_resource.causes import Cause, explained
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.outcomes import (
    BOOTING,
    DEGRADED,
    DRAINING,
    HOST_FAILED,
    SERVER_FAILED,
    TABLE,
    UNREAD,
    Condition,
    Outcome,
    condition_of,
)
from tpuflex.queued_resource.snapshot import Snapshot, parse_time, ranked
from tpuflex.queued_resource.states import NOT_FOUND, Lifecycle

if TYPE_CHECKING:
    from tpuflex.google.queued_resources import NodeListing, QueuedResourceListing
    from tpuflex.queued_resource.model import Node
    from tpuflex.settings.model import StackSettings


_SECONDS_PER_HOUR = 3600
_CENT = Decimal("0.01")
#: What to do about a host that was READY, by what it has said since.
_SERVERS: Mapping[ServingPhase, Outcome] = {
    ServingPhase.SERVING: TABLE[Condition.ACTIVE].status,
    ServingPhase.DRAINING: DRAINING,
    ServingPhase.DEGRADED: DEGRADED,
    ServingPhase.FAILED: SERVER_FAILED,
}


@dataclass(frozen=True, slots=True)
class SliceStatus:
    """One request for a slice and its present state.

    Attributes:
        queued_resource: id of the queued resource.
        zone: its zone.
        state: Google's word for its state.
        lifecycle: our word.
        sentence: the state in plain words.
        error: why it failed, in Google's words, or empty.
        cause: why it failed, by what can be done about it; None where it has not.
        created: when it was requested.
        node: full name of the node.
        node_state: Google's word for the node's state, or empty when there is none.
        health: the node's health, or empty.
        address: the first host's internal address, or empty.
        active_since: when the node was made.
        expires: when Google ends the run.
        gives_up: when Google gives the request up, while it waits; None if it waits for good.
        host: the host's own report, or None before its first.
        unread: why the host's report could not be read, or empty.
        others: further requests of the endpoint, a line each.
        others_since: when the node of each further request that has one was made: it is billed.
        weights: SHA-256 of the manifest of the weights that the node was made for, or empty.
        state_id: id of the state that made it; empty if a version without state ids did.
    """

    queued_resource: str
    zone: str
    state: str
    lifecycle: Lifecycle
    sentence: str
    error: str = ""
    created: datetime | None = None
    node: str = ""
    node_state: str = ""
    health: str = ""
    address: str = ""
    active_since: datetime | None = None
    expires: datetime | None = None
    gives_up: datetime | None = None
    host: HostReport | None = None
    unread: str = ""
    others: tuple[str, ...] = ()
    others_since: tuple[datetime, ...] = ()
    weights: str = ""
    state_id: str = ""
    cause: Cause | None = None

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        *,
        others: Collection[Snapshot] = (),
        reports: Mapping[RequestName, HostReport | None] | None = None,
    ) -> SliceStatus:
        """What ``snapshot`` shows of the slice, and ``others`` of further requests for it, with the
        ``reports`` of their hosts, as far as these were read."""
        said = reports or {}
        name, nodes, failure = snapshot.name, snapshot.nodes, snapshot.failure
        endpoints = nodes.first.network_endpoints if nodes.first is not None else ()
        planned = planned_weights(nodes.first.metadata) if nodes.first is not None else None
        return cls(
            queued_resource=name.id,
            zone=name.zone,
            state=snapshot.state,
            lifecycle=snapshot.lifecycle,
            sentence=snapshot.meaning,
            error="" if failure is None else explained(failure.message, snapshot.cause),
            created=parse_time(snapshot.created),
            node=name.node(name.node_ids[0]),
            node_state=(nodes.state or "") if nodes.found else "",
            health=nodes.health or "",
            address=endpoints[0].ip_address if endpoints else "",
            active_since=parse_time(snapshot.active_since),
            expires=snapshot.expires,
            gives_up=snapshot.gives_up if snapshot.lifecycle is Lifecycle.WAITING else None,
            others=tuple(_line(each, said.get(each.name)) for each in others),
            others_since=tuple(
                since
                for each in others
                if each.nodes.found and (since := parse_time(each.active_since)) is not None
            ),
            weights=planned.manifest_sha256 if planned is not None else "",
            state_id=snapshot.labels.get(LABEL_STATE, ""),
            cause=snapshot.cause if snapshot.lifecycle is Lifecycle.FAILED else None,
        )

    @property
    def request(self) -> str:
        """Full name of the queued resource."""
        return f"{self.node.rpartition('/nodes/')[0]}/queuedResources/{self.queued_resource}"

    def granted_since(self, before: SliceStatus) -> bool:
        """Whether its hosts were made after ``before`` was read: it is another request, or the
        same one, which was still in the queue or being made."""
        same = (self.request, self.created) == (before.request, before.created)
        return not same or before.lifecycle is Lifecycle.WAITING or before.state == "PROVISIONING"

    @property
    def condition(self) -> Condition:
        """Its row in the refresh table."""
        there = self.state != NOT_FOUND
        return condition_of(self.lifecycle, queued_resource=there, node=bool(self.node_state))

    @property
    def outcome(self) -> Outcome:
        """What to do about it, and the exit code for scripts that poll."""
        if self.lifecycle is not Lifecycle.ACTIVE or self.ready:
            return TABLE[self.condition].status
        if self.unread:
            return UNREAD
        if self.host is not None and self.host.ready and self.host.serving is not None:
            return _SERVERS[self.host.serving.phase]
        return HOST_FAILED if self.host is not None and self.host.error else BOOTING

    @property
    def advice(self) -> Advice:
        """What to do about it."""
        return Advice.of(self.outcome.text)

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        return self.lifecycle is Lifecycle.ACTIVE and self.host is not None and self.host.serves

    @property
    def other_weights(self) -> bool:
        """Whether the host serves other weights than the node is made for by now. A change in
        place (``on_boot_change: update``) takes effect when the host boots the next time."""
        served = self.host.weights if self.host is not None else ""
        return bool(served and self.weights and served != self.weights)

    def cost(self, per_hour: Decimal | None, now: datetime) -> Decimal | None:
        """US dollars since the node was made, and those of further requests; None when the price is
        not known."""
        if per_hour is None:
            return None
        billed = [*self.others_since]
        if self.active_since is not None and self.node_state:
            billed.append(self.active_since)
        seconds = sum(max(0, int((now - since).total_seconds())) for since in billed)
        return (per_hour * seconds / _SECONDS_PER_HOUR).quantize(_CENT)

    def to_json(self, stack: str) -> dict[str, object]:
        """The document under ``slice`` that ``tpuflex status --json`` prints of ``stack``."""
        return {
            "queued_resource": self.queued_resource,
            "zone": self.zone,
            "state": self.state,
            "lifecycle": self.lifecycle.value,
            "standing": self.condition.value,
            "sentence": self.sentence,
            "error": self.error,
            "created": _iso(self.created),
            "node": self.node if self.node_state else None,
            "node_state": self.node_state,
            "health": self.health,
            "address": self.address,
            "active_since": _iso(self.active_since),
            "expires": _iso(self.expires),
            "gives_up": _iso(self.gives_up),
            "host": None if self.host is None else self.host.to_json(),
            "unread": self.unread,
            "weights": self.weights,
            "state_id": self.state_id or None,
            "others": list(self.others),
            "advice": self.advice.for_stack(stack),
        }


def _line(snapshot: Snapshot, report: HostReport | None = None) -> str:
    """A further request in a few words."""
    billed = ", has hosts and is billed" if snapshot.nodes.found else ""
    return f"{snapshot.name.id} in {snapshot.name.zone}: {snapshot.state}{billed}{_doing(report)}"


def _doing(report: HostReport | None) -> str:
    """What a further request's host does, in a few words; empty before it says anything."""
    if report is None or not report.phase:
        return ""
    if report.error:
        return f"; its boot has failed: {report.error.partition(chr(10))[0]}"
    if report.ready and report.serving is not None:
        return f"; its host is {report.serving.phase.value}"
    return "; its host serves" if report.ready else f"; its host boots, {report.phase}"


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


class Tpu(Protocol):
    """The part of :class:`tpuflex.google.queued_resources.TpuClient` that is used here."""

    def list_queued_resources(self, project: str, zone: str) -> QueuedResourceListing:
        """All queued resources of a zone."""

    def get_node(self, node: str) -> Node | None:
        """The node with that full name."""

    def list_nodes(self, project: str, zone: str) -> NodeListing:
        """All nodes of a zone."""

    def guest_attributes(self, node: str, namespace: str) -> tuple[dict[str, str], ...]:
        """What each host of the node wrote."""


def slice_status(
    settings: StackSettings,
    names: Names,
    tpu: Tpu,
    *,
    now: datetime | None = None,
    recorded: Callable[[], Collection[str]] | None = None,
) -> SliceStatus:
    """The endpoint's slice: of several requests, the one that is furthest along.

    Args:
        settings: the stack's settings, which name the zones.
        names: the endpoint's names, which identify its resources.
        tpu: the TPU API.
        now: the time, which distinguishes a run that was cut short from one that is over.
        recorded: the zones where the state has the slice. With it all other zones are looked at,
            too: the stack's may have been changed while the slice runs, and is billed.

    Raises:
        NotFoundError: no zone holds a request or node of the endpoint.
    """
    order, reports = _order(settings, names, tpu, now, recorded)
    if not order:
        raise _absent(settings, names, tpu)
    first, *rest = order
    return _with_host(SliceStatus.of(first, others=rest, reports=reports), first, reports, tpu)


def running_slices(
    settings: StackSettings,
    names: Names,
    tpu: Tpu,
    *,
    now: datetime | None = None,
    recorded: Callable[[], Collection[str]] | None = None,
) -> tuple[SliceStatus, ...]:
    """All of the endpoint's slices whose hosts run, each with its host's report, the one of
    :func:`slice_status` first: two while one hands over to the next. The arguments are those of
    that."""
    order, reports = _order(settings, names, tpu, now, recorded)
    return tuple(
        _with_host(SliceStatus.of(each), each, reports, tpu)
        for each in order
        if each.lifecycle is Lifecycle.ACTIVE
    )


def _order(
    settings: StackSettings,
    names: Names,
    tpu: Tpu,
    now: datetime | None,
    recorded: Callable[[], Collection[str]] | None,
) -> tuple[list[Snapshot], dict[RequestName, HostReport | None]]:
    """The endpoint's requests, the one that is furthest along first; and, where several run, what
    their hosts say."""
    at = (now or datetime.now(UTC)).timestamp()
    order = ranked(requests_of(settings, names, tpu, at, recorded))
    if sum(each.lifecycle is Lifecycle.ACTIVE for each in order) < 2:
        return order, {}
    reports = _reports(order, tpu)
    return serving_first(order, reports, at), reports


def _with_host(
    status: SliceStatus,
    seen: Snapshot,
    reports: Mapping[RequestName, HostReport | None],
    tpu: Tpu,
) -> SliceStatus:
    """``status`` with what its host says, if it has one, which is asked unless ``reports`` has
    it."""
    if not status.node_state:
        return status
    try:
        return replace(status, host=reports.get(seen.name) or observe_host(status.node, tpu))
    except (AccessError, ApiError) as error:
        # Of the slice itself everything is known: one refused question must not hide that.
        return replace(status, unread=error.message)


def requests_of(
    settings: StackSettings,
    names: Names,
    tpu: Tpu,
    at: float,
    recorded: Callable[[], Collection[str]] | None = None,
) -> list[Snapshot]:
    """The endpoint's requests with their nodes, in the order of its zones; the arguments are those
    of :func:`slice_status`, and ``at`` the time, in seconds since the epoch."""
    zones = settings.slice.zones

    def look(where: Collection[str]) -> list[Snapshot]:
        return list(_snapshots(settings.project, where, names, tpu, at))

    found = sorted(look(zones), key=lambda each: zones.index(each.name.zone))
    return found if recorded is None else found + _elsewhere(look, zones, recorded)


def serving_first(
    order: Iterable[Snapshot], reports: Mapping[RequestName, HostReport | None], at: float
) -> list[Snapshot]:
    """``order`` with what serves before what does not: while one slice hands over to another, the
    endpoint is where answers come from. Of two that serve it is the younger, which takes over; what
    said so long before ``at``, in seconds since the epoch, may be gone."""

    def rank(seen: Snapshot) -> tuple[int, float]:
        report = reports.get(seen.name)
        if seen.lifecycle is not Lifecycle.ACTIVE or report is None or not report.ready:
            return 2, 0.0
        made = parse_time(seen.created)
        failed = report.serving is not None and report.serving.phase is ServingPhase.FAILED
        kind = 0 if report.serves_at(at) else 2 if failed else 1
        return kind, 0.0 if kind == 2 or made is None else -made.timestamp()

    return sorted(order, key=rank)


def _reports(order: Iterable[Snapshot], tpu: Tpu) -> dict[RequestName, HostReport | None]:
    """What the hosts of those say that run; of those that cannot be asked, nothing."""
    said: dict[RequestName, HostReport | None] = {}
    for seen in order:
        if seen.lifecycle is Lifecycle.ACTIVE and seen.nodes.first is not None:
            with suppress(AccessError, ApiError):
                said[seen.name] = observe_host(seen.name.node(seen.nodes.first.id), tpu)
    return said


def _elsewhere(
    look: Callable[[Collection[str]], list[Snapshot]],
    zones: Collection[str],
    recorded: Callable[[], Collection[str]],
) -> list[Snapshot]:
    """What is in other zones than ``zones``. The state is asked for them, which may take a run of
    the engine, where the API does not list all zones at once, or finds nothing in them."""
    everywhere: list[Snapshot] = []
    with suppress(TpuflexError):  # as for ANY_ZONE: a refusal only means that nothing is added
        everywhere = look((ANY_ZONE,))
    if not everywhere:
        everywhere = look(sorted(set(recorded()) - set(zones)))
    return [each for each in everywhere if each.name.zone not in zones]


def _absent(settings: StackSettings, names: Names, tpu: Tpu) -> NotFoundError:
    """The error for an endpoint that does not exist; says whether another owner has its name."""
    zones = ", ".join(settings.slice.zones)
    for zone in settings.slice.zones:
        requests = tpu.list_queued_resources(settings.project, zone).queued_resources
        nodes = tpu.list_nodes(settings.project, zone).nodes
        names_there = [*(each.name for each in requests), *(each.name for each in nodes)]
        for identity in map(_id, names_there):
            if generation_of(names.prefix, identity) is not None:
                return NotFoundError(
                    f"Stack {names.stack} has no queued resource in {zones},"
                    f" and {identity} in {zone} belongs to somebody else.",
                    hint=f"{TABLE[Condition.FOREIGN].status.text}.",
                )
    hint = f"{TABLE[Condition.GONE].status.text}: tpuflex up --stack {names.stack}"
    if settings.slice.on_run_end != "keep" and settings.slice.renew_before is None:
        # The cloud does not show it, but the state remembers a run whose leftover is deleted: by
        # `up`, or by a person who saw that nobody needs it.
        hint += f"\nAfter a run that ended: tpuflex up --new-host --stack {names.stack}"
    return NotFoundError(f"Stack {names.stack} has no queued resource in {zones}.", hint=hint)


def _snapshots(
    project: str, zones: Iterable[str], names: Names, tpu: Tpu, at: float
) -> Iterable[Snapshot]:
    """Every request of the endpoint, and nodes of it that have no request any more: they are
    billed all the same."""
    requests = [
        (RequestName(project, _zone(request.name), _id(request.name)), request)
        for zone in zones
        for request in tpu.list_queued_resources(project, zone).queued_resources
        if request.spec.node.labels.get(LABEL_OWNER) == names.owner
    ]
    for name, request in requests:
        ids = request.node_ids(name.id)
        nodes = tuple(node for id_ in ids if (node := tpu.get_node(name.node(id_))) is not None)
        yield Snapshot(replace(name, nodes=ids), request, Nodes(ids, nodes), at)
    orphans: dict[RequestName, list[Node]] = {}
    for zone in zones:
        for node in tpu.list_nodes(project, zone).nodes:
            id_ = _id(node.queued_resource or node.name)
            name = RequestName(project, _zone(node.name), id_)
            if node.labels.get(LABEL_OWNER) == names.owner:
                orphans.setdefault(name, []).append(node)
    held = {name for name, _ in requests}
    for name, left in orphans.items():
        if name not in held:
            ids = tuple(node.id for node in left)
            yield Snapshot(replace(name, nodes=ids), None, Nodes(ids, tuple(left)), at)


def _zone(name: str) -> str:
    """The zone in ``projects/P/locations/Z/…``."""
    return name.partition("/locations/")[2].partition("/")[0]


def _id(name: str) -> str:
    return name.rpartition("/")[2]


#: The fields under ``slice`` of ``tpuflex status --json``, which stay as they are.
STATUS_FIELDS: Mapping[str, str] = {
    "queued_resource": "id of the queued resource",
    "zone": "its zone",
    "state": "Google's word for its state; NOT_FOUND where only its node is left",
    "lifecycle": "our word: waiting, provisioning, active, ended, failed, lost, deleting",
    "standing": "its row in the table above",
    "sentence": "the state in plain words",
    "error": "why it failed, in Google's words; or empty",
    "created": "when it was requested (RFC 3339); or null",
    "node": "full name of its node; null where there is none",
    "node_state": "Google's word for its node's state; empty where there is none",
    "health": "its node's health; or empty",
    "address": "the first host's internal address; or empty",
    "active_since": "when its node was made (RFC 3339); or null",
    "expires": "when Google ends the run (RFC 3339); null while it is not known",
    "gives_up": "when Google gives the request up (RFC 3339), while it waits; or null",
    "host": "the host's own report (phase, detail, error, timeline: when each"
    " phase began, ended: when image and weights ended, which go on at once, isolation,"
    " weights: SHA-256 of the manifest that it fetched and checked, vllm_version, kv_cache:"
    " block_size, num_blocks, cache_dtype and tokens of the server, or null, and compile_cache:"
    " from, files, bytes and seconds of what was restored, compiled, saved_bytes, saved_seconds"
    " and problem, or null, and serving: what it says from READY on, or null: phase (serving,"
    " draining, degraded, failed), since and at in seconds since the epoch, running and waiting"
    " requests, drained, cut_off, reason, drains_at, ends_at and restarted_at (RFC 3339, or null),"
    " restarted_why and restarts); null before the first",
    "unread": "why the host's report could not be read; or empty",
    "weights": "SHA-256 of the manifest of the weights that its node was made for; or empty",
    "state_id": "id of the state that made it, by its label; or null",
    "others": "further requests of the endpoint, a line of text each",
    "advice": "what to do, as in the table above",
}
