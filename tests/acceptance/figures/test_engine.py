"""The rigs with the real engine: a life without faults, kills, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reliability import processes
from reliability.rig import SliceRig, StackRig

pytestmark = pytest.mark.engine

CREATE = "tpu.projects.locations.queuedResources.create"


def kill(role: str, stage: str) -> dict[str, Any]:
    """A kill point at the creation of the queued resource."""
    return {
        "where": {"method_id": CREATE},
        "stage": stage,
        "effect": {"kind": "kill", "roles": [role]},
    }


@pytest.fixture(scope="module")
def slice_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SliceRig]:
    with SliceRig(tmp_path_factory.mktemp("slice") / "project", speed=10) as made:
        yield made


@pytest.fixture
def rig(slice_rig: SliceRig) -> SliceRig:
    slice_rig.reset()
    return slice_rig


def test_a_clean_life_of_a_slice(rig: SliceRig) -> None:
    """Up, refresh, down; the snapshot is one that the engine takes."""
    for name in ("up", "refresh"):
        assert rig.run(name).exit_code == 0, rig.said[-1]
        assert rig.check() == []
    assert rig.snapshot_error() == ""
    assert rig.run("down").exit_code == 0, rig.said[-1]
    assert rig.check() == []
    assert rig.struck() == 0


@pytest.mark.parametrize(
    ("role", "stage"),
    [("provider", "before-commit"), ("engine", "after-commit"), ("family", "after-response")],
)
def test_a_killed_slice_is_recovered(rig: SliceRig, role: str, stage: str) -> None:
    """The real signal, the real recovery, and the same command again."""
    killed = rig.run("up", rules=[kill(role, stage)])
    assert killed.exit_code not in (0, None)
    assert rig.struck() == 1

    assert rig.run("recover").exit_code == 0, rig.said[-1]
    assert rig.run("up").exit_code == 0, rig.said[-1]

    assert rig.check() == []
    assert len([c for c in rig.control.history() if c["method_id"] == CREATE]) <= 2
    assert processes.await_quiet(rig.mark, 10)


def test_the_stack_comes_up_and_goes_down(tmp_path: Path) -> None:
    """The whole command line on stub hosts and a strict cloud: a gcp plugin that was killed is
    followed by another, and a bucket whose delete was answered by a 503 does not stop `down`
    (D3)."""
    fault = {
        "where": {"method_id": "storage.buckets.delete"},
        "stage": "after-commit",
        "effect": {"kind": "answer", "status": 503},
    }
    killed = {
        "where": {"method_id": "compute.networks.insert"},
        "stage": "after-commit",
        "effect": {"kind": "kill", "roles": ["gcp"]},
    }
    with StackRig(tmp_path / "project", speed=20) as rig:
        rig.control.strict()
        assert rig.run("up", "--yes", rules=[killed]).exit_code not in (0, None)
        assert [len(strike["processes"]) for strike in rig.control.strikes()] == [1]
        assert rig.run("recover").exit_code == 0, rig.said[-1]
        for _ in range(2):
            assert rig.run("up", "--yes").exit_code == 0, rig.said[-1]
            assert rig.check() == []
        assert rig.run("down", "--yes", rules=[fault]).exit_code == 0, rig.said[-1]
        assert rig.struck() == 1
        assert rig.check(must_strike=True) == []
    assert processes.await_quiet(rig.mark, 0)
