"""The table of docs/pulumi.md: each row is held by a test with the real engine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.blocks import ROOT

_ROW = re.compile(
    r"\| (?P<feature>[^|]+) \| (?P<outcome>[^|]+) \| [^|]+"
    r" \| \[(?P<test>\w+)\]\(\.\./(?P<file>tests/[\w/]+\.py)\) \|"
)


def rows() -> list[re.Match[str]]:
    """The rows of the table, without its head."""
    lines = (ROOT / "docs" / "pulumi.md").read_text().splitlines()
    found = [line for line in lines if line.startswith("|")][2:]
    matches = [_ROW.fullmatch(line) for line in found]
    assert all(matches), [line for line, match in zip(found, matches, strict=True) if not match]
    return [match for match in matches if match]


def marked() -> Iterator[tuple[str, str, str]]:
    """Each row that a test names by `pulumi_feature`, with the test and its file."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        tree = ast.parse(text) if "pulumi_feature" in text else ast.Module([], [])
        for test in (each for each in tree.body if isinstance(each, ast.FunctionDef)):
            for row in rows_named_by(test):
                yield row, test.name, str(path.relative_to(ROOT))


def rows_named_by(test: ast.FunctionDef) -> Iterator[str]:
    """What stands in its mark."""
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(".pulumi_feature"):
            yield from (str(ast.literal_eval(row)) for row in mark.args)


def test_every_row_is_held_by_the_test_that_it_names() -> None:
    """The test is there and names the row; a test that names a row is named by it."""
    table = [(row["feature"].replace("`", ""), row["test"], row["file"]) for row in rows()]

    assert len({feature for feature, _, _ in table}) == len(table) >= 30
    assert sorted(table) == sorted(marked())


@pytest.mark.parametrize("file", sorted({row["file"] for row in rows()}))
def test_the_tests_run_the_real_engine(file: str) -> None:
    """What Pulumi does only Pulumi can show."""
    (marks,) = re.findall(r"^pytestmark = (.*?)\n(?:\S|$)", (ROOT / file).read_text(), re.M | re.S)
    assert "pytest.mark.engine" in marks or "CUT_SHORT" in marks


def test_every_outcome_is_one_of_three() -> None:
    """A row says plainly whether it is so."""
    assert {row["outcome"] for row in rows()} <= {"honoured", "in part", "refused"}
