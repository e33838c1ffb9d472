"""`tpuflex demo` once more: what the first one has pushed is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embedded_cloud import daemon
from reliability.control import Control
from reliability.weights import library_rig
from tpuflex.cli.demo import PUSHED, TOUR, WITH_LIBRARY
from tpuflex.settings.load import load_stack_file

pytestmark = [pytest.mark.engine, pytest.mark.timeout(200)]

STACKS = Path(__file__).parents[3] / "stacks"


def test_a_second_demo_sends_no_weights(tmp_path: Path) -> None:
    """The demo's stack has a library. What its `up` and `down` leave there, and what the embedded
    cloud keeps while it is stopped, the next demo finds: its push uploads nothing."""
    demo = load_stack_file(STACKS / f"Pulumi.{WITH_LIBRARY}.yaml", deploying=False)
    assert demo.settings.model.weights.bucket == "library"
    typed = {
        title: [word for word in words if word != "--yes"] for title, *words in (PUSHED, *TOUR)
    }
    with library_rig(tmp_path) as rig:
        for title in ("weights", "up", "down"):
            assert rig.run(*typed[title]).exit_code == 0, rig.said[-1].stderr
        assert uploads(rig.control, 0) == 3

        daemon.stop(rig.emulator)
        rig.start(stub_hosts=True)
        first = rig.control.seq()
        assert rig.run(*typed["weights"], "--json").exit_code == 0, rig.said[-1].stderr
        assert json.loads(rig.said[-1].stdout)["sent"] == []
        assert uploads(rig.control, first) == 0


def uploads(control: Control, after: int) -> int:
    """How many calls brought objects to a bucket."""
    return sum(
        str(each["path"]).startswith(("/upload/", "/resumable/")) for each in control.history(after)
    )
