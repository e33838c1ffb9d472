"""A run of the engine in a process of its own, killed at a chosen call of the cloud."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded_cloud.faults.processes import Roles
from embedded_cloud.faults.rule import Kill, Rule, Stage, Where
from tests.engine.embedded import Embedded
from tpuflex.engine.commands import Target
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.find import Engine
from tpuflex.engine.run import EngineRun
from tpuflex.errors import TpuflexError
from tpuflex.program import deploy
from tpuflex.settings.load import load_stack_file


def kill_at(method: str, path: str, *, stage: Stage = Stage.AFTER_COMMIT, who: str = "") -> Rule:
    """A rule that kills everything of the run (or only ``who``) at the first call that fits.

    The call itself goes on: what was begun in the cloud ends there.
    """
    roles = (who,) if who else ("cli", "engine", "provider")
    effect = Kill(roles=roles, then="proceed" if stage is Stage.AFTER_COMMIT else "reset")
    return Rule(id="kill", where=Where(method=method, path=path), stage=stage, effect=effect)


def killed(embedded: Embedded, command: str, rule: Rule) -> None:
    """Run ``command`` (``up`` or ``destroy``) on the dev stack until ``rule`` strikes."""
    book = embedded.cloud.cloud.faults.book
    with driven(embedded, command) as process:
        book.set_roles(Roles.from_json({"root": process.pid, "cli": process.pid}))
        book.add(rule)
        process.communicate(timeout=120)
    if not book.struck:
        raise AssertionError(f"{command} ended without the call that it was to be killed at")
    book.remove()


def refused(embedded: Embedded, command: str) -> str:
    """What ``command`` says when it fails.

    In a process of its own: an inline program whose run fails leaves the Automation API's event
    loop and connections open.
    """
    with driven(embedded, command) as process:
        _, said = process.communicate(timeout=120)
    if not process.returncode:
        raise AssertionError(f"{command} did not fail")
    return said.decode()


@contextmanager
def driven(embedded: Embedded, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """``command`` running in a process of its own."""
    arguments = [str(embedded.root), str(embedded.engine.path), embedded.engine.version, command]
    with subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env={**embedded.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        yield process


def stack_run(root: Path, engine: Engine, environ: dict[str, str], stack: str = "dev") -> EngineRun:
    """The engine on the project's stack, with the project's program and nothing to prepare."""
    settings = load_stack_file(root / "stacks" / f"Pulumi.{stack}.yaml").settings

    def program() -> None:
        deploy(settings, project="tpuflex", stack=stack, environ=environ)

    return EngineRun(Target(root, stack, engine, environ), program, failures=ProgramFailures())


def main(root: str, path: str, version: str, command: str) -> None:
    """Run one command of the engine; its error goes to standard error."""
    run = stack_run(Path(root), Engine(Path(path), version, "cache"), dict(os.environ))
    try:
        getattr(run, command)()
    except TpuflexError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
