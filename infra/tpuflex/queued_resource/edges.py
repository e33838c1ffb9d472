"""The state machine of a queued resource and its node: every known edge, with its source.

A point is a pair of Google's words, one for the queued resource and one for its node; what their
host reports changes what some commands say, and not the point. Pure data:
docs/lifecycle.md is generated from it, and a test checks it against the embedded cloud.

Sources: "discovery" is the discovery document `tpu.v2alpha1`, revision 20261001; "docs" is
https://cloud.google.com/tpu/docs/queued-resources; "flex" is
https://cloud.google.com/tpu/docs/request-using-flex-start; names with a number are issues, "drain"
is docs/serving.md, and "ADR" a decision in docs/adr.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from tpuflex.queued_resource.outcomes import (
    BOOTING,
    DEGRADED,
    DRAINING,
    HOST_FAILED,
    NOT_TAKEN_OVER,
    PREVIEWS,
    SERVER_FAILED,
    STUCK_DOWN,
    STUCK_UP,
    TABLE,
    TAKEN_OVER,
    Condition,
    Outcome,
    PreviewAction,
)

Command = Literal["up", "refresh", "preview", "down", "status"]
COMMANDS: tuple[Command, ...] = ("up", "refresh", "preview", "down", "status")

#: Any state that this version does not know.
UNKNOWN_STATE = "A_STATE_OF_TOMORROW"


class Point(NamedTuple):
    """The states of a queued resource and its node; empty where there is none."""

    request: str
    node: str

    def __str__(self) -> str:
        return f"{self.request or 'none'} / {self.node or 'none'}"


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge, and the row of the refresh table that it leads to.

    Attributes:
        name: what happens, in a few words; unique.
        before, after: where it leads from and to.
        condition: the row of :data:`tpuflex.queued_resource.outcomes.TABLE` that holds afterwards.
        source: where it is described.
        emulated: whether the embedded cloud takes it by itself or by a call of its API.
        stuck: whether the state never changes although it should.
        says: what a command says instead of the row, because of what the host reports.
        plans: what `preview` shows instead of the row, for the same reason.
    """

    name: str
    before: Point
    after: Point
    condition: Condition
    source: str
    emulated: bool = True
    stuck: bool = False
    says: tuple[tuple[Command, Outcome], ...] = ()
    plans: PreviewAction | None = None

    @property
    def action(self) -> PreviewAction:
        """What `preview` shows, and `up` does, once the edge was taken."""
        return self.plans or TABLE[self.condition].action

    @property
    def others(self) -> tuple[Command, ...]:
        """The commands that say something else than the row."""
        said = {command for command, _ in self.says}
        stuck: set[Command] = {"up", "down"} if self.stuck else set()
        plans: set[Command] = {"preview"} if self.plans else set()
        return tuple(command for command in COMMANDS if command in said | stuck | plans)

    def outcome(self, command: Command) -> Outcome:
        """What ``command`` says, and its exit code, once the edge was taken."""
        if self.stuck and command == "up":
            return STUCK_UP
        if self.stuck and command == "down":
            return STUCK_DOWN
        for other, outcome in self.says:
            if other == command:
                return outcome
        if self.plans is not None and command == "preview":
            return Outcome(PREVIEWS[self.plans])
        found: Outcome = getattr(TABLE[self.condition], command)
        return found


_NONE = Point("", "")
_CREATING = Point("CREATING", "")
_ACCEPTED = Point("ACCEPTED", "")
_WAITING = Point("WAITING_FOR_RESOURCES", "")
_PROVISIONING = Point("PROVISIONING", "CREATING")
_ACTIVE = Point("ACTIVE", "READY")
_SUSPENDING = Point("SUSPENDING", "DELETING")
_SUSPENDED = Point("SUSPENDED", "")
_FAILED = Point("FAILED", "")
_DELETING = Point("DELETING", "")
_DELETING_NODE = Point("DELETING", "DELETING")
_ORPHAN = Point("", "READY")

_WAIT, _PROV, _ON = Condition.WAITING, Condition.PROVISIONING, Condition.ACTIVE
_OVER, _BAD, _LOST = Condition.ENDED, Condition.FAILED, Condition.NODE_MISSING
_GOING, _GONE = Condition.DELETING, Condition.GONE


def _node(state: str) -> Point:
    return Point("ACTIVE", state)


_QUEUE = (
    Edge("requested", _NONE, _CREATING, _WAIT, "docs"),
    Edge("found valid", _CREATING, _WAITING, _WAIT, "docs"),
    Edge("found valid, by the old name", _CREATING, _ACCEPTED, _WAIT, "docs", False),
    Edge("rejected by its operation", _CREATING, _NONE, _GONE, "operation error code 3"),
    Edge("found wrong late", _CREATING, _FAILED, _BAD, "discovery", False),
    Edge("not granted while valid", _WAITING, _FAILED, _BAD, "docs"),
    Edge("not granted while valid, by the old name", _ACCEPTED, _FAILED, _BAD, "docs", False),
    Edge("granted", _WAITING, _PROVISIONING, _PROV, "docs"),
    Edge("granted, by the old name", _ACCEPTED, _PROVISIONING, _PROV, "docs", False),
    Edge("hosts made", _PROVISIONING, _ACTIVE, _ON, "docs"),
    Edge("provisioning fails", _PROVISIONING, _SUSPENDING, _PROV, "field reports"),
    Edge("provisioning failed", _SUSPENDING, _FAILED, _BAD, "field reports"),
    Edge(
        "a word of tomorrow while it waits",
        _WAITING,
        Point(UNKNOWN_STATE, ""),
        _WAIT,
        "v2alpha1 may change",
        False,
    ),
)
_RUN = (
    Edge("run over", _ACTIVE, _SUSPENDING, _OVER, "flex"),
    Edge("run over and hosts gone", _SUSPENDING, _SUSPENDED, _OVER, "flex"),
    Edge("preempted", _ACTIVE, _SUSPENDING, _PROV, "docs", False),
    Edge("preempted and hosts gone", _SUSPENDING, _SUSPENDED, _OVER, "docs", False),
    Edge("node deleted by its user", _ACTIVE, _SUSPENDING, _LOST, "docs"),
    Edge("node deleted by its user and gone", _SUSPENDING, _SUSPENDED, _LOST, "docs"),
    Edge("reset, and allocated again", _ACTIVE, _WAITING, _WAIT, "discovery", False),
    Edge("node gone, queued resource not told", _ACTIVE, _node(""), _LOST, "#177", False),
    *(
        Edge(f"node {state}", _ACTIVE, _node(state), _LOST, source, False)
        for state, source in (
            ("PREEMPTED", "docs"),
            ("TERMINATED", "discovery"),
            ("DELETING", "discovery"),
            ("HIDING", "discovery"),
            ("HIDDEN", "discovery"),
        )
    ),
    *(
        Edge(f"node {state}", _ACTIVE, _node(state), _ON, "discovery", False)
        for state in ("RESTARTING", "REIMAGING", "REPAIRING", "UNHIDING", "UNKNOWN", UNKNOWN_STATE)
    ),
    Edge("node repaired", _node("REPAIRING"), _ACTIVE, _ON, "discovery", False),
    Edge("node being stopped", _ACTIVE, _node("STOPPING"), _LOST, "discovery"),
    Edge("node stopped", _node("STOPPING"), _node("STOPPED"), _LOST, "discovery"),
    Edge("node being started", _node("STOPPED"), _node("STARTING"), _PROV, "discovery"),
    Edge("node started", _node("STARTING"), _ACTIVE, _ON, "discovery"),
)
_UPDATE = PreviewAction.UPDATE


def _reports(
    name: str, source: str, *says: tuple[Command, Outcome], plans: PreviewAction | None = None
) -> Edge:
    """An edge that only the host of an ACTIVE slice takes."""
    return Edge(name, _ACTIVE, _ACTIVE, _ON, source, False, says=says, plans=plans)


_HOST = (
    _reports("host boots", "drain", ("status", BOOTING)),
    _reports("reset, and boots again", "field report", ("status", BOOTING)),
    _reports("boot fails", "drain", ("status", HOST_FAILED)),
    _reports("server is started again", "drain", ("status", DEGRADED)),
    _reports("server serves again", "drain"),
    _reports("server fails", "drain", ("status", SERVER_FAILED)),
    _reports("host drains before the run ends", "drain", ("status", DRAINING)),
    _reports("host drains for a deletion", "drain", ("status", DRAINING), plans=_UPDATE),
    _reports("drain called off", "drain"),
    _reports("replaced by one that serves", "ADR 36"),
    _reports("replaced by one that boots", "ADR 36", ("up", TAKEN_OVER), plans=_UPDATE),
    _reports(
        "replaced by one that does not serve", "ADR 36", ("up", NOT_TAKEN_OVER), plans=_UPDATE
    ),
)
_END = (
    Edge("withdrawn by somebody", _WAITING, _DELETING, _GOING, "discovery"),
    Edge("withdrawn, by the old name", _ACCEPTED, _DELETING, _GOING, "discovery", False),
    Edge("deleted with its hosts", _ACTIVE, _DELETING_NODE, _GOING, "discovery"),
    Edge("leftover of a run deleted", _SUSPENDED, _DELETING, _GOING, "discovery"),
    Edge("leftover of a failure deleted", _FAILED, _DELETING, _GOING, "discovery"),
    Edge("stuck in DELETING", _DELETING_NODE, _DELETING_NODE, _GOING, "#4764", False, True),
    Edge("deleted and gone", _DELETING_NODE, _NONE, _GONE, "discovery"),
    Edge("queued resource gone, node not", _ACTIVE, _ORPHAN, Condition.ORPHANED, "#1802", False),
    Edge("orphan being deleted", _ORPHAN, Point("", "DELETING"), Condition.ORPHANED, "discovery"),
    *(
        Edge(
            f"orphan deleted while {state}",
            Point("", state),
            Point("", "DELETING"),
            Condition.ORPHANED,
            "discovery",
        )
        for state in ("CREATING", "STOPPING", "STOPPED", "STARTING")
    ),
    Edge("orphan gone", Point("", "DELETING"), _NONE, _GONE, "discovery"),
    Edge("orphan being made", _NONE, Point("", "CREATING"), Condition.ORPHANED, "discovery"),
    Edge("orphan made", Point("", "CREATING"), _ORPHAN, Condition.ORPHANED, "discovery"),
    Edge("orphan being stopped", _ORPHAN, Point("", "STOPPING"), Condition.ORPHANED, "discovery"),
    Edge(
        "orphan stopped",
        Point("", "STOPPING"),
        Point("", "STOPPED"),
        Condition.ORPHANED,
        "discovery",
    ),
    Edge(
        "orphan being started",
        Point("", "STOPPED"),
        Point("", "STARTING"),
        Condition.ORPHANED,
        "discovery",
    ),
    Edge("orphan started", Point("", "STARTING"), _ORPHAN, Condition.ORPHANED, "discovery"),
    Edge("name taken by somebody else", _NONE, _ACTIVE, Condition.FOREIGN, "lost names", False),
    Edge("node's name taken", _NONE, _ORPHAN, Condition.FOREIGN, "lost names", False),
)

#: Every edge; names are unique.
EDGES: tuple[Edge, ...] = (*_QUEUE, *_RUN, *_HOST, *_END)
