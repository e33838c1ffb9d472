"""The zones of one race: the request in each, what is being deleted, and how that is reported."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tpuflex.advice import Advice
from tpuflex.codes import Code, deciding_code
from tpuflex.duration import parse_duration
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InterruptedByUser,
    QuotaError,
    TpuflexError,
)
from tpuflex.provider.call import HEARTBEAT, Call, Deadlines, UnreadyError, elapsed, pause_for
from tpuflex.provider.delete import Removal
from tpuflex.provider.drain import Drain
from tpuflex.provider.watch import Watch
from tpuflex.queued_resource.body import request_name
from tpuflex.queued_resource.causes import Cause, short_reason
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import Status
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.ownership import NO_RECORDS, Records
from tpuflex.queued_resource.snapshot import NO_REASON, Snapshot, rank
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


@dataclass
class ZoneAttempts:
    """The zones of a race, and requests of ours in zones that are no longer wanted.

    Attributes:
        call: the engine call.
        args: the validated inputs.
        deadlines: how long each part may take.
        records: the requests that the state has a record of.
        attempts: one per zone, in order of preference.
        other_requests: deletions in zones that ``args`` do not name.
        stuck: what could not be deleted in this call.
        serving: what was found to serve beside another that runs; it is drained before it goes.
    """

    call: Call
    args: RequestArgs
    deadlines: Deadlines
    records: Records = NO_RECORDS
    attempts: list[ZoneAttempt] = field(default_factory=list)
    other_requests: list[Removal] = field(default_factory=list)
    stuck: list[RequestName] = field(default_factory=list)
    serving: set[RequestName] = field(default_factory=set)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.call.timing.monotonic()
        self.attempts = [ZoneAttempt.in_zone(self.args, zone) for zone in self.args.zones]

    @property
    def single(self) -> bool:
        """Whether there is only one zone."""
        return len(self.attempts) == 1

    @property
    def age(self) -> float:
        """Seconds since the race began."""
        return self.call.timing.monotonic() - self.began

    def add_other_requests(self, known: Iterable[RequestName]) -> None:
        """Delete those of ``known`` that are in none of the zones."""
        ours = {attempt.name for attempt in self.attempts}
        self.other_requests = [self._removal(name) for name in known if name not in ours]

    def live(self) -> list[Watch]:
        """The requests that may still become active."""
        return [e.watch for e in self.attempts if e.live and e.watch is not None]

    # -- deleting ----------------------------------------------------------------------------

    def drop(self, attempt: ZoneAttempt, note: str | None = None) -> None:
        """Delete the request there; without a ``note`` the zone is tried again afterwards."""
        attempt.watch, attempt.note, attempt.exists = None, note, True
        attempt.removal = self._removal(attempt.name)

    def removals(self) -> list[Removal]:
        """The deletions under way."""
        return [*(e.removal for e in self.attempts if e.removal is not None), *self.other_requests]

    def remove(self) -> list[TpuflexError]:
        """Take one step of every deletion; return the errors of those that failed for good.

        Raises:
            InterruptedByUser: the engine cancelled.
        """
        failures: list[TpuflexError] = []
        for removal in self.removals():
            try:
                if removal.step():
                    self._end(removal, None)
            except InterruptedByUser:
                raise
            except TpuflexError as error:
                failures.append(error)
                self._end(removal, error)
        return failures

    def _removal(self, name: RequestName) -> Removal:
        now = self.call.timing.monotonic()
        limits = self.deadlines
        deadline = min(now + limits.deletion, max(now, self.began + limits.overall))
        where = "" if self.single and not self.other_requests else f"{name.zone}: "
        drain = parse_duration(self.args.drain_timeout).total_seconds()
        seconds = min(drain, (deadline - now) / 2)
        return Removal(
            self.call,
            name,
            self.args.labels,
            deadline,
            where=where,
            records=self.records,
            drain=Drain(self.call, name, seconds) if name in self.serving else None,
        )

    def _end(self, removal: Removal, failure: TpuflexError | None) -> None:
        if removal in self.other_requests:
            self.other_requests.remove(removal)
            if failure is not None:
                self.stuck.append(removal.name)
        for attempt in self.attempts:
            if attempt.removal is not removal:
                continue
            attempt.removal, attempt.exists = None, failure is not None
            if failure is not None and attempt.note is None:
                # It should have made room for a request.
                attempt.give_up(failure)
                attempt.exists = True
        if failure is not None:
            self.call.report(failure.message, warning=True)

    # -- keeping -----------------------------------------------------------------------------

    def remains(self) -> bool:
        """Whether anything exists, or may exist."""
        if self.other_requests or self.stuck:
            return True
        return any(attempt.exists for attempt in self.attempts)

    def kept(
        self,
        message: str,
        hint: Advice | str,
        first: ZoneAttempt | None = None,
        *,
        code: Code | None = None,
    ) -> UnreadyError:
        """The error that keeps everything that exists in the state.

        Args:
            message: what happened.
            hint: what to do.
            first: what the state shows; unless given the request that is furthest along, of those
                that may still become active if there are any.
            code: its code, if it has one.
        """
        there = [attempt for attempt in self.attempts if attempt.exists]
        order = sorted(there, key=lambda each: (not each.live, rank(each.seen.lifecycle)))
        chosen = first or next(iter(order), self.attempts[0])
        seen = chosen.seen
        also = (
            *(attempt.name for attempt in there if attempt is not chosen),
            *(other.name for other in self.other_requests),
            *self.stuck,
        )
        kept = Snapshot(seen.name, seen.queued_resource, seen.nodes, seen.at, also)
        return UnreadyError(message, snapshot=kept, hint=hint, code=code)

    # -- telling -----------------------------------------------------------------------------

    def names(self) -> str:
        """The request's id, and its zones."""
        if self.single:
            return str(self.attempts[0].name)
        return f"{self.args.queued_resource_id} in {' or '.join(self.args.zones)}"

    def at(self, attempt: ZoneAttempt) -> str:
        """The zone as a prefix, where there are several."""
        return "" if self.single else f"{attempt.zone}: "

    def lines(self) -> list[str]:
        """The last state of each request that is waited for."""
        return [
            f"{self.at(attempt)}{attempt.watch.describe()}"
            for attempt in self.attempts
            if attempt.live and attempt.watch is not None
        ]

    def describe(self) -> str:
        """The state of all zones, in one line."""
        if self.single and self.attempts[0].watch is not None:
            return self.attempts[0].watch.describe()
        return ", ".join(attempt.summary() for attempt in self.attempts)

    def left(self) -> float:
        """Seconds until the next deadline that is still ahead."""
        own = [watch.left(self.deadlines, self.began) for watch in self.live()]
        return min([self.deadlines.overall - self.age, *(each for each in own if each > 0)])


def all_zones_failed(zones: ZoneAttempts) -> TpuflexError | None:
    """The error raised when every zone has failed; None while a zone may still succeed.

    An :class:`UnreadyError` if anything remains that the state must keep.
    """
    if any(e.live or e.not_asked or (e.removal and e.note is None) for e in zones.attempts):
        return None
    errors = [e.error for e in zones.attempts if e.error is not None]
    if zones.single:
        return _of_one(zones, errors[0])
    lines = "\n".join(f"  {e.summary()}: {e.error.message}" for e in zones.attempts if e.error)
    message = f"no zone can provide {zones.args.accelerator_type}:\n{lines}"
    hint = Advice.lines(*dict.fromkeys(error.hint for error in errors))
    code = deciding_code(error.code for error in errors)
    if zones.remains():
        last = next((e for e in reversed(zones.attempts) if e.exists and e.error), None)
        return zones.kept(message, hint, last, code=code)
    kinds = {type(error) for error in errors}
    kind = next((k for k in (QuotaError, AccessError) if kinds == {k}), ApiError)
    return kind(message, hint=hint, code=code)


def _of_one(zones: ZoneAttempts, error: TpuflexError) -> TpuflexError:
    if not isinstance(error, UnreadyError) and not zones.remains():
        return error
    kept = zones.kept(error.message, error.hint, code=error.code)
    kept.__cause__ = error
    return kept


class RaceProgress:
    """Reports the progress of a race."""

    def __init__(self, call: Call, zones: ZoneAttempts) -> None:
        self._call = call
        self._zones = zones
        self._said: list[str] = []
        self._said_at = zones.began

    def report(self) -> None:
        """Write a line whenever a state changes, and a sign of life every minute."""
        now = self._call.timing.monotonic()
        zones, lines, age = self._zones, self._zones.lines(), elapsed(self._zones.age)
        if lines != self._said:
            after = f" (after {age})" if self._said else ""
            for line in lines:
                if line not in self._said:
                    self._call.report(f"{line}{after}")
        elif now - self._said_at >= HEARTBEAT:
            left = zones.left()
            # No deadline applies while a leftover is being cleared.
            rest = f", {elapsed(left)} left" if math.isfinite(left) else ""
            silence = max((watch.silence() for watch in zones.live()), default=0.0)
            silent = f", no answer for {elapsed(silence)}" if silence >= HEARTBEAT else ""
            self._call.report(f"{zones.describe()} ({age} so far{rest}{silent})", passing=True)
        else:
            return
        self._said, self._said_at = lines, now

    def pause(self) -> float:
        """Seconds until the next round: a poll, a sign of life, or a deadline."""
        now, zones = self._call.timing.monotonic(), self._zones
        pauses = [
            pause_for(zones.age, self._call.timing.jitter(), self._call.waits.count),
            self._said_at + HEARTBEAT - now,
            *(removal.wait() for removal in zones.removals()),
            *(e.share - now for e in zones.attempts if e.share is not None and e.queued),
        ]
        if (left := zones.left()) > 0:
            pauses.append(left)
        if not zones.live() and not zones.removals():
            # The next zone is tried at once, or as soon as it may be asked again.
            due = (attempt.not_before for attempt in zones.attempts if attempt.not_asked)
            pauses.append(max(0.0, next(due, 0.0) - now))
        return min(pauses)
