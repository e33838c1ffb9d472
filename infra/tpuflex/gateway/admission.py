"""Which upstream gets a request, which requests wait, and which are refused.

Nothing here waits or reads a clock: the caller says what time it is, and is called back when a
request that waits gets its place. So whole hours of load are simulated in a moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from tpuflex.gateway.first_token import FirstTokenBreaker, FirstTokenLimits, Pace
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.upstream import Upstream, Want

#: Requests that may move beside the share of all, so that the first ones can; and the most that
#: are saved up.
_RETRY_RESERVE = 3.0
_MOST_RETRIES = 100.0


@dataclass(frozen=True, slots=True)
class ClassRules:
    """What holds for a class of requests.

    Attributes:
        limits: of the first token.
        wait: seconds that a request may wait.
        waiting: how many may wait.
    """

    limits: FirstTokenLimits
    wait: float
    waiting: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request gets no place.

    Attributes:
        reason: why.
        ends: of one that would outlast every run: when the last of them ends, by the monotonic
            clock; else None.
    """

    reason: Reason
    ends: float | None = None


@dataclass(slots=True, eq=False)
class Lease:
    """A place at an upstream, from when the request is sent until it has ended.

    Attributes:
        upstream: where the request goes.
        pool: number of its pool, from 0.
        want: the request.
    """

    upstream: Upstream
    pool: int
    want: Want
    _admission: Admission
    _number: int
    _first: bool = False
    _ended: bool = False

    def first_token(self, now: float) -> float:
        """The first token is there. Returns after how many seconds."""
        self._first = True
        seconds = self._breaker.first_token(self._number, now)
        late = self._breaker.limits.pace(seconds) is not Pace.NORMAL
        self.upstream.limit.first_token(now, late=late)
        return seconds

    def unmeasured(self) -> None:
        """The answer comes as a whole, so that nothing is seen of its first token."""
        self._breaker.forget(self._number)

    def whole_answer(self, now: float) -> None:
        """The answer has come as a whole."""
        self.upstream.limit.whole_answer(now)

    def end(self, now: float, *, left: bool = False) -> None:
        """The request has ended, however it did. A second time this does nothing.

        Args:
            now: the time.
            left: whether its client has left, if it had no first token.
        """
        if self._ended:
            return
        self._ended = True
        if not self._first and self._breaker.gone(self._number, now, left=left):
            self.upstream.limit.first_token(now, late=True)
        self.upstream.in_flight -= 1
        self._admission.pump(now)

    @property
    def _breaker(self) -> FirstTokenBreaker:
        return self.upstream.breakers[self.want.request_class]


Decision = Callable[[Lease | Refused], None]


@dataclass(order=True, slots=True)
class _Seat:
    priority: int
    turn: int
    number: int
    want: Want = field(compare=False)
    tried: Collection[Upstream] = field(compare=False)
    until: float = field(compare=False)
    decided: Decision | None = field(compare=False)
    reason: Reason = field(compare=False)


class RetryBudget:
    """How many requests may go to a second upstream: a share of all, so that an overload is not
    made worse by requests that are computed twice.

    Args:
        share: of all requests.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = _RETRY_RESERVE if share else 0.0

    def request(self) -> None:
        """A request came."""
        self._left = min(self._left + self._share, _MOST_RETRIES)

    def retry(self) -> bool:
        """Whether one may move now, which is counted."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Admission:
    """Gives requests their places.

    Args:
        classes: what holds for each class.
        pools: the upstreams of a model that may be asked for, in pools; read at each request.
    """

    def __init__(
        self,
        classes: Mapping[str, ClassRules],
        pools: Callable[[str], Iterable[Collection[Upstream]]],
    ) -> None:
        self._classes = classes
        self._pools = pools
        #: By model, those who wait, the first at the top; without a decision, one that has left.
        self._seats: dict[str, list[_Seat]] = {}
        #: By class and client, those who wait, the youngest at the end.
        self._waiting: dict[str, dict[str, dict[int, _Seat]]] = {name: {} for name in classes}
        #: By model and priority, the turn that is on, and the clients that have had it.
        self._turns: dict[tuple[str, int], tuple[int, frozenset[str]]] = {}
        self._numbers = count()

    def waiting(self, request_class: str) -> int:
        """How many requests of a class wait."""
        return sum(map(len, self._waiting.get(request_class, {}).values()))

    def ask(
        self, want: Want, now: float, decided: Decision, tried: Collection[Upstream] = ()
    ) -> Callable[[], None]:
        """Find a place for a request, or a seat in the waiting room. Of one priority each client
        has its turn, however many requests of its wait. Where the room is full, the youngest of the
        client with most seats is refused for one with fewer.

        Args:
            want: the request.
            now: the time.
            decided: called once with the place, or with why there is none; perhaps at once.
            tried: upstreams that have had the request.

        Returns:
            What takes it back while nothing is decided: the client has left.
        """
        rules = self._classes[want.request_class]
        seats = self._seats.setdefault(want.model, [])
        while seats and seats[0].decided is None:
            heapq.heappop(seats)
        # Those who wait go first, unless they are less urgent, or move: for those there are fewer
        # places.
        behind = (
            bool(seats)
            and seats[0].priority <= want.priority
            and any(
                each.decided is not None and not each.tried and each.priority <= want.priority
                for each in seats
            )
        )
        found = Refused(Reason.FULL) if behind else self._place(want, now, tried)
        if isinstance(found, Lease) or found.reason not in _PASSING or not self._make_room(want):
            decided(found)
            return _nothing
        number, until = next(self._numbers), now + rules.wait
        own = self._waiting[want.request_class].setdefault(want.client, {})
        turn = self._next_turn(want, own)
        seat = _Seat(want.priority, turn, number, want, tried, until, decided, found.reason)
        own[number] = seat
        heapq.heappush(seats, seat)
        return lambda: self._leave(seat)

    def pump(self, now: float) -> None:
        """Give places that have become free to those who wait."""
        for model, seats in tuple(self._seats.items()):
            passed_over: list[_Seat] = []
            while seats:
                seat = heapq.heappop(seats)
                if seat.decided is None:
                    continue
                found = self._place(seat.want, now, seat.tried)
                if isinstance(found, Lease) or found.reason not in _PASSING:
                    self._have_turn(seat)
                    self._decide(seat, found)
                    continue
                seat.reason = found.reason
                passed_over.append(seat)
                # For one that moves there are fewer places than for those behind it.
                if not seat.tried:
                    break
            for seat in passed_over:
                heapq.heappush(seats, seat)
            if not seats:
                del self._seats[model]

    def expire(self, now: float) -> None:
        """Refuse those who have waited for as long as they may."""
        for seats in tuple(self._seats.values()):
            for seat in tuple(seats):
                if now >= seat.until:
                    full = seat.reason is Reason.FULL
                    self._decide(seat, Refused(Reason.WAITED if full else seat.reason))
        self.pump(now)

    def _decide(self, seat: _Seat, found: Lease | Refused) -> None:
        decided = seat.decided
        self._leave(seat)
        if decided is not None:
            decided(found)

    def _leave(self, seat: _Seat) -> None:
        if seat.decided is not None:
            seat.decided = None
            clients = self._waiting[seat.want.request_class]
            del clients[seat.want.client][seat.number]
            if not clients[seat.want.client]:
                del clients[seat.want.client]

    def _next_turn(self, want: Want, own: dict[int, _Seat]) -> int:
        """The turn of the request behind ``own``, the seats that its client has."""
        turn, had = self._turns.get((want.model, want.priority), (0, _NOBODY))
        for seat in reversed(own.values()):
            if seat.want.model == want.model:
                return max(turn, seat.turn + 1)
        return turn + (want.client in had)

    def _have_turn(self, seat: _Seat) -> None:
        key = seat.want.model, seat.priority
        turn, had = self._turns.get(key, (0, _NOBODY))
        if seat.turn > turn:
            turn, had = seat.turn, _NOBODY
        if seat.turn == turn:
            self._turns[key] = turn, had | {seat.want.client}

    def _make_room(self, want: Want) -> bool:
        """Whether a request may wait, if need be in another's seat."""
        rules, clients = self._classes[want.request_class], self._waiting[want.request_class]
        if rules.wait <= 0 or self.waiting(want.request_class) < rules.waiting:
            return rules.wait > 0
        most = max(clients.values(), key=len, default={})
        if len(most) <= len(clients.get(want.client, ())) + 1:
            return False
        self._decide(most[next(reversed(most))], Refused(Reason.FULL))
        return True

    def _place(self, want: Want, now: float, tried: Collection[Upstream]) -> Lease | Refused:
        """A place in the first pool that has one: with an upstream that is in time, before one that
        is slow; of several with the one that has most room."""
        limits = self._classes[want.request_class].limits
        slow: tuple[int, float, Upstream] | None = None
        reasons: set[Reason] = set()
        last_end = 0.0
        for pool, upstreams in enumerate(self._pools(want.model)):
            best: tuple[int, float, Upstream] | None = None
            for each in upstreams:
                if each in tried:
                    if each.draining:
                        reasons.add(Reason.DRAINING)
                    continue
                reason = each.refusal(want, limits, now)
                if reason is not None:
                    reasons.add(reason)
                    if reason is Reason.RUN_ENDS:
                        last_end = max(last_end, each.ends or 0.0)
                    continue
                found = pool, each.in_flight / each.limit.value, each
                if each.pace(want, limits, now) is Pace.SLOW:
                    slow = found if slow is None or found[:2] < slow[:2] else slow
                elif best is None or found[:2] < best[:2]:
                    best = found
            if best is not None:
                return self._lease(want, best, now)
        if slow is not None:
            return self._lease(want, slow, now)
        for reason in _MOST_HOPEFUL:
            if reason in reasons:
                return Refused(reason, last_end if reason is Reason.RUN_ENDS else None)
        return Refused(Reason.NO_UPSTREAM)

    def _lease(self, want: Want, place: tuple[int, float, Upstream], now: float) -> Lease:
        pool, _, upstream = place
        upstream.in_flight += 1
        upstream.limit.reached |= upstream.in_flight >= upstream.limit.value
        number = upstream.breakers[want.request_class].begin(now)
        return Lease(upstream, pool, want, self, number)


#: What passes soon, so that it is waited for: while a slice drains, its successor is being found.
_PASSING = frozenset({Reason.FULL, Reason.DRAINING})
#: Of several reasons the one that passes soonest is said.
_MOST_HOPEFUL = (
    Reason.FULL,
    Reason.KV_CACHE,
    Reason.SLOW,
    Reason.RUN_ENDS,
    Reason.DRAINING,
    Reason.NO_UPSTREAM,
)


_NOBODY = frozenset[str]()


def _nothing() -> None:
    """Takes back what was decided already."""
