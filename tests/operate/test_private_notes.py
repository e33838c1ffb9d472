"""What a home keeps for itself about sets of weights."""

from __future__ import annotations

import datetime as dt
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tpuflex.operate.begun_removals import BegunRemovals
from tpuflex.operate.private_notes import PrivateNotes

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)
THEN = NOW - dt.timedelta(days=3)
LATER = THEN + dt.timedelta(seconds=1)
EARLIER = THEN - dt.timedelta(seconds=1)


def test_commands_side_by_side_lose_no_note(tmp_path: Path) -> None:
    """Each has the file for itself while it writes; nobody else may read it."""
    file = tmp_path / "notes.json"

    def write(command: int) -> None:
        notes = PrivateNotes(file)
        for number in range(40):
            notes.put("b", f"{command}/{number}", "kept")
            notes.put("b", f"{command}/gone", "not kept")
            notes.forget("b", f"{command}/gone")

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(4)))
    notes = PrivateNotes(file)

    assert all(notes.get("b", f"{one}/{two}") == "kept" for one in range(4) for two in range(40))
    assert [notes.get("b", f"{one}/gone") for one in range(4)] == [None] * 4
    assert notes.buckets("3/39") == ("b",)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def noted(home: Path, kind: str) -> BegunRemovals:
    """A home that has agreed to remove a set whose last object was written then, or begun to."""
    removals = BegunRemovals(home, NOW)
    removals.agree("b", "p", THEN)
    if kind == "begun":
        removals.begin("b", "p", THEN)
    return removals


@pytest.mark.parametrize(
    ("kind", "written", "agreed", "left"),
    [
        ("agreed", THEN, True, False),
        ("agreed", EARLIER, False, False),  # not by us: we had not begun
        ("agreed", LATER, False, False),
        ("begun", THEN, True, True),
        ("begun", EARLIER, True, True),
        ("begun", LATER, False, False),
        ("begun", None, False, False),
    ],
)
def test_what_was_to_go_is_told_by_its_time(
    tmp_path: Path, kind: str, written: dt.datetime | None, agreed: bool, left: bool
) -> None:
    """All that was there when the user agreed; once it was begun, what is left of that. Anything
    newer is somebody else's."""
    removals = noted(tmp_path, kind)
    assert (removals.agreed("b", "p", written), removals.left("b", "p", written)) == (agreed, left)
    assert not removals.agreed("b", "p/q", THEN)
    assert not removals.agreed("c", "p", THEN)
    assert removals.buckets("p") == {"b"}
    removals.end("b", "p")
    assert not removals.agreed("b", "p", THEN)
    assert removals.buckets("p") == frozenset()


@pytest.mark.parametrize(("hours", "valid"), [(23, True), (24, False)])
def test_consent_holds_for_a_day(tmp_path: Path, hours: int, valid: bool) -> None:
    """Whoever comes back later is asked as everybody is."""
    noted(tmp_path, "begun")
    removals = BegunRemovals(tmp_path, NOW + dt.timedelta(hours=hours))
    assert removals.agreed("b", "p", THEN) is valid
    assert removals.left("b", "p", THEN) is valid
    assert removals.buckets("p") == ({"b"} if valid else frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"b/p": 7}',
        '{"b/p": "yesterday"}',
        '{"b/p": "2026-11-23T12:00:00+00:00"}',  # as an earlier version wrote it
        '{"b/p": "begun 2026-11-23T12:00:00 2026-11-23T12:00:00+00:00"}',
        '{"b/p": "begun 2026-11-23T12:00:00+00:00 2026-11-23T12:00:00"}',
        '{"b/p": "ended 2026-11-23T12:00:00+00:00 2026-11-23T12:00:00+00:00"}',
    ],
)
def test_a_note_that_cannot_be_read_allows_nothing(tmp_path: Path, text: str) -> None:
    """Nor does one whose times have no zone."""
    (tmp_path / "begun-removals.json").write_text(text)
    removals = BegunRemovals(tmp_path, NOW)
    assert not removals.left("b", "p", THEN)
    assert not removals.agreed("b", "p", THEN)
