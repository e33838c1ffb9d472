"""What the room gives to programs."""

from __future__ import annotations

import subprocess
import sys

import tpuflex.deploy


def test_the_names_are_there() -> None:
    """Each loads, sorted, and none is a module of the same name."""
    assert tpuflex.deploy.__all__ == sorted(tpuflex.deploy.__all__)
    assert all(callable(getattr(tpuflex.deploy, name)) for name in tpuflex.deploy.__all__)


def test_the_names_cost_nothing() -> None:
    """Importing the room loads neither Pulumi nor pydantic."""
    code = (
        "import sys, tpuflex.deploy; "
        "sys.exit(any(name in sys.modules for name in ('pulumi', 'pydantic', 'click')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
