"""An upstream as admission sees it: what it has in flight, may have, and until when it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuflex.gateway.first_token import FirstTokenBreaker, FirstTokenLimits, Pace
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.outcome import Reason

#: Tokens a second of one stream, until one was measured: those of a large model under load.
UNSEEN_RATE = 10.0
#: How much a new stream counts in the average rate.
_WEIGHT = 0.1
#: Seconds before the end of its run by which an answer has to be complete.
_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Want:
    """What a request wants, as far as admission is concerned.

    Attributes:
        model: the model as the client calls it.
        request_class: name of its class.
        priority: of its class; lower goes first.
        tokens: most tokens that it generates, of one answer.
        client: who asks.
    """

    model: str
    request_class: str
    priority: int
    tokens: int
    client: str = ""


@dataclass(slots=True, eq=False)
class Upstream:
    """A server that may get requests. Times are of one monotonic clock, in seconds.

    Attributes:
        name: its name in the configuration, and for one slice of a stack that of its node, too.
        url: its base URL, which ends in ``/v1``.
        model: the name of its model there.
        limit: of requests in flight.
        most_kv_use: share of its KV cache above which it gets nothing new.
        in_flight: requests that it has from here.
        open: whether it may get requests: it has answered one, and does not drain.
        draining: whether it ends what it has, and takes nothing new.
        why: why it takes no requests, in sentences; meaningless while it takes them.
        since: when it opened, was closed or began to drain, whichever came last.
        ends: when its run ends; None if it has no end.
        kv_use: share of its KV cache in use, as it said last.
        waiting: requests in its own queue, as it said last.
        rate: tokens a second of one stream, on average; None before the first.
        first_token_p95: seconds below which 95 % of its first tokens come without load, as its own
            histogram has it; None where that is not known.
        breakers: by class of requests.
    """

    name: str
    url: str
    model: str
    limit: InFlightLimit
    most_kv_use: float = 0.85
    in_flight: int = 0
    open: bool = False
    draining: bool = False
    why: str = ""
    since: float = 0.0
    ends: float | None = None
    kv_use: float = 0.0
    waiting: int = 0
    rate: float | None = None
    first_token_p95: float | None = None
    breakers: dict[str, FirstTokenBreaker] = field(default_factory=dict)

    @property
    def serves(self) -> bool:
        """Whether it may get requests, and will not end soon."""
        return self.open and not self.draining

    def breaker(self, request_class: str, limits: FirstTokenLimits) -> FirstTokenBreaker:
        """The breaker of a class of requests, with ``limits``, or with what was learnt here."""
        limits = limits.learnt(self.first_token_p95)
        found = self.breakers.get(request_class)
        if found is None:
            found = self.breakers[request_class] = FirstTokenBreaker(limits)
        found.limits = limits
        return found

    def streamed(self, tokens: int, seconds: float) -> None:
        """A stream has brought so many tokens after its first, in so many seconds."""
        if tokens > 0 and seconds > 0:
            rate = tokens / seconds
            self.rate = rate if self.rate is None else self.rate + _WEIGHT * (rate - self.rate)

    def seconds_for(self, tokens: int, first_token: float) -> float:
        """Seconds that an answer of so many tokens takes here, after a first token that may take
        ``first_token``."""
        return first_token + tokens / (self.rate or UNSEEN_RATE)

    def refusal(self, want: Want, limits: FirstTokenLimits, now: float) -> Reason | None:
        """Why it cannot take the request now; None if it can, as far as first tokens allow."""
        if self.draining:
            return Reason.DRAINING
        if not self.open:
            return Reason.NO_UPSTREAM
        if self.ends is not None:
            needed = self.seconds_for(want.tokens, limits.very_slow) + _MARGIN_S
            if now + needed > self.ends:
                return Reason.RUN_ENDS
        if self.kv_use > self.most_kv_use:
            return Reason.KV_CACHE
        if self.pace(want, limits, now) is Pace.VERY_SLOW:
            return Reason.SLOW
        return Reason.FULL if self.in_flight >= self.limit.value else None

    def pace(self, want: Want, limits: FirstTokenLimits, now: float) -> Pace:
        """How soon a request of that class would have its first token here."""
        return self.breaker(want.request_class, limits).pace(now)
