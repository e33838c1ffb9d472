"""Which weights this home remembers to have pushed."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tpuflex.weights.push_record import PushedWeights

SHA256 = "5a" * 32


def test_commands_side_by_side_lose_nothing(tmp_path: Path) -> None:
    """Each has the file for itself while it writes; nobody else may read it."""

    def write(command: int) -> None:
        for number in range(20):
            PushedWeights(tmp_path).put("b", f"{command}/{number}", SHA256)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(4)))
    known = PushedWeights(tmp_path)

    assert {known.get("b", f"{one}/{two}") for one in range(4) for two in range(20)} == {SHA256}
    assert stat.S_IMODE((tmp_path / "pushed-weights.json").stat().st_mode) == 0o600


def test_what_is_not_readable_as_ours_says_nothing(tmp_path: Path) -> None:
    """Neither text, nor what is no hash."""
    for text in ("[", "[]", '{"b/p": 1}', '{"b/p": "5a"}'):
        (tmp_path / "pushed-weights.json").write_text(text)
        assert PushedWeights(tmp_path).get("b", "p") is None
