"""One zone in which capacity is requested: its request, its deletion, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    QuotaError,
    TpuflexError,
)
from tpuflex.provider.call import UnreadyError, elapsed
from tpuflex.provider.delete import Removal
from tpuflex.provider.watch import Watch
from tpuflex.queued_resource.body import request_name
from tpuflex.queued_resource.causes import Cause, short_reason
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import Status
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import NO_REASON, Snapshot
from tpuflex.queued_resource.states import is_known


@dataclass
class ZoneAttempt:
    """The attempt to get capacity in one zone.

    Attributes:
        args: the inputs, for this zone only.
        name: the request's name here.
        watch: the request while it is waited for.
        removal: its deletion while that goes on.
        error: why this zone has failed.
        exists: whether a request of ours exists, or may exist, there.
        note: its outcome in a few words; None while it is undecided.
        share: when its turn ends (ordered), on the monotonic clock.
        not_before: when it may be asked (again), on the monotonic clock.
    """

    args: RequestArgs
    name: RequestName
    watch: Watch | None = None
    removal: Removal | None = None
    error: TpuflexError | None = None
    exists: bool = False
    note: str | None = None
    share: float | None = None
    not_before: float = 0.0

    @classmethod
    def in_zone(cls, args: RequestArgs, zone: str) -> ZoneAttempt:
        """The zone ``zone`` of ``args``."""
        there = args.model_copy(update={"zones": (zone,)})
        return cls(there, request_name(there))

    @property
    def zone(self) -> str:
        """Its zone."""
        return self.name.zone

    @property
    def live(self) -> bool:
        """Whether it may still become active."""
        return self.watch is not None and self.error is None

    @property
    def not_asked(self) -> bool:
        """Whether this zone was not requested yet and can be."""
        asked = self.watch is not None or self.removal is not None or self.error is not None
        return not asked and self.note is None

    @property
    def granted(self) -> bool:
        """Whether it has left the queue."""
        return self.live and self.watch is not None and self.watch.granted is not None

    @property
    def queued(self) -> bool:
        """Whether it is still in the queue."""
        return self.live and not self.granted

    @property
    def rejected(self) -> Status | None:
        """What its create operation failed with, if it did."""
        return self.watch.failure if self.watch is not None else None

    @property
    def seen(self) -> Snapshot:
        """The last look at it."""
        if isinstance(self.error, UnreadyError):
            return self.error.snapshot
        return self.watch.seen if self.watch is not None else Snapshot(self.name)

    def give_up(self, error: TpuflexError) -> None:
        """Record that it will not become active."""
        self.error = error
        # A refused request does not exist; anything else must stay in the state.
        self.exists = isinstance(error, UnreadyError)
        if self.note is None:
            self.note = reason(error, self.rejected)

    def retry(self, at: float) -> None:
        """Ask again at ``at``: it was refused, so it does not exist, and the refusal passes."""
        self.watch, self.exists, self.not_before = None, False, at

    def summary(self) -> str:
        """Its state or outcome, in a few words: ``us-east5-b unsupported``."""
        if self.note is not None:
            return f"{self.zone} {self.note}"
        if self.watch is None:
            return f"{self.zone} {'being cleared' if self.removal else 'not requested yet'}"
        if self.seen.queued_resource is None:
            word = "sent"
        else:
            # Google's own word where this version does not know it.
            word = self.seen.lifecycle.value if is_known(self.seen.state) else self.seen.state
        return f"{self.zone} {word} {elapsed(self.watch.age)}"


def reason(error: TpuflexError, rejected: Status | None = None) -> str:
    """Why a zone has failed, in a few words."""
    if isinstance(error, UnreadyError):
        seen = error.snapshot
        if seen.state == "FAILED":
            failure = seen.failure or NO_REASON
            return short_reason(failure.code, failure.message, seen.cause)
        return seen.state if seen.queued_resource is not None else "cannot be found"
    if isinstance(error, AlreadyExistsError):
        return "name taken"
    if isinstance(error, QuotaError):
        return short_reason(8, error.message, Cause.QUOTA)
    if isinstance(error, AccessError):
        return "permission"
    if isinstance(error, ConflictError):
        return "not deletable"
    if isinstance(error, ApiError) and error.passing and error.status:
        return f"no answer (status {error.status})"
    if rejected is not None:
        return short_reason(rejected.code, rejected.message)
    return short_reason(3, error.message)
