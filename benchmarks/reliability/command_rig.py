"""The base of all rigs that run commands as processes: faults, history, state, verdicts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from reliability import processes
from reliability.control import Control
from reliability.copies import Copy, put_back, take
from reliability.invariants import Command, Evidence, Violation, violations
from reliability.serving_hosts import DELETION
from tpuflex.engine.find import Engine, ensure

ROOT = Path(__file__).parents[2]
#: Real seconds after which a command counts as hanging.
TIMEOUT_S = 120.0

Json = dict[str, Any]


class Rig(ABC):
    """A project, its stack ``dev``, and its embedded cloud.

    Attributes:
        home: the project's directory; TPUFLEX_HOME is ``.tpuflex`` in it.
        speed: how many times faster than real time the cloud's clock and the provider's run.
        strict: whether the cloud is as strict as Google.
        control: the embedded cloud's control API.
        commands: the commands run since the last :meth:`reset`.
        said: how each of them ended.
        environment: extra environment variables for commands.
    """

    #: Pulumi project name.
    project = "shop"
    stack = "dev"
    #: Seconds of the cloud's time for which a copy of a stack may stand in for one just brought up.
    stale_s = 3600.0

    def __init__(self, home: Path, *, speed: float = 1.0, strict: bool = False) -> None:
        self.home = home
        self.speed = speed
        self.strict = strict
        self.mark = f"rig-{uuid.uuid4().hex[:12]}"
        self.control = Control("", "")
        self.commands: list[Command] = []
        self.said: list[processes.Ended] = []
        self._guard = ExitStack()
        self.environment: dict[str, str] = {}
        self._foreign: Json = {}
        self._copies: dict[str, Copy] = {}

    @abstractmethod
    def command(self, words: Sequence[str]) -> list[str]:
        """The program and arguments of one command."""

    @abstractmethod
    def environ(self) -> dict[str, str]:
        """The whole environment of a command, except for the mark and the speed of the clock."""

    def run(self, *words: str, rules: Sequence[Json] = (), timeout_s: float = TIMEOUT_S) -> Command:
        """Run one command to its end, with only ``rules`` in force, and record it.

        ``rules`` have the form that ``POST /_emulator/faults`` takes; afterwards
        ``self.control.faults()`` says which of them struck. A traceback fails the test.
        """
        self.control.set_faults(*rules)
        first = self.control.seq()
        ended = processes.run(
            self.command(words),
            cwd=self.home,
            environ={
                **self.environ(),
                **self.environment,
                **self._pace(),
                processes.MARK: self.mark,
            },
            started=self._register,
            timeout_s=timeout_s,
        )
        done = Command(
            name=words[0],
            exit_code=ended.exit_code,
            first_seq=first,
            last_seq=self.control.seq(),
            seconds=ended.seconds,
        )
        self.commands.append(done)
        self.said.append(ended)
        printed = ended.stdout + ended.stderr
        assert "Traceback (most recent call last)" not in printed, printed
        assert "internal error in the tpuflex provider" not in printed, printed
        return done

    def event(self) -> None:
        """Record a change made outside of our commands (the clock moved, a resource deleted): a
        second `up` after it may have work to do."""
        seq = self.control.seq()
        self.commands.append(Command("event", 0, seq, seq))

    def struck(self) -> int:
        """The number of faults that struck since the last command's rules were set."""
        return int(self.control.faults()["firings"])

    def export(self) -> Json | None:
        """The stack's state as ``pulumi stack export`` shows it; None if there is no stack.

        Read from the backend's file, which is faster than asking the engine and takes no lock.
        """
        file = self._backend() / ".pulumi" / "stacks" / self.project / f"{self.stack}.json"
        if not file.is_file():
            return None
        document = json.loads(file.read_text())
        return {"version": document["version"], "deployment": document["checkpoint"].get("latest")}

    def evidence(self, *, reported: Sequence[str] = (), must_strike: bool = False) -> Evidence:
        """The evidence so far.

        Args:
            reported: names that `status` or `sweep` reported as left behind.
            must_strike: whether the rig has failed if no fault struck.
        """
        export = self.export()
        return Evidence(
            history=self.control.history(),
            strikes=self.control.strikes(),
            deletions=self.control.events(DELETION),
            inventory=self.control.inventory(),
            export=export,
            commands=tuple(self.commands),
            owners=self.owners(),
            foreign=self._foreign,
            reported=frozenset(reported),
            must_strike=must_strike,
        )

    def check(self, **how: Any) -> list[Violation]:
        """The invariants violated now; ``how`` is passed to :meth:`evidence`."""
        return violations(self.evidence(**how))

    @abstractmethod
    def owners(self) -> Mapping[str, str]:
        """Owner label -> prefix of the names of that owner's resources."""

    def remember_foreign(self) -> None:
        """Treat everything that exists now as somebody else's: it must not change."""
        self._foreign = self.control.inventory()

    def pulumi(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of Pulumi's own commands on the stack; the fault rules stay as they are."""
        command = [str(self.engine().path), "--non-interactive", "--stack", self.stack, *words]
        environ = {**self.environ(), **self.environment, **self._pace()}
        return self._pulumi(command, {**environ, processes.MARK: self.mark})

    def snapshot_error(self) -> str:
        """Why ``pulumi stack import`` rejects the exported state; empty if it accepts it."""
        pulumi = [str(self.engine().path), "--non-interactive", "stack", "--stack", self.stack]
        environ = {**self.environ(), processes.MARK: self.mark}
        exported = self._pulumi([*pulumi, "export"], environ)
        if exported.returncode:
            return exported.stderr
        return self._pulumi([*pulumi, "import"], environ, exported.stdout).stderr

    def engine(self) -> Engine:
        """The Pulumi engine."""
        return ensure(ROOT / ".tpuflex", os.environ, lambda _: None)

    def reset(self) -> None:
        """Begin the next case: an empty cloud, no stack, no processes, no records."""
        processes.end(self.mark)
        self.control.set_faults()
        self.control.call("POST", "reset", {})
        self._clear_backend()
        self.commands.clear()
        self.said.clear()
        self.environment.clear()
        self._foreign = {}
        self.control.speed(self.speed)
        self.control.capacity()

    def bring_up(self) -> None:
        """As :meth:`reset`, but with the stack up; the `up` itself is not recorded.

        The stack is brought up once; afterwards a copy of it and of its cloud is restored, until
        the copy is too old by the cloud's clock or the program differs.
        """
        now = float(self.control.call("GET", "clock")["epoch"])
        made_of, emulator = self.program(), self.home / ".tpuflex" / "emulator"
        copy = self._copies.get(made_of)
        if copy is None or now - copy.epoch > self.stale_s:
            self.reset()
            ended = self.run("up")
            assert ended.exit_code == 0, self.said[-1].stderr
            # Its own, also when it takes the place of one that is too old.
            folder = self.home / "copies" / hashlib.sha256(made_of.encode()).hexdigest()[:16]
            self._copies[made_of] = copy = take(emulator, self._backend(), folder, now)
        self.reset()
        put_back(copy, emulator, self._backend())

    def program(self) -> str:
        """The program as text: different text means a different program."""
        return ""

    def _clear_backend(self) -> None:
        shutil.rmtree(self._backend(), ignore_errors=True)
        self._backend().mkdir(parents=True)

    def _backend(self) -> Path:
        return self.home / ".tpuflex" / "backend"

    def _register(self, pid: int) -> None:
        mark = f"{processes.MARK}={self.mark}"
        self.control.call("POST", "faults", {"roles": {"root": pid, "mark": mark, "cli": pid}})

    def _pace(self) -> dict[str, str]:
        if self.speed == 1.0:
            return {}
        real = time.time()
        cloud = self.control.call("GET", "clock")["epoch"]
        return {
            "TPUFLEX_TIME_SPEED": str(self.speed),
            "TPUFLEX_TIME_ORIGIN": f"{real}:{cloud}",
        }

    def _pulumi(
        self, command: list[str], environ: Mapping[str, str], given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.home,
            env=dict(environ),
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *_: object) -> None: ...
