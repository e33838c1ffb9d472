"""What Google's bounds on guest attributes do to what a host asks for."""

from __future__ import annotations

from collections import deque

from embedded_cloud.clock import Clock
from embedded_cloud.strictness import GuestAttributes, Strictness

#: Policy with which an organization forbids guest attributes.
POLICY = "compute.disableGuestAttributesAccess"

_MINUTE_S = 60.0


def forbidden(strictness: Strictness) -> bool:
    """Whether the organization forbids guest attributes, to the host and to whoever reads them."""
    return strictness.organization_policies.enforces(POLICY)


class Queries:
    """The queries of one host within the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: deque[float] = deque()

    def is_too_many(self, rules: GuestAttributes) -> bool:
        """Count one more; whether it is one too many."""
        now = self._clock.now()
        self._asked.append(now)
        while self._asked[0] <= now - _MINUTE_S:
            self._asked.popleft()
        within_second = sum(asked > now - 1 for asked in self._asked)
        per_minute, per_second = rules.queries_per_minute, rules.queries_per_second
        return (per_minute is not None and len(self._asked) > per_minute) or (
            per_second is not None and within_second > per_second
        )
