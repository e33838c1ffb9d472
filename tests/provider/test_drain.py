"""Before a slice that serves is deleted, its hosts end what they have begun."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.provider.fakes import (
    INPUTS,
    NAME,
    Answer,
    Cloud,
    FakeTime,
    JsonObject,
    Said,
    Script,
    args,
    missing,
    node,
    queued,
    says,
    scripted,
    sequence,
)
from tests.provider.several import IDS, KNOWN, Zone
from tpuflex.errors import AccessError, ApiError, InterruptedByUser
from tpuflex.provider.operations import delete_resource

BOOTS = {"metadata": {"startup-script": "true", "tpuflex-config": "{}"}}
#: The scripted clock begins here.
UNTIL = "2027-01-15T08:26:40Z"


def there(key: str = "", of: dict[str, Any] | None = None) -> JsonObject:
    """The node, asked to drain until ``key`` if that is given."""
    made = node(of=args(**(of or BOOTS)))
    if key:
        made["metadata"] = {**BOOTS["metadata"], "tpuflex-drain": key}
    return made


class Slice(Cloud):
    """An ACTIVE slice with a node and a host, until it is deleted."""

    def __init__(self, *host: Answer, of: dict[str, Any] | None = None, key: str = "") -> None:
        super().__init__(host=sequence(*host))
        self.node_answer = there(key, of)
        self.deleted = False

    def __call__(self, request: Any) -> Answer:
        if request.method == "DELETE":
            self.deleted = True
        if request.method == "PATCH" and isinstance(request.body, dict):
            self.node_answer = {**self.node_answer, **request.body}
        if request.method == "GET" and "operations" not in request.path:
            if self.deleted:
                return missing()
            return queued("ACTIVE") if request.path == NAME else self.node_answer
        return super().__call__(request)


def deleted(
    cloud: Slice, *, drains: bool = True, time: FakeTime | None = None, **inputs: Any
) -> tuple[Script, Said]:
    """Delete it; what was sent and said."""
    call, script, said = scripted(cloud, time)
    call = replace(call, drains=drains)
    given = {**INPUTS, **BOOTS, **inputs}
    delete_resource(call, NAME, given, {}, timeout=0)
    return script, said


def drains(script: Script) -> list[Any]:
    """The values of the key that hosts were asked to drain by."""
    patched = [each for each in script.sent if each.method == "PATCH"]
    bodies: list[Any] = [each.body for each in patched]
    assert all(each.query == {"updateMask": "metadata"} for each in patched)
    return [body["metadata"]["tpuflex-drain"] for body in bodies]


def at(script: Script, method: str) -> float:
    """When the first request with that method was sent."""
    return next(each.at for each in script.sent if each.method == method)


def test_it_is_deleted_once_nothing_runs_any_more() -> None:
    """Its hosts are asked once, by one key of the metadata beside those that are there; while
    requests run it waits, saying for how many, and deletes as soon as none does."""
    cloud = Slice(
        says("READY", "serving", running=3),
        says("READY", "draining", running=3, waiting=1),
        says("READY", "draining", running=1),
        says("READY", "draining", drained=True),
    )

    script, said = deleted(cloud)
    waits = f"{NAME}: waits until it has drained, until 08:26 UTC at the latest"

    assert drains(script) == [UNTIL]
    (patch,) = [each for each in script.sent if each.method == "PATCH"]
    assert patch.body == {"metadata": {**BOOTS["metadata"], "tpuflex-drain": UNTIL}}
    assert at(script, "DELETE") - at(script, "PATCH") == pytest.approx(30, abs=2)
    assert [line for _, line in said.lines][:4] == [
        f"{waits}: 3 requests running",
        f"{waits}: 3 requests running, 1 waiting",
        f"{waits}: 1 request running",
        f"{NAME}: drained after 30s",
    ]


def test_it_is_deleted_when_time_is_over() -> None:
    """What still runs when the time is over is cut off, and that is said."""
    cloud = Slice(says("READY", "serving"), says("READY", "draining", running=2))

    script, said = deleted(cloud, drainTimeout="120s")

    assert at(script, "DELETE") - at(script, "PATCH") == pytest.approx(120, abs=12)
    assert "not drained in time: 2 requests running is cut off" in said.text


def test_what_the_host_has_cut_off_is_said() -> None:
    """A host whose own time was over is drained, but not because its requests had ended."""
    cloud = Slice(
        says("READY", "serving", running=3), says("READY", "draining", drained=True, cut_off=3)
    )

    _, said = deleted(cloud)

    assert "its host has cut off 3 that had not ended" in said.text
    assert "drained after" not in said.text


def test_the_time_of_an_earlier_run_counts() -> None:
    """A run that was killed has asked already: its host is not asked again, nor for longer."""
    cloud = Slice(says("READY", "draining", running=2), key="2027-01-15T08:17:40Z")

    script, _ = deleted(cloud)

    assert drains(script) == []
    assert at(script, "DELETE") - 1000.0 == pytest.approx(60, abs=12)


def test_a_key_that_says_the_year_2099_keeps_nothing() -> None:
    """Whoever wrote the key, and by whatever clock: no deletion waits longer than it would by
    itself."""
    cloud = Slice(says("READY", "draining", running=2), key="2099-01-01T00:00:00Z")

    script, _ = deleted(cloud, drainTimeout="120s")

    assert at(script, "DELETE") - 1000.0 == pytest.approx(120, abs=12)


def test_a_host_that_does_not_react_is_not_waited_for() -> None:
    """Its watch asks every few seconds: one that has not begun after a minute and a half never
    will."""
    cloud = Slice(says("READY", "serving", running=2))

    script, said = deleted(cloud)

    assert at(script, "DELETE") - at(script, "PATCH") == pytest.approx(150, abs=12)
    assert "does not react" in said.text


def test_a_host_has_time_to_react_from_when_it_was_asked() -> None:
    """However long this process stood still before it asked: what runs there is not cut off."""
    time = FakeTime()

    class Slow(Slice):
        def __call__(self, request: Any) -> Answer:
            if request.path.endswith(":getGuestAttributes") and time.now < 1100:
                time.now += 100
            return super().__call__(request)

    serves, ends = says("READY", "serving", running=2), says("READY", "draining", running=1)
    script, said = deleted(
        Slow(serves, serves, ends, says("READY", "draining", drained=True)), time=time
    )

    assert at(script, "DELETE") - at(script, "PATCH") == pytest.approx(20, abs=2)
    assert "does not react" not in said.text


@pytest.mark.parametrize("key", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "soon"])
def test_a_key_that_is_no_time_keeps_nothing(key: str) -> None:
    """Whoever can change metadata may write anything there: the hosts are asked anew."""
    cloud = Slice(
        says("READY", "serving", running=2), says("READY", "draining", drained=True), key=key
    )

    script, _ = deleted(cloud)

    assert drains(script) == [UNTIL]
    assert at(script, "DELETE") - 1000.0 == pytest.approx(10, abs=2)


@pytest.mark.parametrize(
    "host",
    [
        missing("guest attributes"),
        says("warmup"),
        says("READY"),
        says("READY", "failed", drained=True),
        says("READY", "degraded"),
        says("READY", "draining", drained=True),
        says("weights", "serving", running=2),
        ApiError("bad request", status=400),
        AccessError("denied"),
    ],
    ids=[
        "silent",
        "booting",
        "older-script",
        "failed",
        "degraded",
        "drained",
        "boots-again",
        "not-understood",
        "refused",
    ],
)
def test_what_has_nothing_to_end_is_deleted_at_once(host: Answer) -> None:
    """A host that serves nothing, or that cannot be asked, is not waited for."""
    script, _ = deleted(Slice(host))

    assert drains(script) == []
    assert at(script, "DELETE") == pytest.approx(1000.0, abs=0.5)


def test_a_server_that_waits_for_a_completion_may_answer_others() -> None:
    """A host whose watch began anew is degraded until a completion came; what runs there ends."""
    cloud = Slice(
        says("READY", "degraded", running=200, waiting=900),
        says("READY", "draining", running=1),
        says("READY", "draining", drained=True),
    )

    script, _ = deleted(cloud)

    assert drains(script) == [UNTIL]
    assert at(script, "DELETE") - at(script, "PATCH") == pytest.approx(20, abs=2)


@pytest.mark.parametrize("before", [(), (says("READY", "serving", running=3),)])
def test_a_single_404_cuts_nothing_off(before: tuple[Answer, ...]) -> None:
    """Neither at the first look nor later: a host that is not found is asked again at once."""
    cloud = Slice(
        *before,
        missing("guest attributes"),
        says("READY", "draining", running=3),
        says("READY", "draining", drained=True),
    )

    script, said = deleted(cloud)

    assert drains(script) == [UNTIL]
    assert at(script, "DELETE") - at(script, "PATCH") >= 9
    assert "3 requests running" in said.text


def test_an_api_that_does_not_answer_for_a_moment_cuts_nothing_off() -> None:
    """Answers of users do not end because one question of ours has none; after a minute without
    any, the slice is deleted, and that is said."""
    gone = ApiError("no answer (ConnectionError)")
    script, said = deleted(
        Slice(
            says("READY", "serving", running=1),
            gone,
            gone,
            says("READY", "draining", running=1),
            gone,
            says("READY", "draining", drained=True),
        )
    )
    assert "drained after 50s" in said.text

    script, said = deleted(Slice(says("READY", "serving", running=1), gone))
    assert at(script, "DELETE") - at(script, "PATCH") == pytest.approx(70, abs=5)
    assert "cannot be asked to drain (no answer (ConnectionError))" in said.text


@pytest.mark.parametrize(
    "case",
    [
        {"drainTimeout": "0s"},
        {"drains": False},
        {"metadata": {"startup-script": "true"}},
    ],
    ids=["timeout", "now", "own-script"],
)
def test_nobody_is_asked(case: dict[str, Any]) -> None:
    """Without time to drain, and where the host runs no script of ours, no report is asked for."""
    of = {"metadata": case["metadata"]} if "metadata" in case else None
    cloud = Slice(says("READY", "serving", running=2), of=of)

    script, _ = deleted(cloud, **case)

    assert not [each for each in script.sent if "getGuestAttributes" in each.path]
    assert at(script, "DELETE") == 1000.0


def test_a_refused_patch_does_not_keep_it() -> None:
    """A slice costs money: where its host may not be asked, it is deleted, which is said."""
    cloud = Slice(says("READY", "serving", running=2))
    cloud.patch = sequence(AccessError("tpu.nodes.update denied"))

    script, said = deleted(cloud)

    assert at(script, "DELETE") == 1000.0
    assert "cannot be asked to drain (tpu.nodes.update denied)" in said.text


def test_a_drain_that_is_stopped_deletes_nothing() -> None:
    """Ctrl-C while it waits leaves the slice as it is, asked to drain."""
    cloud = Slice(says("READY", "draining", running=2))

    with pytest.raises(InterruptedByUser):
        deleted(cloud, time=FakeTime(stop_at=1040.0))

    assert not cloud.deleted
    assert cloud.node_answer["metadata"] == {**BOOTS["metadata"], "tpuflex-drain": UNTIL}


def test_a_drain_leaves_time_to_delete() -> None:
    """Of a deadline for the whole deletion it takes half at most."""
    cloud = Slice(says("READY", "draining", running=2))

    script, _ = deleted(cloud, deleteTimeout="200s")

    assert at(script, "DELETE") - 1000.0 == pytest.approx(100, abs=12)


def test_a_node_that_still_boots_is_asked_as_well() -> None:
    """Of several nodes one may serve before the next: that one shall not begin to, and be cut off
    by the deletion that nobody has told it of."""
    zone = Zone()
    zone.nodes = {
        id_: zone.node(number, metadata=BOOTS["metadata"]) for number, id_ in enumerate(zone.nodes)
    }
    hosts = {
        IDS[0]: sequence(says("READY", "serving"), says("READY", "draining", drained=True)),
        IDS[1]: sequence(says("warmup"), says("warmup"), says("READY", "draining", drained=True)),
        IDS[2]: sequence(missing("guest attributes")),
    }

    def answer(request: Any) -> Answer:
        id_, _, method = request.path.rpartition("/")[2].partition(":")
        return next(hosts[id_]) if method == "getGuestAttributes" else zone(request)

    engine_call, script, _ = scripted(answer)
    known: dict[str, Any] = {**KNOWN, "metadata": BOOTS["metadata"]}
    delete_resource(replace(engine_call, drains=True), NAME, known, {}, timeout=0)

    patched = [each for each in script.sent if each.method == "PATCH"]
    assert [each.path.rpartition("/")[2] for each in patched] == [*IDS]
    assert at(script, "DELETE") - patched[-1].at < 30
