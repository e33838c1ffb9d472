"""Operations: commands that go on without the server that started them."""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.embedded_cloud.api import eventually
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.mcp_server.operations import Operation, Operations

WAITING = "import sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(600)"
REFUSING = "import sys; print('refused', file=sys.stderr); sys.exit(12)"


def operations(project: Path, script: str) -> Operations:
    return Operations(project, project / ".tpuflex", (sys.executable, "-c", script))


def start(found: Operations, stack: str = "dev") -> Operation:
    return found.start("up", stack, "0" * 64, ("up", "--yes"), {"PATH": "/usr/bin:/bin"})


def ended(found: Operations, operation: Operation) -> Operation:
    eventually(lambda: found.read(operation.about.id).state != "running")
    return found.read(operation.about.id)


def test_one_at_a_time_and_killed(project: Path) -> None:
    """While one works on a stack no second one does; one that is killed is lost, and then another
    may start. It leads a process group of its own, and its files are this user's alone."""
    found = operations(project, WAITING)
    first = start(found)
    try:
        with pytest.raises(ConflictError, match=first.about.id):
            start(operations(project, WAITING))
        assert os.getpgid(first.about.process) == first.about.process != os.getpgid(0)
        eventually(lambda: found.read(first.about.id).progress == ("begun",))
        for file in (project / ".tpuflex" / "mcp" / "operations" / first.about.id).iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    finally:
        os.killpg(first.about.process, signal.SIGKILL)
    lost = ended(found, first)

    assert (lost.state, lost.exit_code, lost.progress) == ("lost", None, ("begun",))
    assert "recover" in str(lost.to_json()["next"])
    again = ended(found, start(operations(project, REFUSING)))
    assert (again.state, again.exit_code, again.progress) == ("failed", 12, ("refused",))
    assert [each.about.id for each in found.newest(5)] == [again.about.id, first.about.id]


@pytest.mark.parametrize("id_", ["nope", "../../../Pulumi.yaml", "..", ""])
def test_there_is_none_elsewhere(id_: str, project: Path) -> None:
    """A handle is a name in the state directory."""
    with pytest.raises(NotFoundError):
        operations(project, WAITING).read(id_)
