"""Generated files are current."""

from __future__ import annotations

import pytest

from tpuflex.cli.generated import main


def test_they_are_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A change of the code needs `make docs`; the check names the files."""
    assert main(["--check"]) == 0, capsys.readouterr().err
