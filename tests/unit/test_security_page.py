"""docs/security.md names a test for every finding, and the test names the finding."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
#: Findings of the security review, S1 to S17.
FINDINGS = tuple(f"S{number}" for number in range(1, 18))
ROW = re.compile(r"^\| (S\d+)[^|]*\|[^|]+\|([^|]+)\|$", re.M)
LINK = re.compile(r"\]\(([^)#]+)\)")


def paths_for(finding: str) -> list[Path]:
    """The tests that the page names for ``finding``."""
    rows = [
        cells
        for number, cells in ROW.findall((DOCS / "security.md").read_text())
        if number == finding
    ]
    return [(DOCS / link).resolve() for cells in rows for link in LINK.findall(cells)]


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_has_its_test(finding: str) -> None:
    """Each finding has a row; its tests exist, and one of them says the number."""
    named = paths_for(finding)

    assert named, f"{finding} has no row in docs/security.md"
    assert [path for path in named if not path.is_file()] == []
    assert any(f"{finding}:" in path.read_text() for path in named)
