"""Configured providers, and which of them a call belongs to.

Attached by port, one plugin process serves the configured ``gcp`` providers of all stacks at
once, and the protocol's calls do not name theirs. The engine opens one connection per configured
provider, so the connection tells.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from embedded_cloud.gcp_plugin.settings import ProviderSettings

#: Connections remembered; the engine closes them without saying so.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """One configured provider.

    Attributes:
        settings: what it was configured with.
        cancelled: set once the engine cancels; what waits then stops.
    """

    settings: ProviderSettings = field(default_factory=ProviderSettings)
    cancelled: threading.Event = field(default_factory=threading.Event)


class ConfiguredProviders:
    """The configured providers, by connection. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_peer: OrderedDict[str, ConfiguredProvider] = OrderedDict()
        self._latest = ConfiguredProvider()

    def configure(self, peer: str, settings: ProviderSettings) -> ConfiguredProvider:
        """Remember that the provider behind ``peer`` has ``settings``."""
        provider = ConfiguredProvider(settings)
        with self._lock:
            self._by_peer[peer] = self._latest = provider
            self._by_peer.move_to_end(peer)
            while len(self._by_peer) > _REMEMBERED:
                self._by_peer.popitem(last=False)
        return provider

    def of(self, peer: str) -> ConfiguredProvider:
        """The provider behind ``peer``; after a reconnection, the one configured last."""
        with self._lock:
            return self._by_peer.get(peer, self._latest)

    def cancel(self, peer: str) -> None:
        """Stop what the provider behind ``peer`` waits for."""
        self.of(peer).cancelled.set()
