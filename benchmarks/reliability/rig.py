"""The dev stack through the command line, on an embedded cloud that fails on purpose, with a record
of everything in a run for :mod:`reliability.invariants`.

Every command is ``python -m tpuflex …`` in a process of its own, which kill points strike by its
role. The stack is reduced to be fast: tiny weights, hosts that are READY at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from embedded_cloud import daemon
from embedded_cloud.core.access import read_token
from embedded_cloud.core.environment import client_environment
from embedded_cloud.core.store import Store
from reliability import processes
from reliability.control import Control
from reliability.evidence import Command, Evidence, Violation
from reliability.invariants import violations
from reliability.projects import SWIFT, write_stack
from tpuflex.engine.find import ensure
from tpuflex.naming import ENDPOINT_NAME, Names

ROOT = Path(__file__).parents[2]
#: The project of the embedded cloud.
PROJECT = "tpuflex-dev"
#: Real seconds after which a command counts as hanging.
TIMEOUT_S = 120.0

Json = dict[str, Any]
#: Sections of the stack file, and what to change in each.
Edits = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A stack and its cloud at a time of the cloud's: from here cases begin."""

    epoch: float
    documents: tuple[tuple[str, str, Json], ...]
    folder: Path


class StackRig:
    """A project, its stack ``dev``, and its embedded cloud in a separate process.

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
    project = "tpuflex"
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
        self.environment: dict[str, str] = {}
        self._foreign: Json = {}
        self._copies: dict[str, _Copy] = {}

    def __enter__(self) -> Self:
        write_stack(self.home, ROOT)
        self._written = self.stack_file.read_text()
        ensure(ROOT / ".tpuflex", os.environ, lambda _: None)
        self.start(stub_hosts=True)
        if self.strict:
            self.control.strict()
        self._clear_backend()
        self.control.speed(self.speed)
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self.mark)
        daemon.stop(self.emulator)

    def start(self, *, stub_hosts: bool) -> None:
        """Start the embedded cloud, or start it again."""
        address = daemon.start(self.emulator, port=0, capacity=dict(SWIFT), stub_hosts=stub_hosts)
        daemon.wait_for_plugin(self.emulator)
        self.control = Control(address.url, read_token(self.emulator))

    # -- commands -----------------------------------------------------------------------------

    def command(self, words: Sequence[str]) -> list[str]:
        """``python -m tpuflex WORDS``, with the confirmation given."""
        consent = ["--yes"] if words[0] in ("up", "down") and "--yes" not in words else []
        return [sys.executable, "-P", "-m", "tpuflex", *words, *consent]

    def environ(self) -> dict[str, str]:
        """The environment of a fresh user account's shell, plus TPUFLEX_HOME."""
        address = daemon.wait_for_plugin(self.emulator)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TPUFLEX_HOME": str(self.home / ".tpuflex"),
            **client_environment(
                base_url=address.url,
                state_dir=self.emulator,
                project=PROJECT,
                gcp_plugin_port=address.gcp_plugin_port,
            ),
        }

    def run(self, *words: str, rules: Sequence[Json] = (), timeout_s: float = TIMEOUT_S) -> Command:
        """Run one command to its end, with only ``rules`` in force, and record it.

        ``rules`` have the form that ``POST /_emulator/faults`` takes; afterwards
        ``self.control.faults()`` says which of them struck. A traceback fails the test.
        """
        self.control.set_faults(*rules)
        first = self.control.seq()
        environ = {**self.environ(), **self.environment, **self._pace()}
        ended = processes.run(
            self.command(words),
            cwd=self.home,
            environ={**environ, processes.MARK: self.mark},
            started=self._register,
            timeout_s=timeout_s,
        )
        last = self.control.seq()
        done = Command(words[0], ended.exit_code, first, last, ended.seconds)
        self.commands.append(done)
        self.said.append(ended)
        printed = ended.stdout + ended.stderr
        assert "Traceback (most recent call last)" not in printed, printed
        assert "internal error in the tpuflex provider" not in printed, printed
        return done

    def run_well(self, *words: str) -> None:
        """Run a command that must succeed."""
        ended = self.run(*words)
        said = self.said[-1].stderr
        assert ended.exit_code == 0, f"`{' '.join(words)}` exits with {ended.exit_code}: {said}"

    def event(self) -> None:
        """Record a change made outside of our commands (the clock moved, a resource deleted): a
        second `up` after it may have work to do."""
        seq = self.control.seq()
        self.commands.append(Command("event", 0, seq, seq))

    # -- where a case begins ------------------------------------------------------------------

    def reset(self) -> None:
        """Begin the next case: an empty cloud, no stack, no processes, no records."""
        processes.end(self.mark)
        self.control.set_faults()
        self.control.call("POST", "reset", {})
        self._clear_backend()
        # Of an earlier case: what a home has pushed it believes to be in the bucket.
        (self.home / ".tpuflex" / "pushed-weights.json").unlink(missing_ok=True)
        self.commands.clear()
        self.said.clear()
        self.environment.clear()
        self._foreign = {}
        self.control.speed(self.speed)
        self.control.capacity()

    def bring_up(self, *before: Sequence[str]) -> None:
        """As :meth:`reset`, but with what ``before`` leads to, or an `up`; it is not recorded.

        The commands run once; afterwards a copy of the stack and of its cloud is restored, until it
        is too old by the cloud's clock.
        """
        made_of = json.dumps([before, self.stack_file.read_text()])
        copy, now = self._copies.get(made_of), self.now()
        if copy is None or now - copy.epoch > self.stale_s:
            self.reset()
            for words in before or (("up",),):
                self.run_well(*words)
            folder = self.home / "copies" / hashlib.sha256(made_of.encode()).hexdigest()[:16]
            self._copies[made_of] = copy = self._copy(folder, now)
        self.reset()
        self._put_back(copy)

    def edit(self, **edits: Mapping[str, Any]) -> None:
        """Let the stack file be as it was written, but for sections with these values."""
        document = yaml.safe_load(self._written)
        for section, values in edits.items():
            document["config"].setdefault(f"tpuflex:{section}", {}).update(values)
        self.stack_file.write_text(yaml.safe_dump(document))

    def remember_foreign(self) -> None:
        """Treat all slices that exist now as another owner's: they must not change."""
        self._foreign = {"tpu": self.control.inventory()["tpu"]}

    # -- what there is ------------------------------------------------------------------------

    @property
    def stack_file(self) -> Path:
        """The stack file."""
        return self.home / "stacks" / f"Pulumi.{self.stack}.yaml"

    @property
    def emulator(self) -> Path:
        """The state directory of the embedded cloud."""
        return self.home / ".tpuflex" / "emulator"

    @property
    def names(self) -> Names:
        """The names of the one endpoint of the stack."""
        return Names(self.project, self.stack, ENDPOINT_NAME)

    @property
    def state_file(self) -> Path:
        """The engine's file with the stack's state."""
        return self._backend / ".pulumi" / "stacks" / self.project / f"{self.stack}.json"

    def now(self) -> float:
        """The time by the cloud's clock, in seconds since the epoch."""
        return float(self.control.call("GET", "clock")["epoch"])

    def struck(self) -> int:
        """The number of faults that struck since the last command's rules were set."""
        return int(self.control.faults()["firings"])

    def export(self) -> Json | None:
        """The stack's state as ``pulumi stack export`` shows it; None if there is no stack.

        Read from the backend's file, which is faster than asking the engine and takes no lock.
        """
        if not self.state_file.is_file():
            return None
        document = json.loads(self.state_file.read_text())
        return {"version": document["version"], "deployment": document["checkpoint"].get("latest")}

    def check(self) -> list[Violation]:
        """The invariants violated now."""
        return violations(
            Evidence(
                history=self.control.history(),
                strikes=self.control.strikes(),
                inventory=self.control.inventory(),
                export=self.export(),
                commands=tuple(self.commands),
                owners={self.names.owner: self.names.prefix},
                foreign=self._foreign,
            )
        )

    def call(self, method: str, path: str, body: Json | None = None) -> requests.Response:
        """An answer of the cloud to its owner."""
        headers = {"Authorization": f"Bearer {self.control.token}"}
        url = f"{self.control.url}/{path}"
        return requests.request(method, url, json=body, headers=headers, timeout=60)

    def make(self, method: str, path: str, body: Json | None = None) -> Any:
        """The same, which must be no refusal."""
        answer = self.call(method, path, body)
        assert answer.ok, f"{method} {path}: {answer.text}"
        return answer.json()

    # -- its own ------------------------------------------------------------------------------

    @property
    def _backend(self) -> Path:
        return self.home / ".tpuflex" / "backend"

    def _clear_backend(self) -> None:
        shutil.rmtree(self._backend, ignore_errors=True)
        self._backend.mkdir(parents=True)

    def _register(self, pid: int) -> None:
        mark = f"{processes.MARK}={self.mark}"
        self.control.call("POST", "faults", {"roles": {"root": pid, "mark": mark, "cli": pid}})

    def _pace(self) -> dict[str, str]:
        if self.speed == 1.0:
            return {}
        origin = f"{time.time()}:{self.now()}"
        return {"TPUFLEX_TIME_SPEED": str(self.speed), "TPUFLEX_TIME_ORIGIN": origin}

    def _parts(self) -> tuple[tuple[Path, str], ...]:
        return (self._backend, "backend"), (self.emulator / "objects", "objects")

    def _copy(self, folder: Path, epoch: float) -> _Copy:
        shutil.rmtree(folder, ignore_errors=True)
        for source, name in self._parts():
            if source.is_dir():
                shutil.copytree(source, folder / name)
        store = Store(self.emulator / "store.sqlite")
        documents = tuple(
            (collection, key, value)
            for collection in store.collections()
            if collection != "_emulator"  # its clock and rules
            for key, value in store.list(collection)
        )
        store.close()
        return _Copy(epoch, documents, folder)

    def _put_back(self, copy: _Copy) -> None:
        for target, name in self._parts():
            if (copy.folder / name).is_dir():
                shutil.copytree(copy.folder / name, target, dirs_exist_ok=True)
        store = Store(self.emulator / "store.sqlite")
        for collection, key, value in copy.documents:
            store.put(collection, key, value)
        store.close()
