"""A process that is killed at a call of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from embedded_cloud.faults.processes import Roles
from embedded_cloud.faults.rule import Kill, Rule, Stage, Where
from embedded_cloud.server import EmbeddedCloud


def kill(where: Where, stage: Stage, nth: int = 1) -> Rule:
    """Kill who makes the call ``where`` the ``nth`` time, before it takes effect or after."""
    effect = Kill(roles=("cli",), then="proceed" if stage is Stage.AFTER_COMMIT else "reset")
    return Rule(id="kill", where=where, nth=nth, stage=stage, effect=effect)


def run_killed(cloud: EmbeddedCloud, *arguments: str, rule: Rule) -> None:
    """Run :mod:`~tests.weights.weights_process` until ``rule`` kills it, which it must."""
    book = cloud.cloud.faults.book
    with begin(cloud, *arguments) as process:
        book.set_roles(Roles.from_json({"root": process.pid, "cli": process.pid}))
        book.add(rule)
        _, said = process.communicate(timeout=60)
    struck = book.struck
    book.remove()
    assert struck, said.decode()


def begin(cloud: EmbeddedCloud, *arguments: str) -> subprocess.Popen[bytes]:
    """Begin to run :mod:`~tests.weights.weights_process` on ``cloud``."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("weights_process.py")), *arguments],
        env={**os.environ, **cloud.environ(), "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
