"""The Automation API without the engine runs that tell nothing new, and with connections that are
each run's own and closed to other users.

gRPC shares the connections of a process by address, with what they have met: an engine that gets a
port on which an earlier engine of this process has just ended would be taken for unreachable for a
second, and Pulumi's SDK ends the program for that ("Resource monitor has terminated").

The Automation API serves our program, and takes the engine's events, on loopback ports without any
credential: another user could run the program against an engine of theirs. It makes its servers
with ``grpc.server`` of its own module (`pulumi.automation._stack`, 3.256) and takes no
interceptors, so that module is given a ``grpc`` whose servers have a door.

A module of its own, because it can only be imported once pulumi is to be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import grpc
from pulumi.automation import (
    CommandResult,
    LocalWorkspace,
    OutputMap,
    Stack,
    StackNotFoundError,
    UpdateSummary,
    _stack,
)
from pulumi.automation._stack import StackInitMode
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

from pulumi_plugin.door import HOST, OwnersDoor

__all__ = [
    "QuietStack",
    "QuietWorkspace",
    "StackInitMode",
    "guard_automation_servers",
    "own_channels",
]

#: https://grpc.github.io/grpc/core/group__grpc__arg__keys.html
_OWN = ("grpc.use_local_subchannel_pool", 1)


class QuietWorkspace(LocalWorkspace):
    """A workspace that starts no engine to learn whether a stack is there, where its state is a
    file. Every command names its stack, so that none has to be selected.

    Args:
        known: whether there is a stack of a project and a name; None where that is not known.
        given: what the workspace is made with.
    """

    def __init__(self, known: Callable[[str, str], bool | None], **given: Any) -> None:
        super().__init__(**given)
        self._known = known

    def select_stack(self, stack_name: str) -> None:
        """Check that the backend has a stack.

        Raises:
            StackNotFoundError: it has not.
        """
        there = self._known(self.project_settings().name, stack_name)
        if there is None:
            super().select_stack(stack_name)
        elif not there:
            raise StackNotFoundError(CommandResult(stdout="", stderr="", code=1))


class QuietStack(Stack):
    """A stack that does not ask for a summary after each operation.

    The API starts the engine once for the history of what it has just run, and twice for the
    outputs, to tell which of them are secret: together as long as a whole update without changes.
    """

    def info(self, show_secrets: bool = True) -> UpdateSummary:  # noqa: ARG002
        """Of the last operation only that it was; its progress came as events."""
        now = datetime.now(UTC)
        return UpdateSummary("", now, "", {}, {}, "succeeded", end_time=now)

    def outputs(self) -> OutputMap:
        """None: who wants to know them asks :meth:`tpuflex.engine.run.EngineRun.outputs`."""
        return {}


def own_channels() -> None:
    """Let every connection that Pulumi's SDK makes from now on know of no other's failures."""
    if _OWN not in _GRPC_CHANNEL_OPTIONS:
        _GRPC_CHANNEL_OPTIONS.append(_OWN)


def guard_automation_servers() -> None:
    """Give every server that the Automation API makes from now on a door."""
    vars(_stack)["grpc"] = _Grpc()


class _Grpc:
    """The module ``grpc``, but for the servers that it makes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)

    def server(
        self, pool: ThreadPoolExecutor, options: Sequence[tuple[str, Any]] = ()
    ) -> grpc.Server:
        """A server that answers processes of this user only."""
        door = OwnersDoor()
        server = grpc.server(pool, interceptors=[door], options=options)
        listen = server.add_insecure_port

        def add_insecure_port(address: str) -> int:
            if not address.startswith(f"{HOST}:"):
                raise ValueError(f"{address}: the engine's servers listen on {HOST} only")
            door.port = listen(address)
            return door.port

        server.add_insecure_port = add_insecure_port  # type: ignore[method-assign]
        return server
