"""The engine's process gets each Ctrl-C once, through us."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest
from pulumi.automation.errors import CommandError

from tpuflex.engine.process import EngineProcess

#: An engine that stops on the first SIGINT; it counts them.
POLITE = """#!/bin/bash
count=0
trap 'count=$((count+1)); echo "interrupts $count"; exit 1' INT
echo started
for i in $(seq 600); do sleep 0.05; done
"""

#: An engine that takes no notice of SIGINT.
DEAF = """#!/bin/bash
trap '' INT
echo started
exec sleep 60
"""


def engine(tmp_path: Path, script: str) -> EngineProcess:
    path = tmp_path / "pulumi"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return EngineProcess(path, "3.256.0", {"PATH": os.environ["PATH"], "MINE": "1"})


def press_once_started(process: EngineProcess, times: int) -> tuple[CommandError, list[str]]:
    """Run the engine, press Ctrl-C ``times`` times, and return how it ended. It is pressed again
    when something was said of the last time: Python makes one of two signals that are pending."""
    said: list[str] = []
    started, over = threading.Event(), threading.Event()

    def press() -> None:
        started.wait(60)
        for pressed in range(1, times + 1):
            os.kill(os.getpid(), signal.SIGINT)
            while len(said) < pressed and not over.wait(0.01):
                pass

    presser = threading.Thread(target=press)
    presser.start()
    with process.interruptible(said.append), pytest.raises(CommandError) as caught:
        process.run(["up"], "/", {}, on_output=lambda _line: started.set())
    over.set()
    presser.join()
    return caught.value, said


def test_first_ctrl_c_asks_once(tmp_path: Path) -> None:
    """The first Ctrl-C reaches the engine as one SIGINT, and its own exit is waited for."""
    process = engine(tmp_path, POLITE)

    error, said = press_once_started(process, 1)

    assert "interrupts 1" in str(error)
    assert process.cancelled.is_set()
    assert said == ["Stopping after the calls in flight (Ctrl-C again ends at once) …"]


def test_second_ctrl_c_ends_it(tmp_path: Path) -> None:
    """The second Ctrl-C ends an engine that does not stop."""
    process = engine(tmp_path, DEAF)
    began = time.monotonic()

    error, said = press_once_started(process, 2)

    assert "code: -9" in str(error)
    assert said[-1] == "Ending the engine now."
    assert time.monotonic() - began < 20


class Struck(threading.Event):
    """Is struck by another signal while it is being set, and holds its lock."""

    def set(self) -> None:
        with self._cond:  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)
        super().set()


@pytest.mark.timeout(120)
def test_a_signal_that_comes_while_one_is_obeyed(tmp_path: Path) -> None:
    """SIGINT and SIGTERM at once, as when a terminal and a supervisor end a command together, end
    the engine; neither waits for the other."""
    process = engine(tmp_path, DEAF)
    process.cancelled = Struck()

    error, said = press_once_started(process, times=1)

    assert "code: -9" in str(error)
    assert said[-1] == "Ending the engine now."


def test_handlers_are_put_back(tmp_path: Path) -> None:
    """After the operation, Ctrl-C means what it meant before."""
    before = signal.getsignal(signal.SIGINT)

    with engine(tmp_path, POLITE).interruptible(print):
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


def test_not_in_the_terminals_session(tmp_path: Path) -> None:
    """The engine has a session of its own, so that the terminal's SIGINT does not reach it."""
    process = engine(tmp_path, "#!/bin/bash\nps -o sid= -p $$\n")

    result = process.run(["version"], "/", {})

    assert int(result.stdout) != os.getsid(0)


def test_environment_is_given_explicitly(tmp_path: Path) -> None:
    """The engine sees the environment that it was given and nothing of the process's own."""
    os.environ["TPUFLEX_TEST_LEAK"] = "1"
    process = engine(tmp_path, "#!/bin/bash\nenv\n")
    try:
        lines = process.run(["version"], "/", {"MORE": "2"}).stdout.splitlines()
    finally:
        del os.environ["TPUFLEX_TEST_LEAK"]

    assert {"MINE=1", "MORE=2"} <= set(lines)
    assert "TPUFLEX_TEST_LEAK=1" not in lines
