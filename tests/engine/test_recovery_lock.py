"""A lock is broken only when its owner is certainly dead; files truncated by a kill are removed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tpuflex.engine.state_files import damage_error, file_backend, remove_truncated_files
from tpuflex.engine.state_lock import Owner, ThisMachine, break_locks, locks, owner
from tpuflex.errors import EngineError
from tpuflex.recovery.recover import recovery_lock

TAKEN = 1_790_000_000.0


@dataclass
class Machine:
    """A machine called `here` with some processes."""

    running: dict[int, float] = field(default_factory=dict)
    headless_pids: frozenset[int] = frozenset()
    stops: bool = True

    def hostname(self) -> str:
        return "here"

    def started(self, pid: int) -> float | None:
        return self.running.get(pid)

    def headless(self, pid: int) -> bool:
        return pid in self.headless_pids

    def command(self, pid: int) -> str:
        return "tpuflex up" if pid in self.running else ""

    def stop(self, pid: int) -> bool:
        return self.stops and self.running.pop(pid, None) is not None


def write_lock(backend: Path, *, host: str = "here", pid: int = 7, name: str = "x") -> Path:
    """A lock as the engine writes it, with its sidecar."""
    folder = backend / ".pulumi" / "locks" / "organization" / "p" / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    taken = datetime.fromtimestamp(TAKEN, UTC).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")
    content = {"pid": pid, "username": "me", "hostname": host, "timestamp": taken}
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content))
    (folder / f"{name}.json.attrs").write_text("{}")
    return file


class TestOwner:
    @pytest.mark.parametrize(
        ("machine", "host", "expected"),
        [
            (Machine(), "here", Owner.DEAD),
            (Machine({7: TAKEN - 60}), "here", Owner.ALIVE),
            (Machine({7: TAKEN + 60}), "here", Owner.DEAD),
            (Machine({7: TAKEN - 60}, frozenset({7})), "here", Owner.HEADLESS),
            (Machine(), "there", Owner.ELSEWHERE),
        ],
        ids=["gone", "alive", "number given to another", "without its command line", "elsewhere"],
    )
    def test_is_told(self, tmp_path: Path, machine: Machine, host: str, expected: Owner) -> None:
        """An owner is dead if its process is gone or its id belongs to a younger process."""
        write_lock(tmp_path, host=host)
        (lock,) = locks(tmp_path, "p", "dev")

        assert owner(lock, machine) is expected
        assert lock.described.startswith(f"process 7 of me on {host}, since ")

    def test_real_processes(self) -> None:
        """This process is alive; one that has ended is not, not even as a zombie."""
        machine = ThisMachine()
        child = subprocess.Popen([sys.executable, "-c", ""])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert machine.started(os.getpid()) is not None
        assert machine.started(child.pid) is None
        assert machine.hostname() == socket.gethostname()
        child.wait()

    @pytest.mark.parametrize(
        ("words", "expected"),
        [(["tpuflex", "-s", "prod", "up", "--yes"], "tpuflex up"), (["x"], "")],
    )
    def test_whose_engine_it_is(self, words: list[str], expected: str) -> None:
        """The command that has started an engine is named, without its options."""
        engine = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()'],"
        start = f"{engine} stdin=0).pid, flush=True); input()"
        with subprocess.Popen(
            [sys.executable, "-c", start, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as command:
            assert command.stdout is not None
            pid = int(command.stdout.readline())
            found = ThisMachine().command(pid)
            command.communicate(b"\n\n")

        assert found == expected
        assert ThisMachine().command(pid) == ""

    def test_headless(self) -> None:
        """An engine is headless once nothing listens where its program was."""
        machine = ThisMachine()
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"--client=127.0.0.1:{server.getsockname()[1]}"
            # A background job of a shell ignores SIGINT, and so do its children.
            listen = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)"
            waiting = f"{listen}; print(flush=True); input()"
            with subprocess.Popen(
                [sys.executable, "-c", waiting, address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as engine:
                assert engine.stdout is not None
                engine.stdout.readline()  # right after its start a process has no command line
                listened = machine.headless(engine.pid)
                server.close()
                alone = machine.headless(engine.pid)
                ended = machine.stop(engine.pid)

        assert (listened, alone, ended) == (False, True, True)
        assert not machine.headless(os.getpid())


class TestBreaking:
    def test_of_the_dead(self, tmp_path: Path) -> None:
        """A dead owner's lock goes, sidecar and all."""
        file = write_lock(tmp_path)

        broken = break_locks(locks(tmp_path, "p", "dev"), Machine(), print)

        assert [lock.path for lock in broken] == [file]
        assert list(file.parent.iterdir()) == []

    @pytest.mark.parametrize(
        ("machine", "host", "hint"),
        [
            (Machine({7: TAKEN - 60}), "here", "`tpuflex up` is running: wait for it"),
            (Machine({7: TAKEN - 60}, frozenset({7}), stops=False), "here", "kill -9 7"),
            (Machine(), "there", "pulumi cancel"),
        ],
    )
    def test_is_refused(self, tmp_path: Path, machine: Machine, host: str, hint: str) -> None:
        """A living or unknown owner is named, and no lock is touched, not even a dead one's."""
        write_lock(tmp_path, pid=6, name="dead")
        file = write_lock(tmp_path, host=host)

        with pytest.raises(EngineError) as caught:
            break_locks(locks(tmp_path, "p", "dev"), machine, lambda _: None, lambda _: None)

        assert f"process 7 of me on {host}" in caught.value.message
        assert hint in str(caught.value.hint)
        assert len(list(file.parent.glob("*.json"))) == 2

    def test_headless_engine_is_ended(self, tmp_path: Path) -> None:
        """An engine that nothing waits for is told to finish, and that is reported."""
        write_lock(tmp_path)
        said: list[str] = []
        machine = Machine({7: TAKEN - 60}, frozenset({7}))

        break_locks(locks(tmp_path, "p", "dev"), machine, said.append)

        assert "runs without its command line" in said[0]
        assert machine.running == {}

    def test_of_one_that_is_just_dying(self, tmp_path: Path) -> None:
        """A process that was killed a moment ago is waited for."""
        file = write_lock(tmp_path)
        machine = Machine({7: TAKEN - 60})

        def pass_time(_seconds: float) -> None:
            machine.running.clear()

        break_locks(locks(tmp_path, "p", "dev"), machine, print, pass_time)

        assert not file.exists()

    def test_unreadable(self, tmp_path: Path) -> None:
        """A lock without content does not count as a dead one."""
        write_lock(tmp_path).write_text("")

        with pytest.raises(EngineError, match="its owner is not known"):
            locks(tmp_path, "p", "dev")


class TestFiles:
    @pytest.fixture
    def stack(self, tmp_path: Path) -> Path:
        folder = tmp_path / ".pulumi" / "stacks" / "p"
        folder.mkdir(parents=True)
        for name in ("dev.json", "dev.json.attrs", "other.json"):
            (folder / name).write_text("{}")
        return folder

    def test_healthy(self, tmp_path: Path, stack: Path) -> None:
        """Whole files are left alone."""
        assert remove_truncated_files(tmp_path, "p", "dev") == ()
        assert len(list(stack.iterdir())) == 3

    def test_cut_short(self, tmp_path: Path, stack: Path) -> None:
        """Empty sidecars and half-written files go; the state, and other stacks, stay."""
        (stack / "dev.json.attrs").write_text("")
        (stack / "dev.json.18ea.tmp").write_text('{"half')
        (stack / "other.json.attrs").write_text("")

        removed = remove_truncated_files(tmp_path, "p", "dev")

        assert {file.name for file in removed} == {"dev.json.attrs", "dev.json.18ea.tmp"}
        assert {f.name for f in stack.iterdir()} == {"dev.json", "other.json", "other.json.attrs"}

    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("file:///a/b", Path("/a/b")),
            ("file://~/x", Path.home() / "x"),
            ("file://~", Path.home()),
            ("file:///a?no_tmp_dir=true", Path("/a")),
            ("gs://bucket", None),
            ("https://api.pulumi.com", None),
        ],
    )
    def test_backend(self, url: str, expected: Path | None) -> None:
        """Only the file backend has files."""
        assert file_backend(url) == expected


HOLDER = """
import sys, time
from pathlib import Path
from tpuflex.recovery.recover import recovery_lock
with recovery_lock(Path(sys.argv[1]), "p", "dev"):
    print("inside", flush=True)
    time.sleep(60)
"""


def test_one_recovery_at_a_time(tmp_path: Path) -> None:
    """A second one is refused and names the first; killed, the first is in no one's way; another
    stack's is not concerned."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "inside\n"
        with (
            pytest.raises(EngineError, match=rf"is running on stack dev \(process {first.pid}\)"),
            recovery_lock(tmp_path, "p", "dev"),
        ):
            pass
        with recovery_lock(tmp_path, "p", "other"):
            pass
        first.kill()
        first.wait()
        with recovery_lock(tmp_path, "p", "dev"):
            pass


class TestDamage:
    """A state file that is no JSON is named, with the command that gets the state back."""

    def state(self, backend: Path, text: str) -> Path:
        file = backend / ".pulumi" / "stacks" / "p" / "dev.json"
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return file

    @pytest.mark.parametrize("text", ["", '{"version": 3, "check'])
    def test_the_copy_beside_it_restores_it(self, tmp_path: Path, text: str) -> None:
        """The engine keeps the state before the last change."""
        file = self.state(tmp_path, text)
        Path(f"{file}.bak").write_text("{}")

        found = damage_error({"PULUMI_BACKEND_URL": tmp_path.as_uri()})

        assert found is not None
        assert f"{file} is damaged" in found.message
        assert f"cp {file}.bak {file}" in str(found.hint)
        assert "--take-over" not in str(found.hint)

    def test_without_a_copy_it_is_rebuilt(self, tmp_path: Path) -> None:
        """A copy that is damaged, too, does not count."""
        file = self.state(tmp_path, "")
        Path(f"{file}.bak").write_text("{")

        found = damage_error({"PULUMI_BACKEND_URL": tmp_path.as_uri()})

        assert found is not None
        assert f"mv {file} {file}.damaged" in str(found.hint)
        assert "tpuflex recover --take-over" in str(found.hint)

    def test_whole_files_and_other_backends(self, tmp_path: Path) -> None:
        """Then it is something else."""
        self.state(tmp_path, "{}")

        assert damage_error({"PULUMI_BACKEND_URL": tmp_path.as_uri()}) is None
        assert damage_error({"PULUMI_BACKEND_URL": "gs://b"}) is None
        assert damage_error({}) is None
