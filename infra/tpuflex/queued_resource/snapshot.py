"""The one reading of a slice: what the cloud has of a queued resource, and what that means. Pure.

Provider, `status`, `ask`, `up`, `down`, cost and recovery all read a slice here. Queued resource,
nodes, labels and time make a :class:`Snapshot`; which condition that is, which of the requests in
several zones is the slice, and when its run ends, is decided in this module and nowhere else
(docs/adr/0012-one-reading-of-a-slice.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tpuflex.duration import google_seconds
from tpuflex.host.report import DRAIN_KEY
from tpuflex.queued_resource.causes import Cause, classify
from tpuflex.queued_resource.model import Node, QueuedResource, Status
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.outcomes import TABLE, Condition, condition_of
from tpuflex.queued_resource.ownership import agree, described
from tpuflex.queued_resource.rows import moment, rfc3339
from tpuflex.queued_resource.states import NOT_FOUND, Lifecycle, describe, lifecycle

#: With any one node in one of these, the whole slice is.
_LEAST = (Lifecycle.LOST, Lifecycle.PROVISIONING)
#: Of several requests, the first in this order is the slice. What ended or failed is further along
#: than what is missing or being deleted: it is there to be seen, and `up` must not buy again
#: unasked after a run that ended.
_RANK = (
    Lifecycle.ACTIVE,
    Lifecycle.PROVISIONING,
    Lifecycle.WAITING,
    Lifecycle.ENDED,
    Lifecycle.FAILED,
    Lifecycle.LOST,
    Lifecycle.DELETING,
)
#: The google.rpc code of a provisioning that failed, which is no sign that time was over.
_INTERNAL = 13
#: Of what FAILED without a word from Google.
NO_REASON = Status(message="no reason was given")
#: Stands for a time that was written and cannot be parsed.
UNREADABLE_TIME = "unknown"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a queued resource and its nodes.

    Attributes:
        name: the name that was looked up.
        queued_resource: what was found, or None.
        nodes: its nodes, as far as there are any (yet, or any more).
        at: when, in seconds since the epoch.
        also: further requests, in other zones, that exist or may exist.
        known_ended: the state remembers that the run is over; its leftover may be gone.
        takes_over_from: the requests that serve until it does, if it is to take over from any.
    """

    name: RequestName
    queued_resource: QueuedResource | None = None
    nodes: Nodes = field(default_factory=Nodes)
    at: float = 0.0
    also: tuple[RequestName, ...] = ()
    known_ended: bool = False
    takes_over_from: tuple[RequestName, ...] = ()

    @property
    def gone(self) -> bool:
        """Whether neither queued resource nor any node is left."""
        return self.queued_resource is None and not self.nodes.found

    @property
    def state(self) -> str:
        """Google's word for the queued resource's state."""
        return self.queued_resource.state.state if self.queued_resource is not None else NOT_FOUND

    @property
    def lifecycle(self) -> Lifecycle:
        """Our word for the state: as far along as the slowest of the nodes, and lost with any one
        of them."""
        if self.known_ended and self.gone:
            return Lifecycle.ENDED
        request = self.queued_resource
        state = request.state.state if request is not None else None
        cut_short = request is not None and request.cut_short(self.at)
        too_early = request is not None and request.too_early(self.at)
        states = self.nodes.states or (None,)
        each = [lifecycle(state, node, cut_short=cut_short, too_early=too_early) for node in states]
        return next((where for where in _LEAST if where in each), each[0])

    def condition(
        self, labels: dict[str, str], created: str = "", *, known: bool = False
    ) -> Condition:
        """The row of the refresh table that applies.

        Args:
            labels: labels that say whose it should be.
            created: `createTime` of the request that is meant: unlike labels, it cannot change.
            known: whether the state has a record of it.
        """
        same = bool(created) and created == self.created
        return condition_of(
            self.lifecycle,
            queued_resource=self.queued_resource is not None or self.known_ended,
            node=bool(self.nodes.found),
            ours=same or self.belongs_to(labels, known=known),
        )

    # -- time --------------------------------------------------------------------------------

    @property
    def created(self) -> str:
        """When capacity was requested (`createTime`), which distinguishes it from a later request
        of the same name; or empty."""
        return self.queued_resource.create_time if self.queued_resource is not None else ""

    @property
    def active_since(self) -> str:
        """When the last of its nodes was made; or empty."""
        return max((node.create_time for node in self.nodes.found), default="")

    @property
    def expires(self) -> datetime | None:
        """When the run ends: of several nodes, that of the first to end."""
        request = self.queued_resource or QueuedResource()
        ends = (run_end(request, node) for node in self.nodes.found)
        return min((end for end in ends if end is not None), default=None)

    @property
    def gives_up(self) -> datetime | None:
        """When Google gives the request up, unless it is granted before; None if never."""
        return given_up_at(self.queued_resource or QueuedResource())

    @property
    def failure(self) -> Status | None:
        """Why it failed, in Google's words."""
        data = self.queued_resource.state.failed_data if self.queued_resource is not None else None
        return data.error if data is not None else None

    @property
    def cause(self) -> Cause:
        """Why it failed, by what can be done about it. Google documents no words for a request
        that was not granted in time: after that time, words that name no cause mean this one."""
        failure = self.failure or NO_REASON
        named, end = classify(failure.code, failure.message), self.gives_up
        over = end is not None and self.at >= end.timestamp()
        unnamed = named is Cause.INTERNAL and failure.code != _INTERNAL
        return Cause.EXPIRED if unnamed and over else named

    @property
    def drains_until(self) -> str:
        """Until when its hosts were given time to end what they have begun (RFC 3339), as a
        deletion has written it on a node; :data:`UNREADABLE_TIME` where what is written there is no
        time, empty where nothing is."""
        asked = [text for node in self.nodes.found if (text := node.metadata.get(DRAIN_KEY))]
        times = [time for text in asked if (time := parse_time(text)) is not None]
        if not times:
            return UNREADABLE_TIME if asked else ""
        return rfc3339(max(times))

    # -- ownership ---------------------------------------------------------------------------

    @property
    def labels(self) -> dict[str, str]:
        """Labels that tell whose this is and what it was asked to be."""
        if self.queued_resource is not None:
            return self.queued_resource.spec.node.labels
        return self.nodes.first.labels if self.nodes.first is not None else {}

    @property
    def owner(self) -> str:
        """Who owns it, in words for people."""
        return described(self.labels)

    def belongs_to(self, labels: dict[str, str], *, known: bool = False) -> bool:
        """Whether its owner labels are those in ``labels``; none only fits none, unless the state
        has a record of it (``known``). Of nodes without a queued resource, one of ours is
        enough."""
        if self.queued_resource is None and self.nodes.found:
            return bool(self.orphans(labels, known=known))
        return agree(labels, self.labels, known=known)

    def orphans(self, labels: dict[str, str], *, known: bool = False) -> tuple[Node, ...]:
        """The nodes that their queued resource has left behind and that carry the owner
        labels in ``labels``."""
        if self.queued_resource is not None:
            return ()
        return tuple(n for n in self.nodes.found if agree(labels, n.labels, known=known))

    # -- words -------------------------------------------------------------------------------

    @property
    def meaning(self) -> str:
        """What its state means, in plain words."""
        if self.queued_resource is None and self.nodes.found:
            if self.nodes.several:
                left = self.nodes.left_over()
                return f"{left}, and billed, but the queued resource is gone"
            return TABLE[Condition.ORPHANED].meaning
        if self.lifecycle is Lifecycle.LOST:
            return TABLE[Condition.NODE_MISSING].meaning
        return describe(self.state)

    def describe(self) -> str:
        """Google's word and what it means, for a progress line."""
        if self.state == "ACTIVE" and self.lifecycle is not Lifecycle.ACTIVE:
            return f"ACTIVE, but {self.nodes.trouble()}"
        waits = self.lifecycle is Lifecycle.WAITING and self.gives_up is not None
        until = f", or gives up at {self.gives_up:%Y-%m-%d %H:%M} UTC" if waits else ""
        return f"{self.state}: {self.meaning}{until}"


def ranked(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """``snapshots`` in several zones, the slice first: the one that is furthest along. What is
    equally far along stays in the given order, which is that of the zones."""
    return sorted(snapshots, key=lambda snapshot: rank(snapshot.lifecycle))


def rank(where: Lifecycle) -> int:
    """How far from the front a request in this state is among several; 0 is the front."""
    return _RANK.index(where)


def run_end(request: QueuedResource, node: Node) -> datetime | None:
    """When the run of ``node`` ends at the latest; None if that is not known.

    The earliest time that Google itself gives. Until it gives one, the node's creation and the run
    duration: from when on the run is counted is not documented, and the earliest reading is safe.
    """
    given = (node.scheduling_config.termination_timestamp, request.run_duration.termination_time)
    ends = [end for end in map(parse_time, given) if end is not None]
    if ends:
        return min(ends)
    begun = parse_time(node.create_time)
    length = google_seconds(request.run_duration.max_run_duration)
    return None if begun is None or length is None else begun + timedelta(seconds=length)


def given_up_at(request: QueuedResource) -> datetime | None:
    """When Google gives ``request`` up, unless it is granted before; None if it waits for good.

    A duration counts from the creation of the request (`validUntilDuration` of `QueueingPolicy`,
    `tpu.v2alpha1`, revision 20261001).
    """
    policy = request.queueing_policy
    interval = policy.valid_interval
    fixed = policy.valid_until_time or (interval.end_time if interval is not None else "")
    if fixed:
        return parse_time(fixed)
    asked, length = parse_time(request.create_time), google_seconds(policy.valid_until_duration)
    if asked is None or length is None:
        return None
    with suppress(OverflowError):  # ten digits of seconds may lie beyond the year 9999
        return asked + timedelta(seconds=length)
    return None


def parse_time(text: object) -> datetime | None:
    """The RFC 3339 time ``text``; None if it is anything else."""
    try:
        return moment(text) if isinstance(text, str) else None
    except ValueError:
        return None
