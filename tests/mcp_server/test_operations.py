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
#: As tpuflex, it ends in order on Ctrl-C, and at once on SIGTERM.
ORDERLY = """
import sys, time
try:
    print('begun', file=sys.stderr, flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print('stopped in order', file=sys.stderr)
    sys.exit(int(sys.argv[-1]))
"""
REFUSING = "import sys; print('refused', file=sys.stderr); sys.exit(12)"


def operations(project: Path, script: str) -> Operations:
    return Operations(project, project / ".tpuflex", (sys.executable, "-c", script))


def start(found: Operations, *words: str) -> Operation:
    return found.start("up", "dev", "0" * 64, ("up", *words), {"PATH": "/usr/bin:/bin"})


def begun(found: Operations, *words: str) -> Operation:
    """An operation whose command has begun."""
    operation = start(found, *words)
    eventually(lambda: found.read(operation.about.id).progress == ("begun",))
    return operation


def ended(found: Operations, operation: Operation) -> Operation:
    eventually(lambda: found.read(operation.about.id).state != "running")
    return found.read(operation.about.id)


def test_one_at_a_time_and_killed(project: Path) -> None:
    """While one works on a stack no second one does; one that is killed is lost, and then another
    may start. It leads a process group of its own, and its files are this user's alone."""
    found = operations(project, WAITING)
    first = begun(found)
    try:
        with pytest.raises(ConflictError, match=first.about.id):
            start(operations(project, WAITING))
        assert os.getpgid(first.about.process) == first.about.process != os.getpgid(0)
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


@pytest.mark.parametrize(
    ("number", "says", "state", "code"),
    [
        (signal.SIGINT, "130", "failed", 130),
        (signal.SIGINT, "0", "succeeded", 0),
        (signal.SIGTERM, "0", "failed", 143),
    ],
)
def test_a_signal_reaches_the_command(
    number: signal.Signals, says: str, state: str, code: int, project: Path
) -> None:
    """What ends the process of a handle ends its command, whose own exit code is kept."""
    found = operations(project, ORDERLY)
    operation = begun(found, says)
    os.kill(operation.about.process, number)
    last = ended(found, operation)

    assert (last.state, last.exit_code) == (state, code)
    stopped = ("stopped in order",) if number == signal.SIGINT else ()
    assert last.progress == ("begun", *stopped)


def test_it_runs_as_long_as_its_command(project: Path) -> None:
    """A command whose process of the handle was killed still works: another one is refused."""
    found = operations(project, WAITING)
    operation = begun(found)
    try:
        os.kill(operation.about.process, signal.SIGKILL)
        eventually(lambda: not Path(f"/proc/{operation.about.process}").exists())
        assert found.read(operation.about.id).state == "running"
        with pytest.raises(ConflictError, match=operation.about.id):
            start(found)
    finally:
        os.killpg(operation.about.process, signal.SIGKILL)
    assert ended(found, operation).state == "lost"


@pytest.mark.parametrize("id_", ["nope", "../../../Pulumi.yaml", "..", ""])
def test_there_is_none_elsewhere(id_: str, project: Path) -> None:
    """A handle is a name in the state directory."""
    with pytest.raises(NotFoundError):
        operations(project, WAITING).read(id_)
