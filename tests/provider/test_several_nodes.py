"""Several nodes in one request through kills, faults and losses: no orphan, no duplicate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.control import inflict
from reliability.servicer_rig import CLOUD_PROJECT, ZONE, ServicerRig

_PLACE = f"projects/{CLOUD_PROJECT}/locations/{ZONE}"
_TPU = "tpu.projects.locations"
STAGES = ("before-commit", "after-commit", "after-response")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ServicerRig]:
    with ServicerRig(tmp_path / "emulator") as made:
        assert made.arguments is not None
        made.arguments["multiNode"] = {"nodeCount": 3}
        yield made


def kill(method_id: str, stage: str, nth: int = 1) -> dict[str, Any]:
    """A kill point."""
    return {
        "where": {"method_id": f"{_TPU}.{method_id}"},
        "nth": nth,
        "stage": stage,
        "effect": {"kind": "kill", "roles": ["provider"]},
    }


def ids(rig: ServicerRig, kind: str = "nodes") -> list[str]:
    found = rig.direct.cloud.inventory().get("tpu", {}).get(kind, [])
    return [str(each["name"]).rpartition("/")[2] for each in found]


def lose(rig: ServicerRig, name: str, mishap: str = "lost") -> None:
    rig.event()
    inflict(rig.direct.cloud.tpu, {"name": f"{_PLACE}/{name}", "mishap": mishap})


def settle(rig: ServicerRig, command: str) -> None:
    """The same command again, after a recovery, ends well and violates nothing."""
    assert rig.run("recover").exit_code == 0, rig.engine.said
    assert rig.run(command).exit_code == 0, rig.engine.said
    assert rig.check() == []


def test_a_clean_life(rig: ServicerRig) -> None:
    """Up, up again, refresh, a patch of every node, down."""
    for name in ("up", "up", "refresh"):
        assert rig.run(name).exit_code == 0, rig.engine.said
        assert rig.check() == []
    assert len(ids(rig)) == 3
    assert rig.arguments is not None
    rig.event()
    rig.arguments["description"] = "changed"
    assert rig.run("up").exit_code == 0, rig.engine.said
    patches = [c for c in rig.evidence().history if c["method_id"] == f"{_TPU}.nodes.patch"]
    assert len(patches) == 3
    assert rig.run("down").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert ids(rig) == []


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("method_id", "nth"),
    [("queuedResources.create", 1), ("nodes.list", 1), ("nodes.list", 2), ("nodes.get", 3)],
)
def test_a_kill_during_up(rig: ServicerRig, stage: str, method_id: str, nth: int) -> None:
    """Wherever `up` is killed, recovery and `up` again end with three nodes of one request."""
    assert rig.run("up", rules=[kill(method_id, stage, nth)]).exit_code == -9
    settle(rig, "up")
    assert len(ids(rig)) == 3
    assert len(ids(rig, "queuedResources")) == 1


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_kill_between_patches(rig: ServicerRig, stage: str, nth: int) -> None:
    """Whatever part of the nodes was patched, the next `up` changes the rest, and only that."""
    assert rig.run("up").exit_code == 0, rig.engine.said
    rig.event()
    assert rig.arguments is not None
    rig.arguments["tags"] = ["vllm"]
    assert rig.run("up", rules=[kill("nodes.patch", stage, nth)]).exit_code == -9
    settle(rig, "up")
    nodes = rig.direct.cloud.tpu.nodes.all()
    assert [node.spec.get("tags") for node in nodes] == [["vllm"]] * 3


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("nth", [1, 3])
def test_a_kill_between_deletions(rig: ServicerRig, stage: str, nth: int) -> None:
    """Orphaned nodes are deleted one by one: a kill between two of them leaves none behind."""
    assert rig.run("up").exit_code == 0, rig.engine.said
    lose(rig, f"queuedResources/{ids(rig, 'queuedResources')[0]}")
    assert rig.run("down", rules=[kill("nodes.delete", stage, nth)]).exit_code == -9
    settle(rig, "down")
    assert ids(rig) == []


@pytest.mark.parametrize("mishap", ["lost", "preempted"])
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("command", ["up", "down"])
def test_a_lost_node(rig: ServicerRig, mishap: str, number: int, command: str) -> None:
    """Whichever node is lost, `up` replaces the request, and `down` leaves nothing."""
    assert rig.run("up").exit_code == 0, rig.engine.said
    lose(rig, f"nodes/{ids(rig)[number]}", mishap)
    assert rig.run(command).exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert len(ids(rig)) == (3 if command == "up" else 0)


@pytest.mark.parametrize("command", ["up", "refresh", "down"])
def test_a_lost_request(rig: ServicerRig, command: str) -> None:
    """Its nodes run on: `up` replaces them, `refresh` forgets nothing, `down` deletes them."""
    assert rig.run("up").exit_code == 0, rig.engine.said
    lose(rig, f"queuedResources/{ids(rig, 'queuedResources')[0]}")
    assert rig.run(command).exit_code == 0, rig.engine.said
    assert rig.run("down").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert ids(rig) == []


def test_a_race(rig: ServicerRig) -> None:
    """Of several zones one has all the nodes in the end, and the others none."""
    assert rig.arguments is not None
    rig.arguments["zones"] = [ZONE, "us-east5-b"]
    assert rig.run("up").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert len(ids(rig, "queuedResources")) == 1
    assert len(ids(rig)) == 3
    assert rig.run("down").exit_code == 0, rig.engine.said
    assert rig.check() == []


def test_hand_over(rig: ServicerRig) -> None:
    """What replaces has nodes of other names, so it is made before the old one is deleted."""
    assert rig.run("up").exit_code == 0, rig.engine.said
    before = ids(rig)
    rig.event()
    assert rig.arguments is not None
    rig.arguments["multiNode"] = {"nodeCount": 2}
    assert rig.run("up").exit_code == 0, rig.engine.said
    assert rig.check() == []
    assert len(ids(rig)) == 2
    assert not set(before) & set(ids(rig))
    changes = [
        call["method_id"].rpartition(".")[2]
        for call in rig.evidence().history
        if call["method_id"].startswith(f"{_TPU}.queuedResources.") and call["method"] != "GET"
    ]
    assert changes == ["create", "create", "delete"]
