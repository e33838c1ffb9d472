"""A right that is missing for a first `up`, with the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliability.rig import StackRig

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]


def run(rig: StackRig, *words: str, code: int = 0) -> str:
    """What a command said on standard error, which has no traceback."""
    ended = rig.run(*words)
    said = str(rig.said[-1].stderr)
    assert ended.exit_code == code, rig.said[-1]
    assert "Traceback" not in said
    return said


def without(rig: StackRig, *permissions: str) -> None:
    """Take away these permissions, and give back all others."""
    rig.control.call("POST", "strictness", {"permissions": {"missing": [*permissions]}})


def made(rig: StackRig) -> list[str]:
    """The methods that have made something so far."""
    ids = (str(call["method_id"]) for call in rig.control.history())
    return [each for each in ids if each.endswith((".insert", ".create"))]


def test_what_is_missing_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    """`up` makes nothing without a right that it needs, and names it with a role that has it."""
    with StackRig(tmp_path / "project", speed=20) as rig:
        without(rig, "compute.networks.create")
        refused = run(rig, "up", "--yes", code=6)
        assert made(rig) == []

        assert "missing: compute.networks.create" in refused
        assert "--role=roles/compute.networkAdmin" in refused
        assert rig.check() == []
        services = rig.control.inventory().values()
        assert not any(items for kinds in services for items in kinds.values())
