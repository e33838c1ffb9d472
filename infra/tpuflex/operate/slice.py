"""The status of an endpoint's slice, and what follows from it: advice, exit code, cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tpuflex.boot.planned import planned_weights
from tpuflex.host.report import HostReport
from tpuflex.host.serving import ServingPhase
from tpuflex.naming import LABEL_STATE
from tpuflex.queued_resource.causes import explained
from tpuflex.queued_resource.name import RequestName
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
from tpuflex.queued_resource.snapshot import Snapshot, parse_time
from tpuflex.queued_resource.states import NOT_FOUND, Lifecycle

_SECONDS_PER_HOUR = 3600
_CENT = Decimal("0.01")
#: What is to be done about a host that was READY, by what it says since.
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
    def advice(self) -> str:
        """What to do about it."""
        return self.outcome.text

    @property
    def advice_sentence(self) -> str:
        """What to do about it, to stand by itself."""
        return f"{self.advice[:1].upper()}{self.advice[1:]}."

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

    def to_json(self) -> dict[str, object]:
        """The document under ``slice`` that ``tpuflex status --json`` prints."""
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
            "advice": self.advice,
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
