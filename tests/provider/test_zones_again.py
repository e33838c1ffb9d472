"""A second `up` of a slice that several zones were asked for."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.replies import InitFailedError
from pulumi_plugin.wire import decode, encode
from tests.provider.fakes import (
    INPUTS,
    Answer,
    FakeTime,
    Script,
    Sent,
    args,
    missing,
    node,
    queued,
    says,
    scripted,
)
from tests.provider.zones import A, B, Zone, Zones, granted
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.operations import create, update
from tpuflex.provider.queued_resource import QueuedResources
from tpuflex.provider.read import ReadResult, read
from tpuflex.queued_resource.outputs import outputs

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
BOOTS = {"metadata": {"startup-script": "true", "tpuflex-config": "{}"}}
PAIR: dict[str, Any] = {**INPUTS, **BOOTS, "zones": [A, B]}
#: What replaces it.
NEXT: dict[str, Any] = {**PAIR, "queuedResourceId": "slice-g2", "rerun": "again"}
FIRST = f"projects/cloud-project/locations/{A}/queuedResources/slice-g1"


def zone(place: str, grants: dict[float, str], **inputs: Any) -> Zone:
    """One that grants ``inputs`` like that."""
    return Zone(grants=grants, of=args(**{**PAIR, **inputs, "zones": [place]}))


class Hosts(Zones):
    """Zones whose hosts report: B's that it serves, A's that it boots."""

    def __call__(self, sent: Sent) -> Answer:
        if sent.path.endswith(":getGuestAttributes"):
            serves = says("READY", "serving", at=self.time.now + 1.8e9)
            return serves if B in sent.path else says("weights")
        if sent.method == "PATCH":
            return {"name": f"projects/p/locations/{A}/operations/4", "done": True}
        answer = super().__call__(sent)
        if "/nodes/" in sent.path and isinstance(answer, dict):
            return {**answer, "name": sent.path}
        return answer


class Renewed(Hosts):
    """The same, beside a first slice in A that serves until it is deleted."""

    there = True
    drained = False

    def __call__(self, sent: Sent) -> Answer:
        if "slice-g1" not in sent.path:
            return super().__call__(sent)
        if not self.there or B in sent.path:
            return missing(sent.path)
        if sent.path.endswith(":getGuestAttributes"):
            return says("READY", "draining" if self.drained else "serving", drained=self.drained)
        self.drained = self.drained or sent.method == "PATCH"
        self.there = sent.method != "DELETE"
        if sent.method != "GET":
            return {"name": f"projects/p/locations/{A}/operations/9", "done": True}
        made = args(**{**PAIR, "zones": [A]})
        if "/nodes/" in sent.path:
            return node(of=made, name=sent.path)
        return {**queued("ACTIVE", made), "name": FIRST}


def both_run(cloud: Zones) -> tuple[Call, Script, ReadResult]:
    """A refresh of a state that shows A and records both, which run."""
    for each in cloud.zones.values():
        each.there = True
    call, script, _ = scripted(cloud, cloud.time)
    seen = read(call, FIRST, PAIR, {"requests": [FIRST, FIRST.replace(A, B)]})
    assert seen is not None
    return call, script, seen


def test_what_serves_is_not_deleted_for_what_came_to_run_beside_it() -> None:
    """B won and serves; A, which could not be deleted while its hosts were made, runs by now, and
    is the first of the zones. It goes, and not B."""
    time = FakeTime(stop_at=1200.0)  # while the first call waits for A's deletion
    cloud = Hosts(
        time,
        {
            A: zone(A, {0.0: "WAITING_FOR_RESOURCES", 70.0: "PROVISIONING", 1000.0: "ACTIVE"}),
            B: zone(B, granted(10.0)),
        },
    )
    with pytest.raises(UnreadyError) as stopped:
        create(scripted(cloud, time)[0], PAIR, timeout=0)
    state = outputs(PAIR, stopped.value.snapshot)
    time.stop_at, time.now = None, 5000.0
    call, script, _ = scripted(cloud, time)
    seen = read(call, str(state["name"]), PAIR, state)
    assert seen is not None

    found = update(call, str(seen.seen.name), PAIR, PAIR, seen.outputs, timeout=0)

    assert found.name.zone == B
    assert cloud.running() == [B]
    assert [sent.path.split("/")[3] for sent in script.sent if sent.method == "DELETE"] == [A]


def test_a_successor_in_another_zone_than_the_state_shows_is_what_goes_on() -> None:
    """An `up` that was stopped in the queue shows A; the next one gets B, which serves: what was
    replaced is deleted for that, and not kept for A, which was withdrawn."""
    time = FakeTime()
    cloud = Renewed(
        time,
        {
            A: zone(A, {0.0: "WAITING_FOR_RESOURCES"}, **NEXT),
            B: zone(B, granted(4000.0), **NEXT),
        },
    )
    call, _, _ = scripted(cloud, time)
    resources = QueuedResources("cloud-project", call.timing, EngineLog(), lambda _urn: call)
    resources.begin()
    first = read(call, FIRST, PAIR, {"createTime": "2026-11-21T08:00:00Z", "requests": [FIRST]})
    assert first is not None
    old, outs = encode(first.inputs), encode(first.outputs)
    resources.read(provider_pb2.ReadRequest(urn=URN, id=FIRST, inputs=old, properties=outs))
    time.stop_at = time.now + 600
    with pytest.raises(InitFailedError) as stopped:
        resources.create(provider_pb2.CreateRequest(urn=URN, properties=encode(NEXT)))
    kept = stopped.value.detail
    assert A in kept.id
    assert decode(kept.properties)["takesOverFrom"] == [FIRST]
    time.stop_at = None

    resources.begin()
    seen = resources.read(
        provider_pb2.ReadRequest(
            urn=URN, id=kept.id, inputs=encode(NEXT), properties=kept.properties
        )
    )
    asked: dict[str, Any] = {
        "urn": URN,
        "id": seen.id,
        "olds": seen.properties,
        "old_inputs": seen.inputs,
    }
    resources.check(provider_pb2.CheckRequest(urn=URN, olds=seen.inputs, news=encode(NEXT)))
    resources.diff(provider_pb2.DiffRequest(news=seen.inputs, **asked))
    updated = resources.update(provider_pb2.UpdateRequest(news=seen.inputs, **asked))
    resources.delete(provider_pb2.DeleteRequest(urn=URN, id=FIRST, properties=outs, old_inputs=old))

    assert B in str(decode(updated.properties)["name"])
    assert not cloud.there
    assert cloud.running() == [B]


def test_a_drain_leaves_time_to_delete() -> None:
    """What goes, and serves, ends what it has begun within half of the time that there is, also
    where the program's custom timeout is what bounds it."""

    class Busy(Hosts):
        def __call__(self, sent: Sent) -> Answer:
            if sent.path.endswith(":getGuestAttributes"):
                return says("READY", "serving", at=self.time.now + 1.8e9, running=3)
            return super().__call__(sent)

    time = FakeTime()
    cloud = Busy(time, {place: zone(place, {0.0: "ACTIVE"}) for place in (A, B)})
    call, script, seen = both_run(cloud)

    update(call, FIRST, PAIR, PAIR, seen.outputs, timeout=300)

    assert cloud.running() == [A]
    (gone,) = (sent for sent in script.sent if sent.method == "DELETE")
    assert gone.at - 1000.0 <= 160


def test_what_serves_is_kept_though_the_state_shows_another() -> None:
    """`recover` finds both, and does not know which of them serves."""
    time = FakeTime()
    cloud = Hosts(time, {place: zone(place, {0.0: "ACTIVE"}) for place in (A, B)})
    call, script, seen = both_run(cloud)
    assert seen.seen.name.zone == A

    found = update(call, FIRST, PAIR, PAIR, seen.outputs, timeout=0)

    assert found.name.zone == B
    assert cloud.running() == [B]
    assert script.count("PATCH") == 0  # what boots has nothing to end
