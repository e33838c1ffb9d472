"""`tpuflex down --all` in a process of its own, on an embedded cloud of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.engine.embedded import Embedded
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.down_many import Many, run_down_many
from tpuflex.operate.selection import Selection


def begin_down_all(embedded: Embedded) -> subprocess.Popen[str]:
    """Begin it, as typed in a terminal of its own."""
    path = f"{embedded.engine.path.parent}:{embedded.environ['PATH']}"
    return subprocess.Popen(
        [sys.executable, __file__, str(embedded.root)],
        env={**embedded.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def connect(invocation: Invocation, stack: OpenStack) -> Cloud:
    """The tests' embedded cloud, which their environment names."""
    return Cloud(stack, invocation.environ)


if __name__ == "__main__":
    typed = Invocation(environ=dict(os.environ), directory=Path(sys.argv[1]), json=True, yes=True)
    sys.exit(run_down_many(typed, Many(Selection()), connect))
