"""One queued resource under the real engine: ``python slice_program.py COMMAND``.

Run by ``reliability.rig.SliceRig``. Commands: ``up``, ``preview``, ``refresh``, ``down``,
``recover``; exit codes as those of the command line. Reads ``arguments.json`` in the working
directory; the environment says where cloud, backend and engine are.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from tpuflex.engine.events import Note, Progress
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.find import Engine
from tpuflex.engine.run import StackRun, Target
from tpuflex.errors import TpuflexError

PROJECT, STACK = "shop", "dev"
CLOUD_PROJECT = "cloud-project"


def main(command: str) -> int:
    """Run one command; gives its exit code."""
    root = Path.cwd()
    arguments = json.loads((root / "arguments.json").read_text())
    stack = StackRun(
        target(root), lambda: _program(arguments), failures=ProgramFailures(), listener=_show
    )
    try:
        match command:
            case "up":
                stack.up()
            case "preview":
                for step in stack.preview().changes:
                    print(f"{step.operation} {step.name}")
            case "refresh":
                stack.refresh()
            case "down":
                stack.destroy()
            case "recover":
                _recover(stack)
            case _:
                print(f"there is no command {command}", file=sys.stderr)
                return 2
    except TpuflexError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _program(arguments: dict[str, Any]) -> None:
    import pulumi

    from tpuflex.provider.resource import Provider, QueuedResource

    given = dict(arguments)
    options = pulumi.ResourceOptions(
        provider=Provider("cloud", project=CLOUD_PROJECT, embedded=True),
        delete_before_replace=given.pop("delete_before_replace", None),
    )
    made = QueuedResource("slice", **given, opts=options)
    pulumi.export("lifecycle", made.lifecycle)


def _recover(stack: StackRun) -> None:
    """What ``tpuflex recover`` does, for this program."""
    from tpuflex.engine.recovery import recover
    from tpuflex.engine.recovery_look import CloudLook
    from tpuflex.engine.state_files import file_backend, mend_files
    from tpuflex.engine.state_lock import ThisMachine, break_locks, locks
    from tpuflex.gcp.endpoints import Endpoints
    from tpuflex.gcp.inventory import apis
    from tpuflex.gcp.session import authorized_session
    from tpuflex.gcp.timing import Timing
    from tpuflex.gcp.transport import Transport

    backend = file_backend(os.environ["PULUMI_BACKEND_URL"])
    if backend is not None:
        break_locks(locks(backend, PROJECT, STACK), ThisMachine(), print)
        mend_files(backend, PROJECT, STACK)
    endpoints = Endpoints.from_environ(os.environ)
    session = authorized_session(endpoints, os.environ)
    timing = Timing.of_environment(os.environ, threading.Event())
    look = CloudLook(apis(endpoints, lambda url: Transport(session, url, timing)))
    found = recover(stack, look, print)
    for item in (*found.settled, *found.left):
        print(f"{item.outcome} {item.type} {item.name}: {item.detail}")
    if found.unfinished is not None:
        raise found.unfinished
    if found.left:
        raise TpuflexError(f"{len(found.left)} could not be settled")


def target(root: Path) -> Target:
    """What the engine works on, by the environment of :class:`reliability.rig.SliceRig`."""
    engine = Engine(Path(os.environ["RIG_ENGINE"]), os.environ["RIG_ENGINE_VERSION"], "cache")
    return Target(root, STACK, engine, dict(os.environ))


def _show(progress: Progress) -> None:
    if isinstance(progress, Note):
        print(progress.text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
