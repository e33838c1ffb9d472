"""All zones of one race: what exists in them, what is being deleted, and how that is reported."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tpuflex.codes import Code, deciding
from tpuflex.duration import parse_duration
from tpuflex.errors import AccessError, ApiError, InterruptedByUser, QuotaError, TpuflexError
from tpuflex.provider.call import HEARTBEAT, Call, Deadlines, UnreadyError, elapsed, pause_for
from tpuflex.provider.delete import Removal
from tpuflex.provider.drain import Drain
from tpuflex.provider.watch import Watch
from tpuflex.provider.zone_attempt import ZoneAttempt
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.ownership import NO_RECORDS, Records
from tpuflex.queued_resource.snapshot import Snapshot, rank


@dataclass
class Contest:
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
        hint: str,
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


def all_zones_failed(contest: Contest) -> TpuflexError | None:
    """The error raised when every zone has failed; None while a zone may still succeed.

    An :class:`UnreadyError` if anything remains that the state must keep.
    """
    if any(e.live or e.not_asked or (e.removal and e.note is None) for e in contest.attempts):
        return None
    errors = [e.error for e in contest.attempts if e.error is not None]
    if contest.single:
        return _of_one(contest, errors[0])
    lines = "\n".join(f"  {e.summary()}: {e.error.message}" for e in contest.attempts if e.error)
    message = f"no zone can provide {contest.args.accelerator_type}:\n{lines}"
    hint = "\n".join(dict.fromkeys(error.hint for error in errors if error.hint))
    code = deciding(error.code for error in errors)
    if contest.remains():
        last = next((e for e in reversed(contest.attempts) if e.exists and e.error), None)
        return contest.kept(message, hint, last, code=code)
    kinds = {type(error) for error in errors}
    kind = next((k for k in (QuotaError, AccessError) if kinds == {k}), ApiError)
    return kind(message, hint=hint, code=code)


def _of_one(contest: Contest, error: TpuflexError) -> TpuflexError:
    if not isinstance(error, UnreadyError) and not contest.remains():
        return error
    kept = contest.kept(error.message, error.hint, code=error.code)
    kept.__cause__ = error
    return kept


class Progress:
    """Reports the progress of a race."""

    def __init__(self, call: Call, contest: Contest) -> None:
        self._call = call
        self._contest = contest
        self._said: list[str] = []
        self._said_at = contest.began

    def report(self) -> None:
        """Write a line whenever a state changes, and a sign of life every minute."""
        now = self._call.timing.monotonic()
        contest, lines, age = self._contest, self._contest.lines(), elapsed(self._contest.age)
        if lines != self._said:
            after = f" (after {age})" if self._said else ""
            for line in lines:
                if line not in self._said:
                    self._call.report(f"{line}{after}")
        elif now - self._said_at >= HEARTBEAT:
            left = contest.left()
            # No deadline applies while a leftover is being cleared.
            rest = f", {elapsed(left)} left" if math.isfinite(left) else ""
            silence = max((watch.silence() for watch in contest.live()), default=0.0)
            silent = f", no answer for {elapsed(silence)}" if silence >= HEARTBEAT else ""
            self._call.report(f"{contest.describe()} ({age} so far{rest}{silent})", passing=True)
        else:
            return
        self._said, self._said_at = lines, now

    def pause(self) -> float:
        """Seconds until the next round: a poll, a sign of life, or a deadline."""
        now, contest = self._call.timing.monotonic(), self._contest
        pauses = [
            pause_for(contest.age, self._call.timing.jitter(), self._call.waits.count),
            self._said_at + HEARTBEAT - now,
            *(removal.wait() for removal in contest.removals()),
            *(e.share - now for e in contest.attempts if e.share is not None and e.queued),
        ]
        if (left := contest.left()) > 0:
            pauses.append(left)
        if not contest.live() and not contest.removals():
            # The next zone is tried at once, or as soon as it may be asked again.
            due = (attempt.not_before for attempt in contest.attempts if attempt.not_asked)
            pauses.append(max(0.0, next(due, 0.0) - now))
        return min(pauses)
