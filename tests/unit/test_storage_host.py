"""The engine gets the embedded cloud's storage as Go CDK reads it."""

from __future__ import annotations

import pytest

from tpuflex.engine.storage_host import without_scheme


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:8470", "127.0.0.1:8470"),
        ("127.0.0.1:8470", "127.0.0.1:8470"),
    ],
)
def test_p19_the_host_has_no_scheme(given: str, expected: str) -> None:
    """P19: Go CDK writes `http://` before it; the rest of the environment is as it was."""
    assert without_scheme({"STORAGE_EMULATOR_HOST": given, "A": "b"}) == {
        "STORAGE_EMULATOR_HOST": expected,
        "A": "b",
    }


def test_p19_on_google_there_is_none() -> None:
    """P19: an environment without the variable gets none."""
    assert without_scheme({"A": "b"}) == {"A": "b"}
