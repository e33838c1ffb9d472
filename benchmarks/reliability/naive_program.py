"""One queued resource by the naive provider: ``python naive_program.py COMMAND``.

Run by ``reliability.naive_rig.NaiveRig``. Commands: ``up`` and ``down``, through the same runner
as ours, so that only the provider differs. Reads ``arguments.json`` in the working directory. The
engine's output goes to ``engine.log`` there, including tracebacks of the naive provider; the last
error of a failed command goes to standard error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from reliability.slice_program import target
from tpuflex.engine.events import Note, Progress
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.run import EngineRun
from tpuflex.errors import TpuflexError


def main(command: str) -> int:
    """Run one command; return its exit code."""
    root = Path.cwd()
    arguments = json.loads((root / "arguments.json").read_text())
    with (root / "engine.log").open("a") as log:

        def note(progress: Progress) -> None:
            if isinstance(progress, Note):
                print(progress.text, file=log, flush=True)

        stack = EngineRun(
            target(root), lambda: _program(arguments), failures=ProgramFailures(), listener=note
        )
        try:
            if command == "up":
                stack.up()
            elif command == "down":
                stack.destroy()
            else:
                sys.exit(f"there is no command {command}")
        except TpuflexError as error:
            print(error, file=log)
            print(_complaint(str(error)), file=sys.stderr)
            return error.exit_code
    return 0


def _program(arguments: dict[str, Any]) -> None:
    import pulumi

    from naive_provider.queued_resource import QueuedResource

    made = QueuedResource("slice", **arguments)
    pulumi.export("state", made.state)


def _complaint(text: str) -> str:
    """The line that states the cause: the last one of a traceback, if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" '\"")]
    why = [line for line in lines if "Error" in line or line.startswith("error:")]
    return (why or lines or ["failed"])[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
