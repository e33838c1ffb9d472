"""The figures of `make reliability` that start processes, one case of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability import processes
from reliability.cases import TPU, Case, judged
from reliability.rig import StackRig
from reliability.run import FIGURES
from reliability.weights import library_rig

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

CREATE = f"{TPU}queuedResources.create"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackRig]:
    with StackRig(tmp_path_factory.mktemp("stack") / "project", speed=10) as made:
        yield made


def at(method_id: str, stage: str = "after-commit", role: str = "engine") -> dict[str, object]:
    """Where a case kills."""
    return {"role": role, "stage": stage, "method_id": method_id, "nth": 1}


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        ("1r", {"program": "one zone", **at(CREATE, "after-response", "provider")}),
        ("9", {"state": "failed", "how": "twice"}),
        ("9", {"state": "active", "how": "two at once"}),
    ],
    ids=str,
)
def test_a_stack_is_recovered_and_taken_down(
    stack: StackRig, key: str, facts: dict[str, object]
) -> None:
    """The real signal, the real recovery, and the same command again; or `down` twice."""
    result = judged(FIGURES[key], stack, Case("case", facts))
    assert result.problems == []
    assert processes.await_quiet(stack.mark, 10)


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        # Everything is killed when the library's bucket was just made.
        ("14", {"command": "weights push", **at("storage.buckets.insert")}),
        # When the other region has one file of the set, and no manifest.
        ("14c", {"command": "up in another region", **at("storage.objects.rewrite")}),
    ],
)
def test_what_was_killed_goes_on(tmp_path: Path, key: str, facts: dict[str, object]) -> None:
    """Weights are whole, or not there; and whole in the end."""
    with library_rig(tmp_path) as rig:
        assert judged(FIGURES[key], rig, Case("case", facts)).problems == []


def test_the_strict_cloud_makes_no_difference(tmp_path: Path) -> None:
    """On a strict cloud, too, a gcp plugin that was killed is followed by another, and a bucket
    whose delete was answered by a 503 does not stop `down` (D3)."""
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
    with StackRig(tmp_path / "project", speed=20, strict=True) as rig:
        assert rig.run("up", rules=[killed]).exit_code not in (0, None)
        assert [len(strike["processes"]) for strike in rig.control.strikes()] == [1]
        for words in ("recover", "up", "up"):
            rig.run_well(words)
        assert rig.check() == []
        assert rig.run("down", rules=[fault]).exit_code == 0, rig.said[-1]
        assert rig.struck() == 1
        assert rig.check() == []
    assert processes.await_quiet(rig.mark, 0)
