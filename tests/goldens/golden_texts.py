"""Texts that were reviewed once, and are held to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent
REWRITE = "TPUFLEX_REWRITE_GOLDENS"


def assert_golden(name: str, text: str) -> None:
    """``text`` is what the golden ``name`` holds. TPUFLEX_REWRITE_GOLDENS=1 rewrites it, and
    the test still fails in that run, so that a stale golden cannot slip through."""
    golden = GOLDENS / name
    if os.environ.get(REWRITE):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, "utf-8")
        pytest.fail(f"{golden.name} was rewritten; look at the difference and run again")

    assert golden.read_text("utf-8") == text
