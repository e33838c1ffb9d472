"""docs/findings.md names tests for every finding, and in each of them a test names the finding."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "findings.md"
#: How many findings each series has: blockers, major, minor, kinder than Google, gcp plugin.
SERIES = {"B": 3, "M": 11, "m": 9, "K": 10, "D": 12}
FINDINGS = tuple(f"{series}{n}" for series, last in SERIES.items() for n in range(1, last + 1))
#: What is not built: its row names no test until one does.
OPEN: frozenset[str] = frozenset()
ROW = re.compile(r"^\| ([A-Za-z]\d+) \| [^|]+ \|([^|]*)\|$", re.M)
LINK = re.compile(r"\]\(([^)#]+)\)")
NUMBER = re.compile(rf"\b[{''.join(SERIES)}]\d+\b")


def named_in(path: Path) -> set[str]:
    """The findings that the docstrings of the tests in ``path`` name."""
    return {
        number
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
        for number in NUMBER.findall(ast.get_docstring(node) or "")
    }


def rows() -> list[tuple[str, list[Path]]]:
    """Each row of the page: number, and the tests that it links to."""
    return [
        (number, [(PAGE.parent / link).resolve() for link in LINK.findall(cell)])
        for number, cell in ROW.findall(PAGE.read_text())
    ]


def test_the_page_has_a_row_for_every_finding() -> None:
    """Each once, and no other."""
    assert sorted(number for number, _ in rows()) == sorted(FINDINGS)


@pytest.mark.parametrize("finding", FINDINGS)
def test_the_tests_of_a_finding_say_its_number(finding: str) -> None:
    """A row names tests, unless it is open, and each of these files has a test that names it."""
    named = dict(rows())[finding]

    assert named or finding in OPEN
    assert [path.name for path in named if finding not in named_in(path)] == []


def test_no_test_names_a_finding_that_there_is_not() -> None:
    """A misspelt number would be nobody's."""
    found = {number for path in TESTS.rglob("test_*.py") for number in named_in(path)}

    assert found <= set(FINDINGS)
