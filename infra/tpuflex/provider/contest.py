"""All zones of one race: what exists in them, what is being deleted, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.deadlines import Deadlines
from tpuflex.provider.delete import Removal
from tpuflex.provider.watch import Watch
from tpuflex.provider.zone_attempt import Entrant
from tpuflex.request.arguments import QueuedResourceArgs
from tpuflex.request.name import RequestName
from tpuflex.request.snapshot import Observation


@dataclass
class Field:
    """The zones, and requests of ours in zones that are not asked any more.

    Attributes:
        call: what is at hand.
        args: what is asked for.
        deadlines: how long each part may take.
        entrants: the zones, in the order in which they are preferred.
        strays: deletions in zones that ``args`` do not name.
        stuck: what could not be deleted in this call.
    """

    call: Call
    args: QueuedResourceArgs
    deadlines: Deadlines
    entrants: list[Entrant] = field(default_factory=list)
    strays: list[Removal] = field(default_factory=list)
    stuck: list[RequestName] = field(default_factory=list)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.call.timing.monotonic()
        self.entrants = [Entrant.in_zone(self.args, zone) for zone in self.args.zones]

    @property
    def single(self) -> bool:
        """Whether there is but one zone."""
        return len(self.entrants) == 1

    @property
    def age(self) -> float:
        """Seconds since the race began."""
        return self.call.timing.monotonic() - self.began

    def add_strays(self, known: Iterable[RequestName]) -> None:
        """Delete those of ``known`` that are in none of the zones."""
        ours = {entrant.name for entrant in self.entrants}
        self.strays = [self._removal(name) for name in known if name not in ours]

    def live(self) -> list[Watch]:
        """The requests that may still become active."""
        return [e.watch for e in self.entrants if e.live and e.watch is not None]

    # -- deleting ----------------------------------------------------------------------------

    def drop(self, entrant: Entrant, note: str) -> None:
        """Delete what is there; with a ``note`` the zone is out, without it is asked again."""
        entrant.watch, entrant.note, entrant.exists = None, note, True
        entrant.removal = self._removal(entrant.name)

    def removals(self) -> list[Removal]:
        """The deletions that go on."""
        return [*(e.removal for e in self.entrants if e.removal is not None), *self.strays]

    def remove(self) -> list[TpuflexError]:
        """One step of every deletion; gives the failures of those that failed for good.

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
        where = "" if self.single and not self.strays else f"{name.zone}: "
        return Removal(self.call, name, self.args.labels, deadline, where=where)

    def _end(self, removal: Removal, failure: TpuflexError | None) -> None:
        if removal in self.strays:
            self.strays.remove(removal)
            if failure is not None:
                self.stuck.append(removal.name)
        for entrant in self.entrants:
            if entrant.removal is not removal:
                continue
            entrant.removal, entrant.exists = None, failure is not None
            if failure is not None and not entrant.note:
                # It should have made room for a request.
                entrant.out(failure)
                entrant.exists = True
        if failure is not None:
            self.call.report(failure.message, warning=True)

    # -- keeping -----------------------------------------------------------------------------

    def remains(self) -> bool:
        """Whether anything exists, or may exist."""
        return bool(self.strays or self.stuck) or any(entrant.exists for entrant in self.entrants)

    def kept(self, message: str, hint: str, first: Entrant | None = None) -> UnreadyError:
        """The error that keeps everything that exists in the state.

        Args:
            message: what happened.
            hint: what to do.
            first: what the state shows; the most advanced request unless given.
        """
        there = [entrant for entrant in self.entrants if entrant.exists]
        ranked = sorted(there, key=lambda entrant: (not entrant.granted, not entrant.live))
        chosen = first or (ranked[0] if ranked else self.entrants[0])
        seen = chosen.seen
        also = (
            *(entrant.name for entrant in there if entrant is not chosen),
            *(stray.name for stray in self.strays),
            *self.stuck,
        )
        kept = Observation(seen.name, seen.queued_resource, seen.nodes, seen.at, also)
        return UnreadyError(message, observation=kept, hint=hint)

    # -- telling -----------------------------------------------------------------------------

    def names(self) -> str:
        """What is asked for, and where."""
        if self.single:
            return str(self.entrants[0].name)
        return f"{self.args.queued_resource_id} in {' or '.join(self.args.zones)}"

    def at(self, entrant: Entrant) -> str:
        """The zone, where there are several."""
        return "" if self.single else f"{entrant.zone}: "

    def lines(self) -> list[str]:
        """What was last seen of each request that is waited for."""
        return [
            f"{self.at(entrant)}{entrant.watch.sentence()}"
            for entrant in self.entrants
            if entrant.live and entrant.watch is not None
        ]

    def sentence(self) -> str:
        """How all zones stand."""
        if self.single and self.entrants[0].watch is not None:
            return self.entrants[0].watch.sentence()
        return ", ".join(entrant.outcome() for entrant in self.entrants)

    def left(self) -> float:
        """Seconds until the next deadline that is not over."""
        own = [watch.left(self.deadlines, self.began) for watch in self.live()]
        return min([self.deadlines.overall - self.age, *(each for each in own if each > 0)])
