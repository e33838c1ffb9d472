"""Gets one slice from several zones: all at once, or one after the other.

One zone is a race of one. Whatever happens, every request is either the winner, or deleted and
confirmed gone, or named in the snapshot that the state keeps: nothing is left running unrecorded.
Names are deterministic per zone, so a run that was killed at any point is resumed by looking.
"""

from __future__ import annotations

from collections.abc import Iterable

from tpuflex.codes import Code
from tpuflex.errors import (
    AccessError,
    ApiError,
    InterruptedByUser,
    QuotaError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.google.timing import SETTLED_AFTER
from tpuflex.provider.call import Call, Deadlines, UnreadyError, elapsed
from tpuflex.provider.place import Verdict, adopted, place, refusal, verdict, withdraw
from tpuflex.provider.serving_hosts import answering, serves
from tpuflex.provider.watch import GO_ON, Watch
from tpuflex.provider.zone_attempts import RaceProgress, ZoneAttempt, ZoneAttempts, all_zones_failed
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.model import Status
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.ownership import NO_RECORDS, Records
from tpuflex.queued_resource.snapshot import Snapshot, rank
from tpuflex.queued_resource.states import Lifecycle

#: Seconds within which Google gets to know a new service account.
ACCOUNT_KNOWN_AFTER = 120.0
#: Between two attempts, in seconds.
PAUSE = 10.0
#: Refusals that a service account which is not known yet may meet: bad request, not found, no
#: permission, failed precondition.
_CODES = frozenset({3, 5, 7, 9})
_REASONS = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"})


class Patience:
    """How long the refusals of one create may last.

    Args:
        call: the engine call.
        args: the validated inputs.
        creating: whether the resource is being created. For one that exists nothing was made or
            enabled just now, and no refusal passes.
    """

    def __init__(self, call: Call, args: RequestArgs, *, creating: bool) -> None:
        self._call = call
        self._account = args.service_account if creating else None
        self._creating = creating
        self._began = call.timing.monotonic()

    def look(self, name: RequestName) -> Snapshot:
        """The request ``name`` and its nodes as they are now.

        Raises:
            AccessError, ApiError: it cannot be read; an API that is off, only after a while.
            InterruptedByUser: the engine cancelled.
        """
        while True:
            try:
                return self._call.look(name)
            except ServiceDisabledError as error:
                if not self.outlasts(error):
                    raise
            self._call.pause(PAUSE)

    def outlasts(self, error: TpuflexError, failure: Status | None = None) -> bool:
        """Whether the same request may soon succeed; says what is waited for.

        Args:
            error: what ended the attempt.
            failure: Google's status, where an operation or the request itself has failed.
        """
        age = self._call.timing.monotonic() - self._began
        if self._creating and isinstance(error, ServiceDisabledError):
            what, limit = "the TPU API does not answer yet", SETTLED_AFTER
        elif self._account and unknown_account(self._account, error, failure):
            what, limit = f"Google does not know {self._account} yet", ACCOUNT_KNOWN_AFTER
        else:
            return False
        if age + PAUSE > limit:
            return False
        self._call.report(
            f"{what}; asking again for {elapsed(limit)} ({elapsed(age)} so far)", passing=True
        )
        return True


def unknown_account(account: str, error: TpuflexError, failure: Status | None) -> bool:
    """Whether ``error`` is one that names ``account``, and that passes when Google knows it."""
    if isinstance(error, UnreadyError):
        failure = error.snapshot.failure
    if failure is not None:
        return failure.code in _CODES and account.lower() in failure.message.lower()
    if account.lower() not in error.message.lower():
        return False
    if isinstance(error, ApiError):
        return error.reason in _REASONS
    return isinstance(error, AccessError) and not isinstance(error, QuotaError)


def obtain(
    call: Call,
    args: RequestArgs,
    deadlines: Deadlines,
    *,
    known: Iterable[RequestName] = (),
    records: Records = NO_RECORDS,
) -> Snapshot:
    """Get a slice in one of the zones of ``args``, and wait until it is active.

    Args:
        call: the engine call.
        args: the validated inputs.
        deadlines: how long each part may take.
        known: requests that the state may have, first the one that it shows; those in zones not
            among ``args`` are deleted.
        records: those that it has a record of.

    Raises:
        UnreadyError: something exists, or may exist, and must be kept in the state.
        TpuflexError: nothing was placed.
    """
    with call.waits:
        return Race(call, args, deadlines, known, records).run()


class Race:
    """One call's race for a slice."""

    def __init__(
        self,
        call: Call,
        args: RequestArgs,
        deadlines: Deadlines,
        known: Iterable[RequestName] = (),
        records: Records = NO_RECORDS,
    ) -> None:
        self._call = call
        recorded = tuple(known)
        self._shown = next(iter(recorded), None)
        self._known = frozenset(recorded)
        self._unchanged = False  # the recorded request is active: there is nothing to report
        self._zones = ZoneAttempts(call, args, deadlines, records)
        self._zones.add_other_requests(self._known)
        self._ordered = args.strategy == "ordered" and not self._zones.single
        self._progress = RaceProgress(call, self._zones)
        self._patience = Patience(call, args, creating=not self._known)

    def run(self) -> Snapshot:
        """As :func:`obtain`."""
        zones = self._zones
        try:
            self._survey()
            while True:
                zones.remove()
                self._ask()
                winner = self._poll()
                if winner is not None:
                    return self._win(winner)
                self._require_hope()
                self._check_deadlines()
                self._progress.report()
                self._pause(self._progress.pause())
        except InterruptedByUser as error:
            if not zones.remains():
                raise
            message = f"stopped waiting for {zones.names()}"
            raise zones.kept(message, GO_ON, code=Code.STOPPED) from error

    # -- what an earlier run has left -----------------------------------------

    def _survey(self) -> None:
        """Look into every zone before requesting anything: an earlier run may already have a
        winner."""
        zones = self._zones
        for attempt in zones.attempts:
            try:
                seen = self._patience.look(attempt.name)
            except (AccessError, ApiError) as error:
                if zones.single:
                    raise
                self._lose(attempt, error)
                attempt.exists = True  # it may
                continue
            judged = verdict(attempt.args, seen, zones.records)
            if judged is Verdict.REFUSE_DIFFERENT and attempt.name in self._known:
                # The fingerprint is for requests that no state records. Here the diff has decided
                # that what differs (on_boot_change, say) is changed in place.
                judged = Verdict.ADOPT
            if judged is Verdict.ADOPT:
                self._adopt(attempt, seen)
            elif judged is Verdict.CLEAR:
                where = f"{zones.at(attempt)}{seen.describe()}"
                self._call.report(f"clearing a leftover of an earlier run, {where}")
                zones.drop(attempt)
            elif judged is Verdict.REFUSE_DIFFERENT:
                refused = refusal(attempt.args, seen, judged)
                if zones.remains():
                    raise zones.kept(refused.message, refused.hint, code=refused.code)
                raise refused
        if self._ordered:
            self._choose_turn()

    def _adopt(self, attempt: ZoneAttempt, seen: Snapshot) -> None:
        attempt.watch = Watch.placed(self._call, attempt.name, None)
        attempt.watch.seen = seen
        attempt.exists = True
        if seen.lifecycle is not Lifecycle.WAITING:
            attempt.watch.granted = attempt.watch.started
        if attempt.name in self._known and seen.lifecycle is Lifecycle.ACTIVE:
            self._unchanged = True
            return
        known, where = attempt.name in self._known, self._zones.at(attempt)
        self._call.report(adopted(seen, where, known=known), warning=not known)

    def _choose_turn(self) -> None:
        """Ordered: begin in the zone that is furthest along; withdraw what waits in the others."""
        attempts = self._zones.attempts
        live = [attempt for attempt in attempts if attempt.live]
        if not live:
            return
        first = min(live, key=lambda attempt: rank(attempt.seen.lifecycle))
        for other in live:
            if other is not first and not other.granted:
                self._withdraw(other)
        at = attempts.index(first)
        self._zones.attempts = [*attempts[at:], *attempts[:at]]
        self._begin_turn(first)

    # -- requesting ----------------------------------------------------------------------------

    def _ask(self) -> None:
        """Place the requests that are due."""
        attempts = self._zones.attempts
        if any(attempt.granted for attempt in attempts):
            return
        for attempt in attempts:
            if self._ordered and any(e.live or e.removal for e in attempts):
                return
            if attempt.not_asked and attempt.not_before <= self._call.timing.monotonic():
                self._place(attempt)
            if self._ordered and attempt.not_asked:
                return  # it is asked again soon

    def _place(self, attempt: ZoneAttempt) -> None:
        attempt.exists = True  # until proven otherwise
        deadline = self._call.timing.monotonic() + self._zones.deadlines.deletion
        try:
            operation = place(self._call, attempt.args, deadline=deadline)
        except UnreadyError as error:
            if isinstance(error.__cause__, InterruptedByUser):
                raise self._zones.kept(error.message, error.hint, code=error.code) from error
            operation = None  # it may have arrived: the watch will tell
        except InterruptedByUser:
            attempt.exists = False
            raise
        except TpuflexError as error:
            self._lose(attempt, error)
            return
        attempt.watch = Watch.placed(self._call, attempt.name, operation)
        if self._ordered:
            self._begin_turn(attempt)

    def _begin_turn(self, attempt: ZoneAttempt) -> None:
        """Ordered: each zone gets an equal share of the queue time that is left."""
        now = self._call.timing.monotonic()
        left = max(0.0, self._zones.began + self._zones.deadlines.queue - now)
        turns = sum(e is attempt or e.not_asked for e in self._zones.attempts)
        attempt.share = now + left / turns if turns > 1 else None

    # -- waiting -----------------------------------------------------------------------------

    def _poll(self) -> ZoneAttempt | None:
        """Poll every request once; return one that is active, if any is."""
        attempts = self._zones.attempts
        for attempt in attempts:
            if attempt.live and attempt.watch is not None:
                try:
                    attempt.watch.poll()
                except InterruptedByUser:
                    raise
                except TpuflexError as error:
                    self._lose(attempt, error)
                else:
                    self._end_turn(attempt)
        return self._chosen([e for e in attempts if e.live and e.watch and e.watch.active])

    def _chosen(self, active: list[ZoneAttempt]) -> ZoneAttempt | None:
        """Of several that run the one that serves, else the one that the state shows, else the
        first of the zones: what an earlier call could not delete may have come to run beside what
        it got."""
        serving = self._zones.serving
        if len(active) > 1:
            serving.update(answering(self._call, (e.name for e in active), counts=serves))
        order = sorted(active, key=lambda e: (e.name not in serving, e.name != self._shown))
        return next(iter(order), None)

    def _end_turn(self, attempt: ZoneAttempt) -> None:
        """Ordered: go on to the next zone once this one has used up its share and still waits."""
        if attempt.share is None or not attempt.queued or attempt.watch is None:
            return
        if self._call.timing.monotonic() >= attempt.share:
            self._withdraw(attempt, f"withdrawn after {elapsed(attempt.watch.age)}")

    def _withdraw(self, attempt: ZoneAttempt, note: str | None = None) -> None:
        try:
            withdrawn = withdraw(self._call, attempt.name)
        except (AccessError, ApiError) as error:
            self._call.report(f"{attempt.zone}: not withdrawn yet ({error.message})", passing=True)
            return
        if withdrawn:
            self._zones.drop(attempt, note)
            self._call.report(f"{attempt.zone}: {note or 'withdrawn: one zone at a time'}")
        else:
            attempt.share = None  # granted at the last moment: it wins

    def _lose(self, attempt: ZoneAttempt, error: TpuflexError) -> None:
        """A zone has failed: report why, and delete its request while others may still win. One
        that was refused too early is asked again."""
        if self._patience.outlasts(error, attempt.rejected):
            attempt.retry(self._call.timing.monotonic() + PAUSE)
            if isinstance(error, UnreadyError):
                self._zones.drop(attempt)  # it exists, and has failed
            return
        attempt.give_up(error)
        if self._zones.single:
            return
        self._call.report(
            f"{attempt.zone} has failed: {attempt.note}. {error.message}", warning=True
        )
        if attempt.exists and any(e.live or e.not_asked for e in self._zones.attempts):
            self._zones.drop(attempt, attempt.note)

    def _require_hope(self) -> None:
        """Go on only while some zone may still succeed."""
        error = all_zones_failed(self._zones)
        if error is not None:
            raise error

    def _check_deadlines(self) -> None:
        zones, live = self._zones, self._zones.live()
        over = [text for watch in live if (text := watch.overdue(zones.deadlines, zones.began))]
        if zones.age >= zones.deadlines.overall:
            over = [elapsed(zones.age)]
        elif len(over) < len(live):
            return
        if over:
            raise zones.kept(
                f"{zones.names()} is not active after {over[0]}: {zones.describe()}",
                GO_ON,
                code=Code.WAITING,
            )

    # -- the end -----------------------------------------------------------------------------

    def _win(self, winner: ZoneAttempt) -> Snapshot:
        """Delete the requests in the other zones, and wait until they are gone."""
        assert winner.watch is not None  # noqa: S101 - it was polled
        zones, age = self._zones, elapsed(winner.watch.age)
        if not self._unchanged:
            self._call.report(f"{zones.at(winner)}{winner.seen.describe()} (after {age})")
        for attempt in zones.attempts:
            if attempt is not winner and attempt.exists and attempt.removal is None:
                self._call.report(f"{attempt.zone}: deleting it, because {winner.zone} won")
                zones.drop(attempt, attempt.note or f"deleted: {winner.zone} won")
        failures: list[TpuflexError] = []
        beside = zones.removals()
        while zones.removals():
            failures += zones.remove()
            if removals := zones.removals():
                self._pause(min(removal.wait() for removal in removals))
        if failures or zones.stuck:
            what = failures[0].message if failures else ", ".join(map(str, zones.stuck))
            raise zones.kept(
                f"{winner.name} is ACTIVE, but the requests in other zones are not gone: {what}",
                "Run `pulumi up` again: it deletes the rest.",
                winner,
                code=failures[0].code if failures else None,
            )
        if beside:
            winner.watch.poll()  # deleting may have taken longer than its run
        if not zones.single and not self._unchanged:
            winner.note = f"ACTIVE after {age}"
            asked = (attempt for attempt in zones.attempts if not attempt.not_asked)
            self._call.report("; ".join(attempt.summary() for attempt in asked))
        return winner.seen

    def _pause(self, seconds: float) -> None:
        if self._call.timing.pause(max(0.0, seconds)):
            raise InterruptedByUser("stopped on request")
