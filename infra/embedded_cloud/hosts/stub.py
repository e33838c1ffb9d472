"""A host that runs nothing and reports READY at once, for tests.

A startup script takes longer than everything else together. Tests of what happens
around it (faults, kills, recovery) use stub hosts, and do not claim that anything was
served.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from embedded_cloud.clock import Clock
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.hosts.guest_rules import forbidden
from embedded_cloud.hosts.host import comes_up
from embedded_cloud.hosts.spec import HostSpec
from embedded_cloud.json_types import JsonObject
from embedded_cloud.strictness import Strictness

#: Where the startup script reports.
_NAMESPACE, _KEY = "tpuflex", "report"
_DETAIL = "stub host: nothing was run"


class StubHost:
    """The stand-in of a host.

    Args:
        spec: what the host would be.
        guest: where guest attributes go.
        clock: the cloud's time.
        strictness: which of Google's refusals are imitated now.
    """

    def __init__(
        self,
        spec: HostSpec,
        *,
        guest: GuestAttributes,
        clock: Clock,
        strictness: Callable[[], Strictness],
    ) -> None:
        self.spec = spec
        self._guest = guest
        self._clock = clock
        self._strictness = strictness

    async def boot(self) -> None:
        """Report READY, if it comes up at all."""
        strictness = self._strictness()
        if forbidden(strictness) or not comes_up(self.spec, strictness):
            return
        timeline = json.dumps({"READY": self._clock.now()})
        report = json.dumps({"phase": "READY", "detail": _DETAIL, "timeline": timeline})
        self._guest.put(self.spec.owner, self.spec.worker, _NAMESPACE, _KEY, report)

    def update(self, spec: HostSpec) -> None:
        """Take over what has changed of its owner."""
        self.spec = spec

    async def power_off(self, *, erase: bool) -> None:
        """Nothing runs, and there is no disk."""
        del erase

    def describe(self) -> JsonObject:
        """The host as the control API shows it."""
        owner = self.spec.owner
        return {"key": self.spec.key, "owner": owner, "node": owner, "stub": True}
