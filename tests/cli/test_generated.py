"""Generated files are current."""

from __future__ import annotations

import pytest

from tpuflex.cli.generated import main


def test_they_are_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever changes the code writes the files anew; the check names them and the command."""
    assert main(["--check"]) == 0, capsys.readouterr().err
