"""The Automation API's workspace and stack without the engine runs that tell nothing new.

A module of its own, because it can only be imported once pulumi is to be loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pulumi.automation import (
    CommandResult,
    LocalWorkspace,
    OutputMap,
    Stack,
    StackNotFoundError,
    UpdateSummary,
)
from pulumi.automation._stack import StackInitMode

__all__ = ["QuietStack", "QuietWorkspace", "StackInitMode"]


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
