"""One queued resource under the real engine: ``python slice_program.py COMMAND``.

Run by ``reliability.rig.SliceRig``. Commands: ``up``, ``preview``, ``refresh``, ``down``,
``recover [N]``; exit codes are those of the command line. Reads ``arguments.json`` in the working
directory; the environment says where to find the cloud, the backend and the engine.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpuflex.engine.commands import Target
from tpuflex.engine.events import Note, Progress
from tpuflex.engine.failure import ProgramFailures
from tpuflex.engine.find import Engine
from tpuflex.engine.run import EngineRun
from tpuflex.errors import TpuflexError

PROJECT, STACK = "shop", "dev"
CLOUD_PROJECT = "cloud-project"


class _Mortal(EngineRun):
    """Counts its writes of the state, and kills itself after a given one."""

    written = 0
    last = 0

    def replace(self, deployment: Mapping[str, Any]) -> None:
        super().replace(deployment)
        self.written += 1
        if self.written == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def main(command: str, last_write: int = 0) -> int:
    """Run one command; return its exit code.

    Args:
        command: its name.
        last_write: the number of state writes after which a `recover` kills itself; 0 for never.
    """
    root = Path.cwd()
    arguments = json.loads((root / "arguments.json").read_text())
    stack = _Mortal(
        target(root), lambda: _program(arguments), failures=ProgramFailures(), listener=_show
    )
    stack.last = last_write
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
                print(f"state written: {stack.written}")
            case _:
                print(f"there is no command {command}", file=sys.stderr)
                return 2
    except TpuflexError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _program(arguments: dict[str, Any]) -> None:
    import pulumi

    from tpuflex.tpu import Provider, QueuedResource

    given = dict(arguments)
    provider = Provider("cloud", project=CLOUD_PROJECT, embedded=True)
    # Declared before it: this many others that request the same in other zones.
    siblings, elsewhere = given.pop("siblings", 0), given.pop("siblings_zones", None)
    for number in range(siblings):
        QueuedResource(
            f"sibling{number}",
            **{**given, "zones": elsewhere},
            opts=pulumi.ResourceOptions(provider=provider),
        )
    options = pulumi.ResourceOptions(
        provider=provider,
        delete_before_replace=given.pop("delete_before_replace", None),
    )
    made = QueuedResource("slice", **given, opts=options)
    pulumi.export("lifecycle", made.lifecycle)


def _recover(stack: EngineRun) -> None:
    """Do what ``tpuflex recover`` does, for this program."""
    from tpuflex.engine.recovery.lock import sole_recovery
    from tpuflex.engine.state_files import file_backend

    backend = file_backend(os.environ["PULUMI_BACKEND_URL"])
    with sole_recovery(backend or Path.cwd(), PROJECT, STACK):
        _recover_alone(stack, backend)


def _recover_alone(stack: EngineRun, backend: Path | None) -> None:
    from tpuflex.engine.recovery.look import CloudLook
    from tpuflex.engine.recovery.recover import recover
    from tpuflex.engine.state_files import mend_files
    from tpuflex.engine.state_lock import ThisMachine, break_locks, locks
    from tpuflex.gcp.enabling import await_settled
    from tpuflex.gcp.endpoints import Endpoints
    from tpuflex.gcp.listing import apis
    from tpuflex.gcp.required_apis import APIS
    from tpuflex.gcp.session import authorized_session
    from tpuflex.gcp.timing import Timing
    from tpuflex.gcp.transport import Transport

    if backend is not None:
        break_locks(locks(backend, PROJECT, STACK), ThisMachine(), print)
        mend_files(backend, PROJECT, STACK)
    endpoints = Endpoints.from_environ(os.environ)
    session = authorized_session(endpoints, os.environ)
    timing = Timing.of_environment(os.environ, threading.Event())
    needed = [api for api in APIS if api.name == "tpu"]
    clients = apis(endpoints, lambda url: Transport(session, url, timing))
    await_settled(clients, CLOUD_PROJECT, timing, print, apis=needed)
    look = CloudLook(clients)
    found = recover(stack, look, print, timing=timing)
    for item in (*found.settled, *found.left):
        print(f"{item.settlement} {item.type} {item.name}: {item.detail}")
    if found.unfinished is not None:
        raise found.unfinished
    if found.left:
        raise TpuflexError(f"{len(found.left)} could not be settled")


def target(root: Path) -> Target:
    """The engine's target, from the environment set by :class:`reliability.rig.SliceRig`."""
    engine = Engine(Path(os.environ["RIG_ENGINE"]), os.environ["RIG_ENGINE_VERSION"], "cache")
    return Target(root, STACK, engine, dict(os.environ))


def _show(progress: Progress) -> None:
    if isinstance(progress, Note):
        print(progress.text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3])))
