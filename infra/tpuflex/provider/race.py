"""Getting one slice out of several zones: all at once, or one after the other.

One zone is a race of one. Whatever happens, what exists in any zone is either the winner, or
deleted and confirmed gone, or named in the observation that the state keeps: nothing is left
running that nobody knows of. Names are deterministic per zone, so a run that was killed at any
point is taken up again by looking.
"""

from __future__ import annotations

from collections.abc import Iterable

from tpuflex.errors import (
    AccessError,
    ApiError,
    InterruptedByUser,
    TpuflexError,
)
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.contest import Field
from tpuflex.provider.deadlines import Deadlines
from tpuflex.provider.delete import withdraw
from tpuflex.provider.elapsed import elapsed
from tpuflex.provider.hopeless import without_hope
from tpuflex.provider.place import Verdict, place, refusal, verdict
from tpuflex.provider.progress import Progress
from tpuflex.provider.watch import GO_ON, Watch
from tpuflex.provider.zone_attempt import Entrant
from tpuflex.request.arguments import QueuedResourceArgs
from tpuflex.request.name import RequestName
from tpuflex.request.snapshot import Observation
from tpuflex.request.states import Lifecycle


def obtain(
    call: Call,
    args: QueuedResourceArgs,
    deadlines: Deadlines,
    *,
    known: Iterable[RequestName] = (),
) -> Observation:
    """Get a slice in one of the zones of ``args``, and wait until it is active.

    Args:
        call: what is at hand.
        args: what is asked for.
        deadlines: how long each part may take.
        known: requests that the state knows of; those in other zones than ``args`` name go.

    Raises:
        UnreadyError: something exists, or may exist, and must be kept in the state.
        TpuflexError: nothing was placed.
    """
    with call.waits:
        return Race(call, args, deadlines, known).run()


class Race:
    """One call's way to a slice."""

    def __init__(
        self,
        call: Call,
        args: QueuedResourceArgs,
        deadlines: Deadlines,
        known: Iterable[RequestName] = (),
    ) -> None:
        self._call = call
        self._known = frozenset(known)
        self._standing = False  # what the state knows is active: there is nothing to tell
        self._field = Field(call, args, deadlines)
        self._field.add_strays(self._known)
        self._ordered = args.strategy == "ordered" and not self._field.single
        self._progress = Progress(call, self._field)

    def run(self) -> Observation:
        """As :func:`obtain`."""
        field = self._field
        try:
            self._survey()
            while True:
                field.remove()
                self._ask()
                winner = self._poll()
                if winner is not None:
                    return self._win(winner)
                self._require_hope()
                self._check_deadlines()
                self._progress.tell()
                self._pause(self._progress.pause())
        except InterruptedByUser as error:
            if not field.remains():
                raise
            raise field.kept(f"stopped waiting for {field.names()}", GO_ON) from error

    # -- where we are: what an earlier run has left -----------------------------------------

    def _survey(self) -> None:
        """Look into every zone before anything is asked for anywhere: an earlier run may have
        a winner already."""
        field = self._field
        for entrant in field.entrants:
            try:
                seen = self._call.look(entrant.name)
            except (AccessError, ApiError) as error:
                if field.single:
                    raise
                self._lose(entrant, error)
                entrant.exists = True  # for all that is known
                continue
            judged = verdict(entrant.args, seen)
            if judged is Verdict.REFUSE_DIFFERENT and entrant.name in self._known:
                # The fingerprint is for what no state knows of. Here the diff has decided that
                # what differs (on_boot_change, say) is changed in place.
                judged = Verdict.ADOPT
            if judged is Verdict.ADOPT:
                self._adopt(entrant, seen)
            elif judged is Verdict.CLEAR:
                where = f"{field.at(entrant)}{seen.sentence()}"
                self._call.report(f"clearing a leftover of an earlier run, {where}")
                field.drop(entrant, "")
            elif judged is Verdict.REFUSE_DIFFERENT:
                refused = refusal(seen, judged)
                raise field.kept(refused.message, refused.hint) if field.remains() else refused
        if self._ordered:
            self._choose_turn()

    def _adopt(self, entrant: Entrant, seen: Observation) -> None:
        entrant.watch = Watch.placed(self._call, entrant.name, None)
        entrant.watch.seen = seen
        entrant.exists = True
        if seen.lifecycle is not Lifecycle.WAITING:
            entrant.watch.granted = entrant.watch.started
        if entrant.name in self._known and seen.lifecycle is Lifecycle.ACTIVE:
            self._standing = True
            return
        where = f"{self._field.at(entrant)}{seen.sentence()}"
        self._call.report(f"found the request of an earlier run, {where}")

    def _choose_turn(self) -> None:
        """Ordered: begin where an earlier run waits; withdraw what waits elsewhere."""
        entrants = self._field.entrants
        live = [entrant for entrant in entrants if entrant.live]
        first = next((e for e in live if e.granted), live[0] if live else None)
        if first is None:
            return
        for other in live:
            if other is not first and not other.granted:
                self._withdraw(other, "")
        at = entrants.index(first)
        self._field.entrants = [*entrants[at:], *entrants[:at]]
        self._begin_turn(first)

    # -- asking ------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Place the requests whose turn it is."""
        entrants = self._field.entrants
        if any(entrant.granted for entrant in entrants):
            return
        for entrant in entrants:
            if self._ordered and any(e.live or e.removal for e in entrants):
                return
            if entrant.fresh:
                self._place(entrant)

    def _place(self, entrant: Entrant) -> None:
        entrant.exists = True  # until it is known that it does not
        deadline = self._call.timing.monotonic() + self._field.deadlines.deletion
        try:
            operation = place(self._call, entrant.args, deadline=deadline)
        except UnreadyError as error:
            if isinstance(error.__cause__, InterruptedByUser):
                raise self._field.kept(error.message, error.hint) from error
            operation = None  # it may have arrived: the watch finds out
        except InterruptedByUser:
            entrant.exists = False
            raise
        except TpuflexError as error:
            self._lose(entrant, error)
            return
        entrant.watch = Watch.placed(self._call, entrant.name, operation)
        if self._ordered:
            self._begin_turn(entrant)

    def _begin_turn(self, entrant: Entrant) -> None:
        """Ordered: each zone gets its part of the time in the queue that is left."""
        now = self._call.timing.monotonic()
        left = max(0.0, self._field.began + self._field.deadlines.queue - now)
        turns = sum(e is entrant or e.fresh for e in self._field.entrants)
        entrant.share = now + left / turns if turns > 1 else None

    # -- waiting -----------------------------------------------------------------------------

    def _poll(self) -> Entrant | None:
        """One round of questions; the first that is active, in the order of the zones."""
        entrants = self._field.entrants
        for entrant in entrants:
            if entrant.live and entrant.watch is not None:
                try:
                    entrant.watch.poll()
                except InterruptedByUser:
                    raise
                except TpuflexError as error:
                    self._lose(entrant, error)
                else:
                    self._end_turn(entrant)
        return next((e for e in entrants if e.live and e.watch and e.watch.active), None)

    def _end_turn(self, entrant: Entrant) -> None:
        """Ordered: the next zone, once this one had its share and still waits."""
        if entrant.share is None or not entrant.queued or entrant.watch is None:
            return
        if self._call.timing.monotonic() >= entrant.share:
            self._withdraw(entrant, f"withdrawn after {elapsed(entrant.watch.age)}")

    def _withdraw(self, entrant: Entrant, note: str) -> None:
        try:
            withdrawn = withdraw(self._call, entrant.name)
        except (AccessError, ApiError) as error:
            self._call.report(f"{entrant.zone}: not withdrawn yet ({error.message})", passing=True)
            return
        if withdrawn:
            self._field.drop(entrant, note)
            self._call.report(f"{entrant.zone}: {note or 'withdrawn: one zone at a time'}")
        else:
            entrant.share = None  # granted at the last moment: it is the one

    def _lose(self, entrant: Entrant, error: TpuflexError) -> None:
        """A zone is out: say why, and clear what is left there while others may still win."""
        entrant.out(error)
        if self._field.single:
            return
        self._call.report(f"{entrant.zone} is out: {entrant.note}. {error.message}", warning=True)
        if entrant.exists and any(e.live or e.fresh for e in self._field.entrants):
            self._field.drop(entrant, entrant.note)

    def _require_hope(self) -> None:
        """Go on only while some zone may still deliver.

        Raises:
            TpuflexError: none can; with all reasons.
        """
        error = without_hope(self._field)
        if error is not None:
            raise error

    def _check_deadlines(self) -> None:
        field, live = self._field, self._field.live()
        over = [text for watch in live if (text := watch.overdue(field.deadlines, field.began))]
        if field.age >= field.deadlines.overall:
            over = [elapsed(field.age)]
        elif len(over) < len(live):
            return
        if over:
            raise field.kept(
                f"{field.names()} is not active after {over[0]}: {field.sentence()}", GO_ON
            )

    # -- the end -----------------------------------------------------------------------------

    def _win(self, winner: Entrant) -> Observation:
        """Delete what is left elsewhere, and wait until it is gone."""
        assert winner.watch is not None  # noqa: S101 - it was polled
        field, age = self._field, elapsed(winner.watch.age)
        if not self._standing:
            self._call.report(f"{field.at(winner)}{winner.seen.sentence()} (after {age})")
        for entrant in field.entrants:
            if entrant is not winner and entrant.exists and entrant.removal is None:
                self._call.report(f"{entrant.zone}: deleting it, because {winner.zone} won")
                field.drop(entrant, entrant.note or f"deleted: {winner.zone} won")
        failures: list[TpuflexError] = []
        beside = field.removals()
        while field.removals():
            failures += field.remove()
            if removals := field.removals():
                self._pause(min(removal.wait() for removal in removals))
        if failures or field.stuck:
            what = failures[0].message if failures else ", ".join(map(str, field.stuck))
            raise field.kept(
                f"{winner.name} is ACTIVE, but what was asked for elsewhere is not gone: {what}",
                "Run `pulumi up` again: it deletes the rest.",
                winner,
            )
        if beside:
            winner.watch.poll()  # that may have taken longer than its run
        if not field.single and not self._standing:
            winner.note = f"ACTIVE after {age}"
            asked = (entrant for entrant in field.entrants if not entrant.fresh)
            self._call.report("; ".join(entrant.outcome() for entrant in asked))
        return winner.seen

    def _pause(self, seconds: float) -> None:
        if self._call.timing.pause(max(0.0, seconds)):
            raise InterruptedByUser("stopped on request")
