"""The Automation API's stack, reading the engine's files where the API starts the engine."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi.automation import (
    Deployment,
    OutputMap,
    OutputValue,
    Stack,
    UpdateSummary,
    Workspace,
)
from pulumi.automation._stack import StackInitMode

from tpuflex.engine.automation import own_channels

__all__ = ["QuickStack", "StackInitMode"]

own_channels()


class QuickStack(Stack):
    """A stack in a backend of files.

    After each operation, the API starts the engine for its summary, and twice more for the
    stack's outputs: together as long as an update without changes.
    """

    @classmethod
    def existing(cls, name: str, workspace: Workspace) -> QuickStack:
        """A stack that is known to exist; the API would let the engine look."""
        stack = cls.__new__(cls)
        stack.name, stack.workspace, stack._mode = name, workspace, StackInitMode.SELECT
        return stack

    def info(self, show_secrets: bool = True) -> UpdateSummary:  # noqa: ARG002
        """The last operation."""
        histories = self._backend.glob(f".pulumi/history/*/{self.name}/*.history.json")
        found = json.loads(max(histories).read_text())
        start, end = (datetime.fromtimestamp(found[key], UTC) for key in ("startTime", "endTime"))
        return UpdateSummary(
            kind=found["kind"],
            start_time=start,
            message=found["message"],
            environment=found["environment"],
            config={},
            result=found["result"],
            end_time=end,
            resource_changes=found.get("resourceChanges"),
        )

    def outputs(self) -> OutputMap:
        """The stack's outputs; secret ones as the state holds them."""
        (root,) = (r for r in self._resources() if r["type"] == "pulumi:pulumi:Stack")
        outputs = root.get("outputs", {})
        return {key: OutputValue(value=value, secret=False) for key, value in outputs.items()}

    def export_stack(self) -> Deployment:
        """The state."""
        checkpoint = self._checkpoint()
        return Deployment(checkpoint["version"], checkpoint["checkpoint"]["latest"])

    def _resources(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._checkpoint()["checkpoint"]["latest"]["resources"]
        return found

    def _checkpoint(self) -> dict[str, Any]:
        (path,) = self._backend.glob(f".pulumi/stacks/*/{self.name}.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    @property
    def _backend(self) -> Path:
        environ = {**os.environ, **self.workspace.env_vars}
        return Path(environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
