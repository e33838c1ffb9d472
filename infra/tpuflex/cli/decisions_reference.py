"""The text of docs/adr/README.md: every decision with its title, date and state."""

from __future__ import annotations

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[3] / "docs" / "adr"
_HEAD = """\
# Decisions

Generated from the records in this directory by `make docs`; do not edit. Each says what was
decided, why, and what was left out.

| number | decision | date |
|---|---|---|
"""
_RECORD = re.compile(r"# 0*(\d+)\.? (.+)\n+Date: ([\d-]+)")


def decisions_reference() -> str:
    """The document."""
    rows = []
    for file in sorted(DECISIONS.glob("[0-9]*.md")):
        found = _RECORD.match(file.read_text("utf-8"))
        if found is None:
            raise ValueError(f"{file.name} begins with no number, title and date")
        number, title, date = found.groups()
        rows.append(f"| [{number:0>4}]({file.name}) | {title} | {date} |\n")
    return _HEAD + "".join(rows)
