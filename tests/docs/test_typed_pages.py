"""Every block of the pages that can run is run by a test; of the others it is said why not."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks
from tests.docs.typed_pages import PYTHON, SHELL, lines_of, untyped

_TESTS = sorted({who for rows in SHELL.values() for who in rows if who.startswith("tests/")})


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_every_line_of_shell_has_one_row(page: str) -> None:
    """A line without a row is typed by nobody, and a row without a line is of a line that is gone:
    both are mended in tests/docs/typed_pages.py."""
    rows = [line for lines in SHELL.get(page, {}).values() for line in lines]

    assert sorted(set(lines_of(page)) - set(rows)) == [], "lines without a row"
    assert sorted(set(rows) - set(lines_of(page))) == [], "rows without a line"
    assert len(rows) == len(set(rows)), "two rows for one line"


def test_rows_are_of_pages() -> None:
    """No row is of a page that is gone."""
    assert SHELL.keys() <= {str(page.relative_to(ROOT)) for page in PAGES}


def test_reasons_name_tests_that_are_there() -> None:
    """Where a reason says that another test covers a line, there is such a test."""
    reasons = " ".join(who for rows in SHELL.values() for who in rows)
    named = set(re.findall(r"tests/[\w/]+\.py", reasons))

    assert len(named) > len(_TESTS)
    assert [test for test in sorted(named) if not (ROOT / test).is_file()] == []


@pytest.mark.parametrize("test", _TESTS)
def test_a_test_that_a_row_names_answers_for_its_lines(test: str) -> None:
    """It ends with `untyped`, which is what finds a line that it has not typed."""
    assert "assert untyped(" in (ROOT / test).read_text()
    assert untyped(test, ()) != []


def test_blocks_of_python_are_files_that_tests_run() -> None:
    """A block of Python is a file, and a test runs that."""
    assert {block.mark for block in blocks("python")} == {f"example: {file}" for file in PYTHON}
    for block in blocks("python"):
        assert block.text == (ROOT / block.mark.removeprefix("example: ")).read_text(), block
    for file, test in PYTHON.items():
        assert (ROOT / file).is_file()
        assert f'"{file.split("/")[-2]}"' in (ROOT / test).read_text()


def test_other_blocks_are_compared() -> None:
    """Text is what a command shows: the tutorial's is compared by the test that types it, the
    help of commands is generated. YAML is loaded, all of it, by test_blocks.py; a block without
    a language is a picture."""
    assert {block.page for block in blocks("text")} == {"docs/tutorial.md", "docs/cli.md"}
    for block in blocks("json"):  # how a client of `tpuflex mcp` starts it
        (servers,) = json.loads(block.text).values()
        assert block.page == "docs/how-to/assistants.md"
        assert servers.keys() == {"tpuflex"}
