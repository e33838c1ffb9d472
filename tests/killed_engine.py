"""A run of the engine in a process of its own, killed with SIGKILL at a chosen call of the cloud."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from aiohttp import web

from embedded_engine import Embedded
from tpuflex.emulator.errors import CloudError
from tpuflex.emulator.routing import Match, Reply
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.find import Engine
from tpuflex.engine.run import StackRun, Target
from tpuflex.errors import TpuflexError
from tpuflex.program import deploy
from tpuflex.settings.load import load_stack_file


class Killer:
    """Kills a run at the first call that fits, before or after the call has taken effect.

    Stands where the embedded cloud has its fault rules.
    """

    def __init__(self, method: str, path: str, *, committed: bool = True) -> None:
        self._method = method
        self._path = re.compile(path)
        self._committed = committed
        self.victim: subprocess.Popen[bytes] | None = None
        self.fired = threading.Event()

    async def before_commit(self, match: Match, request: web.Request) -> None:
        del match
        if not self._committed and self._fits(request):
            self._kill()
            raise CloudError(503, "UNAVAILABLE", "the caller is gone")

    async def after_commit(self, match: Match, request: web.Request, reply: Reply) -> Reply:
        del match
        if self._committed and self._fits(request):
            self._kill()
        return reply

    def _fits(self, request: web.Request) -> bool:
        return (
            not self.fired.is_set()
            and request.method == self._method
            and self._path.search(request.rel_url.raw_path) is not None
        )

    def _kill(self) -> None:
        self.fired.set()
        assert self.victim is not None
        family = psutil.Process(self.victim.pid)
        for process in (*family.children(recursive=True), family):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


def killed(embedded: Embedded, command: str, killer: Killer) -> None:
    """Run ``command`` (``up`` or ``destroy``) on the dev stack until ``killer`` strikes."""
    with driven(embedded, command, killer) as process:
        process.wait(120)
    if not killer.fired.is_set():
        raise AssertionError(f"{command} ended without the call that it was to be killed at")


@contextmanager
def driven(embedded: Embedded, command: str, killer: Killer) -> Iterator[subprocess.Popen[bytes]]:
    """``command`` running in a process of its own."""
    arguments = [str(embedded.root), str(embedded.engine.path), embedded.engine.version, command]
    with subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env={**embedded.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        killer.victim = process
        embedded.cloud.cloud.pipeline.faults = killer
        yield process


def stack_run(
    root: Path, engine: Engine, environ: dict[str, str], stack: str = "dev"
) -> StackRun:
    """The engine on the project's stack, with the project's program and nothing to prepare."""
    settings = load_stack_file(root / "stacks" / f"Pulumi.{stack}.yaml").settings

    def program() -> None:
        deploy(settings, project="tpuflex", stack=stack, environ=environ)

    return StackRun(Target(root, stack, engine, environ), program, failures=ProgramFailures())


def main(root: str, path: str, version: str, command: str) -> None:
    run = stack_run(Path(root), Engine(Path(path), version, "cache"), dict(os.environ))
    try:
        getattr(run, command)()
    except TpuflexError as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
