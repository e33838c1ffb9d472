"""Which provider configuration does a call belong to?

Attached by port, one plugin process serves every configured ``gcp`` provider of every stack
at once, and the protocol's calls do not say whose they are. The engine opens one connection
per configured provider, so the connection is the answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from embedded_cloud.gcp_plugin.settings import ProviderSettings

#: Connections remembered; the engine closes them without saying so.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Session:
    """One configured provider.

    Attributes:
        settings: what it was configured with.
        cancelled: set once the engine cancels; what waits then stops.
    """

    settings: ProviderSettings = field(default_factory=ProviderSettings)
    cancelled: threading.Event = field(default_factory=threading.Event)


class Sessions:
    """The configured providers, by connection. Safe to use from many threads."""

    def __init__(self, started: Callable[[ProviderSettings], Session] = Session) -> None:
        self._lock = threading.Lock()
        self._started = started
        self._by_peer: OrderedDict[str, Session] = OrderedDict()
        self._latest = Session()

    def configure(self, peer: str, settings: ProviderSettings) -> Session:
        """Remember that the provider behind ``peer`` has ``settings``."""
        session = self._started(settings)
        with self._lock:
            self._by_peer[peer] = self._latest = session
            self._by_peer.move_to_end(peer)
            while len(self._by_peer) > _REMEMBERED:
                self._by_peer.popitem(last=False)
        return session

    def of(self, peer: str) -> Session:
        """The provider behind ``peer``; after a reconnection, the one configured last."""
        with self._lock:
            return self._by_peer.get(peer, self._latest)

    def cancel(self, peer: str) -> None:
        """Stop what the provider behind ``peer`` waits for."""
        self.of(peer).cancelled.set()
