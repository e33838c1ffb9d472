"""The access tokens that a host's metadata server gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.clock import Clock

#: A token is given again until so much of its life is left
#: (https://cloud.google.com/compute/docs/access/authenticate-workloads#applications).
_RENEWED_BEFORE_S = 300.0


@dataclass(frozen=True, slots=True)
class HostToken:
    """A token, as the metadata server gives it.

    Attributes:
        text: the token.
        expires_in: seconds that are left of it.
    """

    text: str
    expires_in: int


class HostTokens:
    """The token of one host, another one before it expires.

    Args:
        issue: makes a token that lives for so many seconds.
        clock: the cloud's time.
        lifetime_s: how long tokens live now.
    """

    def __init__(
        self, issue: Callable[[float], str], clock: Clock, lifetime_s: Callable[[], float]
    ) -> None:
        self._issue = issue
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._text = ""
        self._expires = 0.0

    def current(self) -> HostToken:
        """A token that has not expired."""
        now, lifetime = self._clock.now(), self._lifetime_s()
        left = self._expires - now
        if not min(_RENEWED_BEFORE_S, lifetime / 2) < left <= lifetime:
            self._text, self._expires, left = self._issue(lifetime), now + lifetime, lifetime
        return HostToken(self._text, int(left))
