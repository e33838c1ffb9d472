"""Several zones, each of which fares by its own rule, and a race over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.provider.fakes import (
    Answer,
    FakeTime,
    JsonObject,
    Said,
    Script,
    Sent,
    args,
    missing,
    node,
    queued,
    scripted,
)
from tpuflex.errors import ConflictError, TpuflexError
from tpuflex.provider.call import Deadlines
from tpuflex.provider.race import obtain
from tpuflex.queued_resource.fields import RequestArgs
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import Snapshot

HOUR = 3600.0
A, B, C = "us-east5-a", "us-east5-b", "us-east5-c"
QUOTA = "Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. Limit 64 in zone"


def name(zone: str) -> RequestName:
    return RequestName("cloud-project", zone, "slice-g1")


@dataclass
class Zone:
    """One zone: what its request is at a time, once it was asked for.

    ``grants`` maps seconds since the POST to states; without ``there``, nothing is there yet.
    """

    grants: dict[float, str] = field(default_factory=lambda: {0.0: "WAITING_FOR_RESOURCES"})
    there: bool = False
    since: float = 1000.0
    refuse: TpuflexError | None = None
    operation_error: JsonObject | None = None
    failure: JsonObject | None = None
    undeletable: frozenset[str] = frozenset({"PROVISIONING"})
    stuck: TpuflexError | None = None
    of: RequestArgs | None = None

    def state(self, now: float) -> str:
        due = [at for at in self.grants if self.since + at <= now]
        return self.grants[max(due)] if due else "CREATING"


@dataclass
class Zones:
    """The TPU API over several zones, each of which fares by its own rule."""

    time: FakeTime
    zones: dict[str, Zone]

    def __call__(self, sent: Sent) -> Answer:
        place = sent.path.split("/")[3]
        zone = self.zones[place]
        if sent.method == "POST":
            return self._post(zone, place)
        if sent.method == "DELETE":
            return self._delete(zone, sent)
        if "/operations/" in sent.path:
            done: JsonObject = {"name": sent.path, "done": True}
            return {**done, "error": zone.operation_error} if zone.operation_error else done
        if not zone.there:
            return missing(sent.path)
        state = zone.state(self.time.now)
        if "/nodes/" in sent.path:
            return node(of=self._args(zone, place)) if state == "ACTIVE" else missing(sent.path)
        data = {"failedData": {"error": zone.failure}} if zone.failure else {}
        return {**queued(state, self._args(zone, place), **data), "name": sent.path}

    def _args(self, zone: Zone, place: str) -> RequestArgs:
        return zone.of or args(zones=[place])

    def _post(self, zone: Zone, place: str) -> Answer:
        if zone.refuse is not None:
            return zone.refuse
        assert not zone.there, "asked for twice"
        zone.since = self.time.now
        zone.there = zone.operation_error is None
        return {"name": f"projects/p/locations/{place}/operations/1", "done": False}

    def _delete(self, zone: Zone, sent: Sent) -> Answer:
        if zone.stuck is not None:
            return zone.stuck
        if not zone.there:
            return missing(sent.path)
        state = zone.state(self.time.now)
        forced = sent.query.get("force") == "true"
        if state in zone.undeletable or (state == "ACTIVE" and not forced):
            return ConflictError(f"not supported when state is {state}", status=400)
        zone.there = False
        return {"name": sent.path.replace("queuedResources", "operations"), "done": True}

    def running(self) -> list[str]:
        """Zones in which something is."""
        return [place for place, zone in self.zones.items() if zone.there]


@dataclass
class Run:
    """One race over scripted zones."""

    zones: Zones
    script: Script
    said: Said
    time: FakeTime
    go: Callable[..., Snapshot]

    def asked(self) -> list[str]:
        """Zones in the order in which they were asked."""
        return [sent.path.split("/")[3] for sent in self.script.sent if sent.method == "POST"]


def race(strategy: str = "race", stop_at: float | None = None, **zones: Zone) -> Run:
    """A race over the zones a, b and c."""
    names = {"a": A, "b": B, "c": C}
    time = FakeTime(stop_at=stop_at)
    cloud = Zones(time, {names[key]: zone for key, zone in zones.items()})
    call, script, said = scripted(cloud, time)
    wanted = args(zones=list(cloud.zones), strategy=strategy)

    def go(queue: float = 24 * HOUR, provisioning: float = 3 * HOUR, **more: Any) -> Snapshot:
        overall = more.pop("overall", math.inf)
        limits = Deadlines(queue, provisioning, 3 * HOUR, overall)
        return obtain(call, wanted, limits, **more)

    return Run(cloud, script, said, time, go)


def granted(after: float, provisioning: float = 60.0) -> dict[float, str]:
    """Waits, is granted after so many seconds, and then made."""
    return {
        0.0: "WAITING_FOR_RESOURCES",
        after: "PROVISIONING",
        after + provisioning: "ACTIVE",
    }
