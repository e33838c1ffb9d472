"""Texts that were reviewed once, and are held to it. `make goldens` writes them again."""

from __future__ import annotations

import os
from pathlib import Path

GOLDENS = Path(__file__).parent
REWRITE = "TPUFLEX_REWRITE_GOLDENS"


def assert_golden(name: str, text: str) -> None:
    """``text`` is what the golden ``name`` holds; `make goldens` makes it so."""
    golden = GOLDENS / name
    if os.environ.get(REWRITE):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, "utf-8")

    assert golden.read_text("utf-8") == text
