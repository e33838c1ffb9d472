"""The environments of tools that cannot, or should not, be installed beside tpuflex."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def environment(name: str) -> Path:
    """Directory of the programs of the environment ``name``."""
    programs = ROOT / ".tpuflex" / "checks" / name / "bin"
    if not programs.is_dir():
        pytest.fail(f"no environment for {name}: `make acceptance` sets it up")
    return programs
