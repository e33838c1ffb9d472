"""The rig for thousands of histories: the real provider, a small engine, no waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.faults.control import random_rules
from reliability.servicer_rig import ZONE, ServicerRig
from reliability.serving_hosts import DELETION
from tpuflex.queued_resource.name import RequestName

CREATE = "tpu.projects.locations.queuedResources.create"
GET = "tpu.projects.locations.queuedResources.get"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ServicerRig]:
    with ServicerRig(tmp_path / "emulator") as made:
        yield made


def kill(method_id: str, stage: str, nth: int = 1) -> dict[str, Any]:
    """A kill point."""
    return {
        "where": {"method_id": method_id},
        "nth": nth,
        "stage": stage,
        "effect": {"kind": "kill", "roles": ["provider", "engine"]},
    }


def name_of(rig: ServicerRig) -> RequestName:
    (found,) = rig.direct.cloud.inventory()["tpu"]["queuedResources"]
    return RequestName.parse(str(found["name"]))


def test_a_clean_life_violates_nothing(rig: ServicerRig) -> None:
    """Up, up again, refresh, a change, down: every step ends well and holds."""
    for name in ("up", "up", "refresh"):
        assert rig.run(name).exit_code == 0, rig.engine.said
        assert rig.check() == []
    assert rig.arguments is not None
    rig.event()
    rig.arguments["description"] = "changed"
    assert rig.run("up").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert rig.run("down").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert rig.struck() == 0


@pytest.mark.parametrize("stage", ["before-commit", "after-commit", "after-response"])
@pytest.mark.parametrize(("method_id", "nth"), [(CREATE, 1), (GET, 1), (GET, 2)])
def test_a_kill_is_recovered_from(rig: ServicerRig, stage: str, method_id: str, nth: int) -> None:
    """What the kill left pending is settled, and the same command again converges."""
    assert rig.run("up", rules=[kill(method_id, stage, nth)]).exit_code == -9
    assert rig.engine.export()["deployment"]["pending_operations"]
    assert rig.struck() == 1

    assert rig.run("recover").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert rig.run("up").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert len(creations(rig)) == 1


@pytest.mark.parametrize(("method_id", "nth"), [(GET, 1), (CREATE, 1), (CREATE, 2)])
def test_a_kill_in_a_new_project_is_recovered_from(
    tmp_path: Path, method_id: str, nth: int
) -> None:
    """On the strict cloud the TPU API does not answer yet when `recover` looks (`get`), or nodes do
    not know the service account yet (`create`): all the same, nothing is left to do by hand."""
    with ServicerRig(tmp_path / "emulator", strict=True) as rig:
        rig.reset(0)
        assert rig.run("up", rules=[kill(method_id, "after-response", nth)]).exit_code == -9

        for command in ("recover", "up", "up", "down"):
            assert rig.run(command).exit_code == 0, rig.engine.said
            assert rig.check() == []
        assert {400, 403} <= {call["status"] for call in rig.evidence().history}
        assert len(creations(rig)) == 1


@pytest.mark.parametrize("generations", [1, 2, 3])
def test_a_lost_state_is_recovered_from(rig: ServicerRig, generations: int) -> None:
    """Whatever generation runs by now: it is taken in, and the next `up` asks for nothing."""
    assert rig.arguments is not None
    for number in range(generations):
        rig.event()
        rig.arguments["rerun"] = f"run {number}"
        assert rig.run("up").exit_code == 0, rig.engine.said
    asked = len(creations(rig))
    rig.event()
    rig.engine.clear()

    for command in ("recover", "up", "up"):
        assert rig.run(command).exit_code == 0, rig.engine.said
        assert rig.check() == []
    assert len(creations(rig)) == asked == generations
    assert rig.run("down").exit_code == 0, rig.engine.said
    assert rig.check() == []


def test_a_lost_state_of_a_hand_over(rig: ServicerRig) -> None:
    """Two generations live when the state is lost: the later one stays, the earlier one goes."""
    assert rig.arguments is not None
    assert rig.run("up").exit_code == 0, rig.engine.said
    rig.event()
    rig.arguments["rerun"] = "again"
    assert rig.run("up", rules=[kill(CREATE, "after-response")]).exit_code == -9
    rig.engine.clear()
    rig.event()

    for command in ("recover", "up", "up"):
        assert rig.run(command).exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert name_of(rig).id.endswith("-g2")
    assert len(creations(rig)) == 2


def creations(rig: ServicerRig) -> list[object]:
    """The requests that were made."""
    made = [call for call in rig.evidence().history if call["method_id"] == CREATE]
    return [call for call in made if call.get("committed", call["status"] == 200)]


def test_without_recovery_the_checker_sees_the_orphan(rig: ServicerRig) -> None:
    """A kill after the commit leaves an orphan: the checker is not blind."""
    rig.run("up", rules=[kill(CREATE, "after-commit")])

    assert [found.invariant for found in rig.check()] == ["I1", "I1"][: len(rig.check())]
    assert rig.check()


def test_a_fault_that_passes_is_waited_out(rig: ServicerRig) -> None:
    """Time passes only in the client's pauses, and is the cloud's."""
    before = rig.direct.clock.now()
    rule = {
        "where": {"method_id": CREATE},
        "effect": {"kind": "answer", "status": 503, "retry_after_s": 60},
    }

    assert rig.run("up", rules=[rule]).exit_code == 0, rig.engine.said

    assert rig.direct.clock.now() - before >= 60
    assert rig.check() == []


def test_what_happens_behind_our_back_is_seen(rig: ServicerRig) -> None:
    """A queued resource that somebody deleted is asked for anew."""
    rig.run("up")
    name = name_of(rig)
    assert name.zone == ZONE
    rig.event(lambda client: client.delete_queued_resource(name, request_id="theirs"))
    rig.advance(60)

    assert rig.run("refresh").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert rig.run("up").exit_code == 0, rig.engine.said
    assert rig.check() == []


def test_a_cancel_leaves_a_request_that_still_waits_in_the_state(rig: ServicerRig) -> None:
    """Ctrl-C in the queue: kept, and the next `up` goes on waiting."""
    rig.direct.capacity(never=True)
    interrupt = {
        "where": {"method_id": GET},
        "nth": 3,
        "stage": "after-response",
        "effect": {"kind": "kill", "roles": ["cli"], "signal": "INT"},
    }

    assert rig.run("up", rules=[interrupt]).exit_code == 1
    assert rig.check() == []
    rig.direct.capacity()
    assert rig.run("up").exit_code == 0, rig.engine.said
    assert rig.check() == []


def test_a_seed_tells_the_same_history_twice(rig: ServicerRig) -> None:
    """Same seed, same calls at the same times, same answers."""
    calls = [GET, GET, CREATE]

    def told(seed: int) -> list[tuple[object, ...]]:
        rig.reset(seed)
        rig.run("up", rules=random_rules(seed, calls, count=2))
        rig.run("recover")
        rig.run("down")
        return [(c["time"], c["method"], c["path"], c["status"]) for c in rig.evidence().history]

    for seed in range(5):
        assert told(seed) == told(seed)


def test_hosts_boot_serve_and_drain(tmp_path: Path) -> None:
    """A replacement waits for the ready polls of its successor and drains what it replaces; a
    `down` drains, too: the calls that kills are to hit are made."""
    with ServicerRig(tmp_path / "emulator") as rig:
        assert rig.run("up").exit_code == 0
        assert rig.arguments is not None
        rig.arguments["rerun"] = "again"
        rig.event()
        replaced, down = rig.run("up"), rig.run("down")
        assert rig.check() == []
        calls = rig.direct.cloud.history.entries()
        events = rig.direct.cloud.history.events()

    for command, asked in ((replaced, 11), (down, 4)):
        made = [
            str(call["method_id"]).rpartition(".")[2]
            for call in calls
            if command.first_seq < int(str(call["seq"])) <= command.last_seq
        ]
        assert command.exit_code == 0
        assert (made.count("getGuestAttributes"), made.count("patch")) == (asked, 1)
    assert [len(event["serving"]) for event in events if event["event"] == DELETION] == [2, 1]  # type: ignore[arg-type]
