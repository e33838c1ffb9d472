"""The Automation API's stack without the engine runs whose results are never used.

A module of its own, because it can only be imported once pulumi is to be loaded.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pulumi.automation import OutputMap, OutputValue, Stack, UpdateSummary
from pulumi.automation._stack import StackInitMode

__all__ = ["QuietStack", "StackInitMode"]


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
        """The outputs of the last update. All count as secret: it is not asked which are."""
        arguments = ["stack", "output", "--json", "--show-secrets"]
        outputs = json.loads(self._run_pulumi_cmd_sync(arguments).stdout)
        return {key: OutputValue(value=value, secret=True) for key, value in outputs.items()}
