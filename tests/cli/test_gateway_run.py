"""What `tpuflex gateway run` refuses before it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn


def test_a_missing_extra_is_refused(type_in: TypeIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """With how it is installed."""
    # No more than these: what is imported again replaces attributes of its package for good.
    ours = ("tpuflex.gateway.run", "tpuflex.gateway.budgets")
    for name in [each for each in sys.modules if each.startswith("limits") or each in ours]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "limits", None)

    typed = type_in("gateway", "run")

    assert typed.code == 1
    assert "pip install 'tpuflex[gateway]'" in typed.err


UPSTREAM = 'upstreams: {a: {url: "http://127.0.0.1:1/v1", model: m}}\n'


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 5, "has no keys"),
        (UPSTREAM.replace("model", "key_file: there-is-none.key, model"), 5, "there-is-none.key"),
        (f"access_log: there-is-none/log\n{UPSTREAM}", 5, "there is no directory"),
    ],
)
def test_what_is_wrong_in_its_file_is_refused(
    type_in: TypeIn, tmp_path: Path, text: str, code: int, words: str
) -> None:
    """Before anything listens: to edit the file mends it, also where it names another one."""
    config = tmp_path / "gateway.yaml"
    config.write_text(text)

    typed = type_in("gateway", "run", "--config", str(config))

    assert (typed.code, words in typed.err) == (code, True), typed.err


def test_a_file_that_is_not_there(type_in: TypeIn) -> None:
    typed = type_in("gateway", "run", "--config", "there-is-none.yaml")

    assert typed.code == 4
    assert "there-is-none.yaml" in typed.err
