"""The refresh table: what each standing of a request means, and what each command makes of it.

One table for the provider's texts, for `tpuflex status`, and for the tests that walk through it
row by row. Pure data. Exit codes are those of :mod:`tpuflex.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from tpuflex.errors import (
    AlreadyExistsError,
    BootError,
    CapacityError,
    IncompleteTeardownError,
    NotFoundError,
)
from tpuflex.lifecycle import Lifecycle


class Standing(StrEnum):
    """Where a request stands, told apart as finely as the remedy differs.

    Finer than :class:`tpuflex.lifecycle.Lifecycle`, which is what the state shows: ``lost`` is
    ``node missing`` or ``orphaned node`` here, and what is not there at all has its own words.
    """

    WAITING = "waiting"
    PROVISIONING = "provisioning"
    ACTIVE = "active"
    ENDED = "ended"
    FAILED = "failed"
    NODE_MISSING = "node missing"
    ORPHANED = "orphaned node"
    DELETING = "deleting"
    GONE = "gone"
    FOREIGN = "foreign"


class Plan(Enum):
    """What a preview shows for the queued resource."""

    NOTHING = "same"
    UPDATE = "update"
    REPLACE = "replace"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command says and how it exits when nothing changes meanwhile.

    Attributes:
        text: what is said.
        exit_code: exit code of the `tpuflex` command.
    """

    text: str
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One standing.

    Attributes:
        meaning: the standing in a sentence.
        plan: what `preview` shows, and `up` does.
        up: what `up` says.
        refresh: what `pulumi refresh` says.
        down: what `down` says.
        status: what `status` says to do.
        foretold: what `preview` says, where the plan alone does not say it.
    """

    meaning: str
    plan: Plan
    up: Outcome
    refresh: Outcome
    down: Outcome
    status: Outcome
    foretold: str = ""

    @property
    def preview(self) -> Outcome:
        """What `preview` says: a preview looks and never fails for what it finds."""
        return Outcome(self.foretold or _PREVIEWS[self.plan])


_PREVIEWS = {
    Plan.NOTHING: "no changes",
    Plan.UPDATE: "goes on with the request that is there",
    Plan.REPLACE: "asks anew and removes what is left",
    Plan.CREATE: "asks for capacity",
}
_WAIT = CapacityError.exit_code
_OVER = BootError.exit_code
_UNCHANGED = Outcome("the state says so too")
_DELETED = Outcome("deleted; nothing is left")

TABLE: Mapping[Standing, Row] = {
    Standing.WAITING: Row(
        "in the queue; costs nothing, counts toward quota",
        Plan.UPDATE,
        Outcome("is not active after its time: it stays in the queue and in the state", _WAIT),
        _UNCHANGED,
        Outcome("withdrawn; nothing is left"),
        Outcome("`tpuflex up` waits on, `tpuflex down` gives up", _WAIT),
    ),
    Standing.PROVISIONING: Row(
        "capacity was granted, the hosts are being made",
        Plan.UPDATE,
        Outcome("is not active after its time: it stays in the state", _WAIT),
        _UNCHANGED,
        Outcome("deleted as soon as Google allows it (not while PROVISIONING)"),
        Outcome("`tpuflex up` waits on", _WAIT),
    ),
    Standing.ACTIVE: Row(
        "the hosts run, and are billed",
        Plan.NOTHING,
        Outcome("nothing to do"),
        _UNCHANGED,
        _DELETED,
        Outcome("`tpuflex ask` talks to it"),
    ),
    Standing.ENDED: Row(
        "the run is over and the hosts are gone; the leftover still uses quota",
        Plan.UPDATE,
        Outcome(
            "the run is over and nothing is bought again unasked: set renew_before, or change"
            " rerun, for a new run; set on_run_end to delete, or destroy, to clean up",
            _OVER,
        ),
        Outcome("the run is over"),
        _DELETED,
        Outcome("for a new run: change tpuflex:slice.rerun and run `tpuflex up`", _OVER),
        foretold="the run is over: asks for nothing, says so, and fails",
    ),
    Standing.FAILED: Row(
        "the request failed and will never become active; the leftover still uses quota",
        Plan.REPLACE,
        Outcome("replaced: asked for anew"),
        Outcome("the request failed; `up` replaces it"),
        _DELETED,
        Outcome("`tpuflex up` asks anew, `tpuflex down` cleans up", _OVER),
    ),
    Standing.NODE_MISSING: Row(
        "the queued resource is there, but its node is gone: somebody deleted it",
        Plan.REPLACE,
        Outcome("replaced: asked for anew"),
        Outcome("its node was deleted outside of Pulumi; `up` replaces it"),
        _DELETED,
        Outcome("`tpuflex up` asks anew, `tpuflex down` cleans up", _OVER),
    ),
    Standing.ORPHANED: Row(
        "the node is there, and billed, but its queued resource is gone: somebody deleted it",
        Plan.REPLACE,
        Outcome("replaced: the node is deleted, and capacity asked for anew"),
        Outcome("its queued resource was deleted outside of Pulumi; `up` replaces it"),
        Outcome("the node is deleted; nothing is left"),
        Outcome("`tpuflex up` asks anew, `tpuflex down` cleans up", _OVER),
    ),
    Standing.DELETING: Row(
        "on its way out",
        Plan.REPLACE,
        Outcome("waits until it is gone and asks anew"),
        Outcome("somebody deletes it; `up` asks anew"),
        Outcome("waits until it is gone"),
        Outcome("`tpuflex up` waits until it is gone and asks anew", _WAIT),
    ),
    Standing.GONE: Row(
        "neither queued resource nor node is there",
        Plan.CREATE,
        Outcome("asked for anew"),
        Outcome("taken out of the state"),
        Outcome("nothing to delete"),
        Outcome("`tpuflex up` asks for it", NotFoundError.exit_code),
    ),
    Standing.FOREIGN: Row(
        "the name belongs to somebody else, and ours is gone",
        Plan.CREATE,
        Outcome("refused, naming the owner: give it another name", AlreadyExistsError.exit_code),
        Outcome("taken out of the state; what is there is left alone"),
        Outcome("left alone: ours is gone"),
        Outcome("`tpuflex up` asks for it", NotFoundError.exit_code),
    ),
}
#: Refused while a protected endpoint is ACTIVE, and reported while Pulumi keeps something.
PROTECTED = Outcome("deletion_protection is on", AlreadyExistsError.exit_code)
KEPT = Outcome("left, and still billed", IncompleteTeardownError.exit_code)

_BY_LIFECYCLE = {
    Lifecycle.WAITING: Standing.WAITING,
    Lifecycle.PROVISIONING: Standing.PROVISIONING,
    Lifecycle.ACTIVE: Standing.ACTIVE,
    Lifecycle.ENDED: Standing.ENDED,
    Lifecycle.FAILED: Standing.FAILED,
    Lifecycle.DELETING: Standing.DELETING,
}


def standing(where: Lifecycle, *, queued_resource: bool, node: bool, ours: bool = True) -> Standing:
    """The row that fits.

    Args:
        where: where the request stands.
        queued_resource: whether there is a queued resource.
        node: whether there is a node.
        ours: whether what is there carries our owner marker.
    """
    if not queued_resource and not node:
        return Standing.GONE
    if not ours:
        return Standing.FOREIGN
    if where is Lifecycle.LOST:
        return Standing.NODE_MISSING if queued_resource else Standing.ORPHANED
    return _BY_LIFECYCLE[where]
