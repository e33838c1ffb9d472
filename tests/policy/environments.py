"""The environments of tools that cannot, or should not, be installed beside tpuflex: `make tools`
sets them up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Set by `make checks` and in CI, so that nothing is skipped there.
REQUIRED = "TPUFLEX_CHECKS"


def environment(name: str) -> Path:
    """Directory of the programs of the environment ``name``; skips the test where there is none."""
    programs = ROOT / ".tpuflex" / "checks" / name / "bin"
    if not programs.is_dir():
        reason = f"no environment for {name}: `make tools` sets it up"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)
    return programs
