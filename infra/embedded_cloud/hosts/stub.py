"""A host that runs nothing and reports READY at once, for tests.

A startup script takes longer than everything else together. Tests of what happens
around it (faults, kills, recovery) use stub hosts, and do not claim that anything was
served.
"""

from __future__ import annotations

import json

from embedded_cloud.clock import Clock
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.hosts.spec import HostSpec
from embedded_cloud.json_types import JsonObject

#: Namespace and keys in which the startup script reports (docs/architecture.md).
_NAMESPACE = "tpuflex"
_DETAIL = "stub host: nothing was run"


class StubHost:
    """The stand-in of a host.

    Args:
        spec: what the host would be.
        guest: where guest attributes go.
        clock: the cloud's time.
    """

    def __init__(self, spec: HostSpec, *, guest: GuestAttributes, clock: Clock) -> None:
        self.spec = spec
        self._guest = guest
        self._clock = clock

    async def boot(self) -> None:
        """Report READY."""
        timeline = json.dumps({"READY": self._clock.now()})
        report = {"phase": "READY", "detail": _DETAIL, "error": "", "timeline": timeline}
        for key, value in report.items():
            self._guest.put(self.spec.node_name, self.spec.worker, _NAMESPACE, key, value)

    async def power_off(self, *, erase: bool) -> None:
        """Nothing runs, and there is no disk."""
        del erase

    def describe(self) -> JsonObject:
        """The host as the control API shows it."""
        return {"key": self.spec.key, "node": self.spec.node_name, "stub": True}
