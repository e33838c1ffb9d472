"""The naive dynamic provider of ``benchmarks/naive_provider`` on an embedded cloud with faults."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from reliability import processes
from reliability.command_rig import ROOT
from reliability.rig import SliceRig
from tpuflex.naming import QUEUED_RESOURCE

Json = dict[str, Any]

NAIVE = ROOT / "benchmarks" / "naive_provider"
#: Part of the command line of the provider's process.
PROVIDER = "pulumi.dynamic"
#: The dynamic resource's type in the state.
NAIVE_TYPE = "pulumi-python:dynamic/tpu:QueuedResource"
#: The prefix of the names of the program's queued resources.
PREFIX = "slice"
GIVEN = f"{PREFIX}-given"
#: All that Pulumi itself offers after a crash without anybody having to decide anything: remove the
#: lock, drop pending operations, and refresh the state from the cloud.
MEND = """
pulumi --non-interactive cancel --yes --stack "$1"
pulumi --non-interactive refresh --yes --skip-preview --clear-pending-creates --stack "$1"
"""
#: Real seconds between two polls of the naive provider.
POLL_S = 0.8


class NaiveRig(SliceRig):
    """As :class:`SliceRig`, with the naive provider instead of ours.

    Commands: ``up``, ``down``, and ``recover``, which runs Pulumi's counterpart of ours. Only the
    cloud's clock is sped up: the provider has short pauses instead.
    """

    def name(self, given: bool, *, poll_s: float = POLL_S) -> None:
        """Set whether the queued resource has one given name or a random one each time, and how
        often it is polled."""
        self.arguments = {
            "project": "cloud-project",
            "zone": "us-east5-a",
            "accelerator_type": "v6e-4",
            "runtime_version": "v2-alpha-tpuv6e",
            "max_run_duration": "14400s",
            "poll_seconds": poll_s,
            "queued_resource_id": GIVEN if given else None,
        }

    def command(self, words: Sequence[str]) -> list[str]:
        """``python naive_program.py WORDS``; for ``recover``, what somebody would type."""
        (self.home / "arguments.json").write_text(json.dumps(self.arguments))
        if words[0] == "recover":
            return ["/bin/sh", "-ec", MEND, "sh", self.stack]
        program = Path(__file__).with_name("naive_program.py")
        return [sys.executable, str(program), *words]

    def environ(self) -> dict[str, str]:
        """The embedded cloud's variables; the engine and the plugin's launcher are on PATH."""
        environ = super().environ()
        path = f"{NAIVE / 'plugin'}:{self.engine().path.parent}:{environ['PATH']}"
        return {
            **environ,
            "PATH": path,
            "PYTHONPATH": str(ROOT / "benchmarks"),
            "PULUMI_PYTHON_CMD": sys.executable,
        }

    def owners(self) -> Mapping[str, str]:
        """It sets no labels: its resources are recognised by name."""
        return {"": PREFIX}

    def export(self) -> Json | None:
        """The state, with the resource type under which the checker knows a queued resource."""
        text = json.dumps(super().export())
        exported: Json | None = json.loads(text.replace(NAIVE_TYPE, QUEUED_RESOURCE))
        return exported

    def await_engine(self, seconds: float) -> bool:
        """Wait until no engine is still working without its command line, as a careful person
        would before `pulumi cancel`; false if that takes longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        while self._engines():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _engines(self) -> int:
        found = 0
        for process in processes.marked(self.mark):
            with contextlib.suppress(psutil.NoSuchProcess):
                found += process.name() == "pulumi"
        return found

    def _register(self, pid: int) -> None:
        roles = {"root": pid, "mark": f"{processes.MARK}={self.mark}", "cli": pid}
        self.control.call("POST", "faults", {"roles": {**roles, "provider": PROVIDER}})
