"""`tpuflex down`, of one stack and of all, in a process of its own, on an embedded cloud of the
tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.engine.embedded import Embedded
from tpuflex.cli.down.many import run_down_many
from tpuflex.cli.down.run import run_down
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.candidates import Selection
from tpuflex.engine.environment import with_own_provider
from tpuflex.errors import TpuflexError
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack


def begin_down(embedded: Embedded, stack: str = "") -> subprocess.Popen[str]:
    """Begin it for ``stack``, or for all of them, as typed in a terminal of its own."""
    path = f"{embedded.engine.path.parent}:{embedded.environ['PATH']}"
    return subprocess.Popen(
        [sys.executable, __file__, str(embedded.root), stack],
        env={**embedded.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def connect(stack: Stack) -> Connection:
    """The tests' embedded cloud, which the environment names."""
    return Connection(stack, with_own_provider(os.environ))


if __name__ == "__main__":
    _, directory, named = sys.argv
    typed = Invocation(
        environ=dict(os.environ),
        directory=Path(directory),
        chosen_stack=named,
        json=True,
        yes=True,
    )
    if not named:
        sys.exit(run_down_many(typed, Selection(), connect))
    try:
        run_down(typed, connect(typed.open_deployed(of_stack=True)), dry_run=False)
    except TpuflexError as error:
        sys.exit(typed.output.failure(error))
