"""What tests of the command line share: a command that was typed, and what it did and wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

#: The time of day in tests of the command line.
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Typed:
    """What a command did.

    Attributes:
        code: its exit code.
        out: its standard output.
        err: its standard error.
    """

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its standard output as the one JSON document that it has to be."""
        return json.loads(self.out)


TypeIn = Callable[..., Typed]
Captured = pytest.CaptureFixture[str]


def stack_file(root: Path, stack: str) -> Path:
    """The file of ``stack`` in the project below ``root``."""
    return root / "stacks" / f"Pulumi.{stack}.yaml"
