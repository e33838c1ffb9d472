"""The ids of states that a home remembers, in files that nobody else can have written."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tpuflex.cli.seen_states import SeenStates
from tpuflex.errors import AccessError, EngineError

ONE, TWO = "0123456789abcdef0123", "fedcba9876543210fedc"


@pytest.fixture
def seen(tmp_path: Path) -> SeenStates:
    return SeenStates(tmp_path / "home", "shop")


def files(seen: SeenStates) -> list[Path]:
    return sorted((seen.home / "state-ids").iterdir())


def test_what_was_seen_is_remembered(seen: SeenStates) -> None:
    """Ids are kept by project and stack, once each; those of another project are not among them."""
    seen.remember("dev", [ONE])
    seen.remember("dev", [ONE, TWO])
    seen.remember("prod", [TWO])
    SeenStates(seen.home, "other").remember("dev", [TWO])

    assert SeenStates(seen.home, "shop").by_stack() == {"dev": {ONE, TWO}, "prod": {TWO}}
    assert seen.of("staging") == frozenset()
    assert len(files(seen)) == 4


def test_nothing_was_seen(seen: SeenStates) -> None:
    """A new home has no files, and gets none by being asked."""
    assert seen.by_stack() == {}
    assert not seen.home.exists()


def test_the_files_are_private(seen: SeenStates) -> None:
    """Who could write them could have foreign resources deleted."""
    seen.remember("dev", [ONE])

    assert [stat.S_IMODE(file.stat().st_mode) for file in files(seen)] == [0o600]
    assert stat.S_IMODE((seen.home / "state-ids").stat().st_mode) == 0o700


def test_a_file_that_others_may_write(seen: SeenStates) -> None:
    """S5: it is refused, with what to do, and nothing is taken for ours by it."""
    seen.remember("dev", [ONE])
    files(seen)[0].chmod(0o666)

    with pytest.raises(AccessError, match="can be written to by every user") as caught:
        seen.by_stack()
    assert "chmod" in caught.value.hint


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"id": "x", "project": "shop", "stack": "dev"}', '{"id": 1}']
)
def test_a_damaged_file(seen: SeenStates, text: str) -> None:
    """It is named, with what to do."""
    seen.remember("dev", [ONE])
    (file,) = files(seen)
    file.write_text(text)

    with pytest.raises(EngineError, match="is damaged") as caught:
        seen.by_stack()
    assert "Delete it" in caught.value.hint


def test_what_is_no_id(seen: SeenStates) -> None:
    """Nothing becomes part of a path that is not an id."""
    with pytest.raises(ValueError, match="is no state id"):
        seen.remember("dev", ["../../x"])
