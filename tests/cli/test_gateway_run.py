"""What `tpuflex gateway run` refuses before it runs."""

from __future__ import annotations

import sys

import pytest

from tests.cli.typing import TypeIn


def test_a_missing_extra_is_refused(type_in: TypeIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """With how it is installed."""
    for name in [each for each in sys.modules if each.startswith(("limits", "tpuflex.gateway"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "limits", None)

    typed = type_in("gateway", "run")

    assert typed.code == 1
    assert "pip install 'tpuflex[gateway]'" in typed.err


def test_a_wrong_file_is_refused(type_in: TypeIn) -> None:
    """Before anything listens."""
    typed = type_in("gateway", "run", "--config", "there-is-none.yaml")

    assert typed.code == 4
    assert "there-is-none.yaml" in typed.err
