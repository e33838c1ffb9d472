"""`weights push --from-region` by the real command line, engine and emulator: killed, continued,
stopped; and what `down` and `sweep` find of it."""

from __future__ import annotations

import json

import pytest

from reliability.rig import StackRig
from tests.engine.region_copies import PUSH, kill, of_compute, run, write_weights

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def test_a_copy_killed_in_the_middle_is_continued(rig: StackRig) -> None:
    """M11: a command that is killed when its machine was just made is continued by the same
    command, which waits for that machine; afterwards nothing of it is left, the weights verify, and
    the document is that of a push from here. Once more, and no machine is made."""
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert of_compute(rig)["instances"] == ["tpuflex-dev-vllm-copy"]

    document = json.loads(run(rig, *PUSH, "--json"))
    assert {*document} == {"sent", "kept", "bytes_sent", "manifest_sha256"}
    assert sorted([*document["sent"], *document["kept"]])[0] == "config.json"
    assert of_compute(rig) == {}
    assert document["manifest_sha256"] in run(rig, "weights", "verify")
    again = json.loads(run(rig, *PUSH, "--json"))
    assert (again["sent"], len(again["kept"])) == ([], 4)
    made = [
        call for call in rig.control.history() if call["method_id"] == "compute.instances.insert"
    ]
    assert len(made) == 1
    run(rig, "down")
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []


def test_down_and_sweep_find_what_a_killed_copy_left(rig: StackRig) -> None:
    """`sweep` lists machine, network and account; `down` deletes them with the stack, before the
    bucket into which the machine writes; and `--stop` alone deletes the machine."""
    left = {"instances", "networks", "subnetworks"}
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert {*of_compute(rig)} == left
    swept = run(rig, "sweep")
    assert swept.count("tpuflex-dev-vllm-copy") >= 4

    run(rig, *PUSH, "--stop")
    assert of_compute(rig) == {}

    rig.run(*PUSH, "--again", rules=[kill("compute.instances.insert")])
    assert {*of_compute(rig)} == left
    listed = run(rig, "down")
    assert "instance" in listed
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []
    run(rig, "sweep")


def copying(rig: StackRig) -> list[str]:
    """Machines that may write to the library."""
    (bucket,) = json.loads(run(rig, "library", "status", "--json"))["buckets"]
    members = [each["member"] for each in bucket["readers"]]
    return [member for member in members if "-copy@" in member]


def test_a_copy_into_the_library_leaves_nothing_but_weights(rig: StackRig) -> None:
    """A stack that was never up makes the library, and a state for the marks. Killed when its
    machine was just made, the same command goes on; and `down` takes away the machine and its roles
    in the library, which outlives the stack with its weights."""
    write_weights(rig, bucket="library")
    killed = rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert killed.exit_code == -9
    assert {*of_compute(rig)} == {"instances", "networks", "subnetworks"}
    assert copying(rig) == [
        "serviceAccount:tpuflex-dev-vllm-copy@tpuflex-dev.iam.gserviceaccount.com"
    ]

    document = json.loads(run(rig, *PUSH, "--json"))
    assert len([*document["sent"], *document["kept"]]) == 4
    assert (of_compute(rig), copying(rig)) == ({}, [])
    assert document["manifest_sha256"] in run(rig, "weights", "verify")

    write_weights(rig, bucket="library", revision="2")
    rig.run(*PUSH, rules=[kill("compute.instances.insert")])
    assert len(copying(rig)) == 1
    assert "tpuflex-dev-vllm-copy" in run(rig, "sweep")
    run(rig, "down")
    assert (of_compute(rig), copying(rig)) == ({}, [])
    (bucket,) = json.loads(run(rig, "library", "status", "--json"))["buckets"]
    assert "1" in [each["revision"] for each in bucket["models"]]
    run(rig, "library", "down", "--yes")
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []


def test_down_goes_on_where_machines_may_not_be_looked_at(rig: StackRig) -> None:
    """Without the right to list machines everything else is destroyed, and the exit code says that
    nothing proves the rest."""
    run(rig, *PUSH)
    denied = "Required 'compute.instances.list' permission for 'projects/tpuflex-dev'"
    rule = {
        "where": {"method_id": "compute.instances.aggregatedList"},
        "effect": {"kind": "answer", "status": 403, "message": denied},
        "times": 0,
    }
    ended = rig.run("down", rules=[rule])
    assert ended.exit_code == 10, rig.said[-1]
    assert "compute.instances.list" in rig.said[-1].stderr
    assert [kind for kinds in rig.control.inventory().values() for kind in kinds] == []
