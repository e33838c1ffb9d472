"""Stacks on an embedded cloud that fails on purpose, with a record of everything in a run.

``StackRig`` runs the real command line (``python -m tpuflex …``) on the dev stack, reduced to be
fast: tiny weights, hosts that are READY at once. ``SliceRig`` runs the real engine and the real
provider on a single queued resource. Both run each command as a separate process, which kill
points target by its role, and collect the evidence for :mod:`reliability.invariants`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import requests

from embedded_cloud import daemon
from embedded_cloud.access import read_token
from embedded_cloud.environment import client_environment
from embedded_cloud.server import EmbeddedCloud
from reliability import processes
from reliability.command_rig import ROOT, TIMEOUT_S, Rig
from reliability.control import Control
from reliability.invariants import UP, Command
from reliability.new_project import make_ready
from reliability.projects import SWIFT, write_slice, write_stack
from reliability.serving_hosts import ServingHosts
from tpuflex.naming import ENDPOINT_NAME, Names

__all__ = ["TIMEOUT_S", "Control", "Rig", "SliceRig", "StackRig"]

Json = dict[str, Any]


class StackRig(Rig):
    """The dev stack through the command line, on an embedded cloud in a separate process."""

    project = "tpuflex"

    def __enter__(self) -> Self:
        write_stack(self.home, ROOT)
        self.engine()
        self._guard.enter_context(processes.guarded(self.mark, self.home))
        state = self.home / ".tpuflex" / "emulator"
        address = daemon.start(state, port=0, capacity=dict(SWIFT), stub_hosts=True)
        daemon.wait_for_plugin(state)
        self.control = Control(address.url, read_token(state))
        if self.strict:
            self.control.strict()
        self._clear_backend()
        self.control.speed(self.speed)
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self.mark)
        daemon.stop(self.home / ".tpuflex" / "emulator")
        self._guard.close()

    def command(self, words: Sequence[str]) -> list[str]:
        """``python -m tpuflex WORDS``, with the confirmation given."""
        consent = ["--yes"] if words[0] in ("up", "down") and "--yes" not in words else []
        return [sys.executable, "-P", "-m", "tpuflex", *words, *consent]

    def environ(self) -> dict[str, str]:
        """The environment of a fresh user account's shell, plus TPUFLEX_HOME."""
        home = self.home / ".tpuflex"
        state = home / "emulator"
        address = daemon.wait_for_plugin(state)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TPUFLEX_HOME": str(home),
            **client_environment(
                base_url=address.url,
                state_dir=state,
                project="tpuflex-dev",
                gcp_plugin_port=address.gcp_plugin_port,
            ),
        }

    def owners(self) -> Mapping[str, str]:
        """The one endpoint of the dev stack."""
        names = Names(self.project, self.stack, ENDPOINT_NAME)
        return {names.owner: names.prefix}


class SliceRig(Rig):
    """One queued resource, the real engine and provider; the cloud is in this process.

    Commands: ``up``, ``preview``, ``refresh``, ``down``, ``recover``. ``arguments`` are those of
    the queued resource, and may be changed between commands.
    """

    def __init__(self, home: Path, *, speed: float = 1.0, strict: bool = False) -> None:
        super().__init__(home, speed=speed, strict=strict)
        self.arguments: Json = {}
        self._cloud: EmbeddedCloud | None = None

    def __enter__(self) -> Self:
        self.arguments = write_slice(self.home, ROOT)
        self.engine()
        self._guard.enter_context(processes.guarded(self.mark, self.home))
        state = self.home / ".tpuflex" / "emulator"
        self._cloud = EmbeddedCloud(state, capacity=dict(SWIFT), project="cloud-project")
        self._cloud.__enter__()
        self._hosts = ServingHosts(self._cloud.cloud)
        self.control = Control(self._cloud.url, self._cloud.token)
        if self.strict:
            self.control.strict()
        self._clear_backend()
        self.control.speed(self.speed)
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self.mark)
        if self._cloud is not None:
            self._cloud.__exit__(None, None, None)
        self._guard.close()

    def reset(self) -> None:
        """Begin the next case; on a strict cloud in a project that was made a moment ago."""
        super().reset()
        if self.strict:
            make_ready(self._call, self.control.advance, self.arguments["service_account"])

    def run(self, *words: str, rules: Sequence[Json] = (), timeout_s: float = TIMEOUT_S) -> Command:
        """As :meth:`Rig.run`; after an `up` that has succeeded, hosts are READY."""
        done = super().run(*words, rules=rules, timeout_s=timeout_s)
        if done.succeeded(UP):
            self._hosts.serve()
        return done

    def _call(self, method: str, path: str, body: Json) -> None:
        assert self._cloud is not None
        headers = {"Authorization": f"Bearer {self._cloud.token}"}
        url = f"{self._cloud.url}{path}"
        answer = requests.request(method, url, json=body, headers=headers, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.text}"

    def command(self, words: Sequence[str]) -> list[str]:
        """``python slice_program.py WORDS``."""
        (self.home / "arguments.json").write_text(json.dumps(self.arguments))
        program = Path(__file__).with_name("slice_program.py")
        return [sys.executable, str(program), *words]

    @contextmanager
    def other(self, more: Json) -> Iterator[None]:
        """Inside this context, ``more`` overrides some of the arguments."""
        before = self.arguments
        self.arguments = {**before, **more}
        try:
            yield
        finally:
            self.arguments = before

    def program(self) -> str:
        """The queued resource's arguments."""
        return json.dumps(self.arguments, sort_keys=True)

    def environ(self) -> dict[str, str]:
        """The embedded cloud's variables, and the engine's location."""
        assert self._cloud is not None
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "RIG_ENGINE": str(self.engine().path),
            "RIG_ENGINE_VERSION": self.engine().version,
            **self._cloud.environ(),
        }

    def owners(self) -> Mapping[str, str]:
        """The queued resources of the program."""
        siblings = [f"sibling{number}" for number in range(self.arguments.get("siblings", 0))]
        found = [Names(self.project, self.stack, name) for name in ("slice", *siblings)]
        return {names.owner: names.prefix for names in found}
