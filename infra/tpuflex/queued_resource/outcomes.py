"""The refresh table: what each condition of a request means, and what each command says about it.

One table for the provider's messages, for `tpuflex status`, and for the tests, which check it row
by row. Pure data. Exit codes are those of :mod:`tpuflex.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from tpuflex.advice import Advice
from tpuflex.errors import (
    AlreadyExistsError,
    BootError,
    CapacityError,
    ConflictError,
    IncompleteTeardownError,
    NotFoundError,
)
from tpuflex.queued_resource.states import Lifecycle


class Condition(StrEnum):
    """The condition of a request: one for each remedy.

    Finer than :class:`tpuflex.queued_resource.states.Lifecycle`, which is what the state shows:
    ``lost`` is ``node missing`` or ``orphaned node`` here, and absent requests have conditions of
    their own.
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


class PreviewAction(Enum):
    """What a preview shows for the queued resource."""

    NOTHING = "same"
    UPDATE = "update"
    REPLACE = "replace"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command says, and its exit code, while nothing changes.

    Attributes:
        text: the message, word for word; empty if nothing is said about the slice.
        exit_code: exit code of the `tpuflex` command (of `pulumi refresh`, which has no twin).
    """

    text: Advice | str
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One condition.

    Attributes:
        meaning: the condition in a sentence.
        action: what `preview` shows, and `up` does.
        up: what `up` says.
        refresh: what `pulumi refresh` says.
        down: what `down` says.
        status: what `status` says to do.
        preview_text: what `preview` says, where the action alone does not say it.
    """

    meaning: str
    action: PreviewAction
    up: Outcome
    refresh: Outcome
    down: Outcome
    status: Outcome
    preview_text: str = ""

    @property
    def preview(self) -> Outcome:
        """What `preview` says: a preview never fails because of the slice's condition."""
        return Outcome(self.preview_text or PREVIEWS[self.action])


#: What a preview says about the request.
PREVIEWS: Mapping[PreviewAction, str] = {
    PreviewAction.NOTHING: "stays as it is",
    PreviewAction.UPDATE: "is kept: `up` changes it in place, or waits for it",
    PreviewAction.REPLACE: (
        "is replaced: capacity is requested again, and what is left of the old request is removed"
    ),
    PreviewAction.CREATE: "capacity is requested",
}
_WAIT = CapacityError.exit_code
_OVER = BootError.exit_code
_ABSENT = NotFoundError.exit_code
#: The state agrees with the cloud, or nothing is to be done: no word about the slice.
_SILENT = Outcome("")
_GO_ON = Outcome(
    "It stays in the cloud and in the state: run `up` again to keep waiting, `down` or `destroy` to"
    " give it up.",
    _WAIT,
)
#: Said when a run is over and nobody asked for another one: with what to do for a new run, and
#: with what to do about a leftover.
RUN_OVER_CLEANED = (
    "the run is over and nothing is bought again unasked: for a new run, `tpuflex up --new-host`,"
    " or set renew_before, or change rerun"
)
RUN_OVER_LEFTOVER = f"{RUN_OVER_CLEANED}; set on_run_end to delete, or destroy, to clean up"
#: Said instead, by `preview` and `up`, where `on_run_end` is accept; followed by when it ended, if
#: that is known.
RUN_ACCEPTED = Outcome(
    "the run is over, and on_run_end accepts that: nothing is requested; for a new run, `tpuflex up"
    " --new-host`, or set renew_before, or change rerun"
)
_LEFTOVER_DELETED = Outcome("the leftover is deleted: its quota is free again")
_AGAIN = Outcome(Advice("`{up}` requests capacity again, `{down}` cleans up"), _OVER)

TABLE: Mapping[Condition, Row] = {
    Condition.WAITING: Row(
        "in the queue; costs nothing, counts toward quota",
        PreviewAction.UPDATE,
        _GO_ON,
        _SILENT,
        Outcome("withdrawn from the queue: it has cost nothing"),
        Outcome(Advice("`{up}` keeps waiting, `{down}` gives up"), _WAIT),
    ),
    Condition.PROVISIONING: Row(
        "capacity was granted, the hosts are being made; billed once they run",
        PreviewAction.UPDATE,
        _GO_ON,
        _SILENT,
        Outcome("deleted once Google allowed it, which is not while PROVISIONING"),
        Outcome(Advice("`{up}` keeps waiting, `{down}` deletes it once it can be deleted"), _WAIT),
    ),
    Condition.ACTIVE: Row(
        "the hosts run, and are billed",
        PreviewAction.NOTHING,
        _SILENT,
        _SILENT,
        Outcome("deleted with its hosts: nothing is billed any more"),
        Outcome(Advice("`{ask}` talks to it, `{client}` shows how programs do, `{down}` ends it")),
    ),
    Condition.ENDED: Row(
        "the run is over and the hosts are gone: nothing is billed, the leftover still uses quota",
        PreviewAction.UPDATE,
        Outcome(RUN_OVER_LEFTOVER, _OVER),
        Outcome("the run is over"),
        _LEFTOVER_DELETED,
        Outcome(
            Advice("for a new run: `{up} --new-host`; `{down}` cleans up"),
            _OVER,
        ),
        preview_text="the run is over: `up` requests nothing, says so, and fails",
    ),
    Condition.FAILED: Row(
        "the request failed and will never become active: nothing is billed, the leftover still"
        " uses quota",
        PreviewAction.REPLACE,
        Outcome("what failed is deleted, and capacity is requested again"),
        Outcome("the request failed; `up` replaces it"),
        _LEFTOVER_DELETED,
        _AGAIN,
    ),
    Condition.NODE_MISSING: Row(
        "the queued resource is there, but its node is gone or stopped for good: somebody deleted"
        " or stopped it, or Google took it; the leftover still uses quota",
        PreviewAction.REPLACE,
        Outcome("what is left of it is deleted, and capacity is requested again"),
        Outcome("its node was lost outside of Pulumi; `up` replaces it"),
        _LEFTOVER_DELETED,
        _AGAIN,
    ),
    Condition.ORPHANED: Row(
        "the node is there, and billed, but its queued resource is gone: somebody deleted it",
        PreviewAction.REPLACE,
        Outcome("the node is deleted, and capacity is requested again"),
        Outcome(
            "its queued resource was deleted outside of Pulumi and the node is still billed;"
            " `up` replaces it, `down` or `destroy` deletes it"
        ),
        Outcome("the node is deleted: nothing is billed any more"),
        Outcome(Advice("it is billed! `{up}` requests capacity again, `{down}` cleans up"), _OVER),
    ),
    Condition.DELETING: Row(
        "being deleted; billed until its hosts are gone",
        PreviewAction.REPLACE,
        Outcome("waits until it is gone, and requests capacity again"),
        Outcome("somebody is deleting it; `up` requests capacity again"),
        Outcome("it was being deleted already, and is gone now"),
        Outcome(Advice("`{up}` waits until it is gone and requests capacity again"), _WAIT),
    ),
    Condition.GONE: Row(
        "neither queued resource nor node is there; costs nothing",
        PreviewAction.CREATE,
        Outcome("`up` requests capacity again"),
        Outcome("it is gone, and taken out of the state; `up` requests capacity again"),
        Outcome("it is gone, and taken out of the state"),
        Outcome(Advice("`{up}` requests it"), _ABSENT),
    ),
    Condition.FOREIGN: Row(
        "the name belongs to somebody else, and ours is gone; costs us nothing",
        PreviewAction.CREATE,
        Outcome(
            "Nothing was changed. Ask its owner to delete it, or take another name: another"
            " queuedResourceId in a program, another stack name with tpuflex.",
            AlreadyExistsError.exit_code,
        ),
        Outcome("ours is gone, and taken out of the state; what is there is left alone"),
        Outcome("ours is gone, and taken out of the state; what is there is left alone"),
        Outcome("Ask its owner to delete it, or take another stack name", _ABSENT),
    ),
}
#: Said of what has our own names and marker, and the id of another state: a colleague's, or one
#: that was lost.
OTHER_STATE = Advice(
    "Nothing was changed. Another state of this project and stack has made it. If that is a"
    " colleague's, share the state (`tpuflex docs working-together`) or take another stack"
    " name. If it was yours and is lost: `{recover} --take-over`."
)
#: What `status` says to do about an ended run where `on_run_end` is accept. That nothing serves is
#: still its exit code.
ACCEPTED = Outcome(
    Advice(
        "nothing: tpuflex:slice.on_run_end accepts that the run is over, and `{up}` succeeds"
        " without a slice; {text}",
        text=TABLE[Condition.ENDED].status.text,
    ),
    _OVER,
)
#: ACTIVE does not mean serving yet: what `status` says while the host boots, while its report is
#: refused, and once the boot has failed.
BOOTING = Outcome(Advice("`{up}` waits until it serves"), _WAIT)
UNREAD = Outcome(
    Advice("whether it serves cannot be read now: ask again, or look at `{logs}`"), _WAIT
)
HOST_FAILED = Outcome(
    Advice(
        "it is billed! `{diagnose}` says what the cause is likely to be. When it is mended,"
        " `{reboot}` boots it again; `{up} --new-host` asks for another, and keeps the weights;"
        " `{down}` ends it"
    ),
    _OVER,
)
#: What `status` says of a host that was READY: while it ends what it has begun, while its server is
#: started again, and once that has failed.
DRAINING = Outcome(
    Advice(
        "it takes nothing new: where a deletion was stopped, `{up}` opens it again; where its run"
        " ends, tpuflex:slice.renew_before makes another before that; `{down}` ends it"
    ),
    _OVER,
)
DEGRADED = Outcome(
    Advice(
        "its server is started again: ask again in a minute, or `{logs}`; `{restart}` does it now"
    ),
    _WAIT,
)
SERVER_FAILED = Outcome(
    Advice(
        "it is billed! `{restart}` starts its server again, `{reboot}` its machine: neither needs"
        " new capacity. `{up} --new-host` asks for another; until that one's hosts run, this one is"
        " billed and uses quota. `{down}` ends it"
    ),
    _OVER,
)
#: Said by `up`, behind the name of what serves, when its successor does not come to serve.
NOT_TAKEN_OVER = Outcome("was not touched and serves on; both are billed.", _OVER)
#: The same where what served has ended meanwhile.
NOTHING_SERVES = Outcome("What served has ended meanwhile: nothing serves.", _OVER)
#: Said by `up`, before the name of what served, which is then drained and deleted.
TAKEN_OVER = Outcome("it serves, and takes over from")
#: Said by `up` of a slice whose boot failed, where `on_boot_failure` is delete.
BOOT_FAILED_DELETED = Outcome(
    Advice(
        "The slice was deleted, as tpuflex:slice.on_boot_failure says: nothing is billed any more."
        " When the cause is mended: `{up}`."
    ),
    _OVER,
)
BOOT_FAILED_KEPT = Outcome("The slice was not deleted, and is billed", _OVER)
#: Said by `up` and `down` at their deadline, when a deletion does not complete.
STUCK = "It stays in the state: run the same command again."
STUCK_UP = Outcome(STUCK, ConflictError.exit_code)
STUCK_DOWN = Outcome(STUCK, IncompleteTeardownError.exit_code)
#: Refused while a protected endpoint is ACTIVE, and reported while Pulumi keeps something.
PROTECTED = Outcome("deletion_protection is on", ConflictError.exit_code)
KEPT = Outcome("left, and still billed", IncompleteTeardownError.exit_code)
#: Protection is switched off in a step of its own, as Google has it.
UNPROTECT = (
    "First set deletion_protection to false (in a stack file: tpuflex:slice.deletion_protection)"
    " and run `up` with that alone; then do this."
)

_BY_LIFECYCLE = {
    Lifecycle.WAITING: Condition.WAITING,
    Lifecycle.PROVISIONING: Condition.PROVISIONING,
    Lifecycle.ACTIVE: Condition.ACTIVE,
    Lifecycle.ENDED: Condition.ENDED,
    Lifecycle.FAILED: Condition.FAILED,
    Lifecycle.DELETING: Condition.DELETING,
}


def condition_of(
    where: Lifecycle, *, queued_resource: bool, node: bool, ours: bool = True
) -> Condition:
    """The condition that applies.

    Args:
        where: the request's lifecycle.
        queued_resource: whether there is a queued resource.
        node: whether there is a node.
        ours: whether what is there carries our owner marker.
    """
    if not queued_resource and not node:
        return Condition.GONE
    if not ours:
        return Condition.FOREIGN
    if where is Lifecycle.LOST:
        return Condition.NODE_MISSING if queued_resource else Condition.ORPHANED
    return _BY_LIFECYCLE[where]
