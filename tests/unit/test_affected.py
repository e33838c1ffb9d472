"""Which tests `make quick` runs."""

from __future__ import annotations

import pytest

from tests.affected import affected, imports_of

_TESTS = {
    "tests/cli/test_a.py": imports_of("def f():\n    from tpuflex.google import session\n"),
    "tests/google/test_b.py": imports_of("import tpuflex.errors"),
    "tests/startup/test_c.py": imports_of("from startup.watch import Watch"),
    "tests/unit/test_d.py": imports_of("import json"),
}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("infra/tpuflex/google/session.py", {"tests/cli/test_a.py", "tests/google/test_b.py"}),
        ("infra/tpuflex/errors.py", {"tests/google/test_b.py"}),
        ("startup/60-container.sh", {"tests/startup/test_c.py"}),
        ("tests/unit/test_d.py", {"tests/unit/test_d.py"}),
        ("LICENSE", set()),
    ],
)
def test_tests_of_a_room_and_of_an_imported_module_are_affected(
    changed: str, tests: set[str]
) -> None:
    """A file that is changed affects the tests in the folder of its room, wherever a test imports
    it, and itself if it is a test."""
    assert affected({changed}, _TESTS) == tests
