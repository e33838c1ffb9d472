"""The yardstick is real: it works when nothing goes wrong, and shows what it is there to show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from reliability.figures.figure import Call, Outcome, Result
from reliability.figures.kills import CREATE, kill
from reliability.naive_rig import GIVEN, NaiveRig
from reliability.records import Setting, record
from reliability.report import markdown


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NaiveRig]:
    with NaiveRig(tmp_path_factory.mktemp("naive") / "project", speed=10) as made:
        yield made


@pytest.mark.engine
def test_it_works_when_nothing_goes_wrong(rig: NaiveRig) -> None:
    """Up, up again without any call that changes something, down: every invariant holds."""
    rig.reset()
    rig.name(given=True, poll_s=0.05)
    for command in ("up", "up", "down"):
        assert rig.run(command).exit_code == 0, rig.said[-1].stderr
        assert rig.check() == []
        assert names(rig) == ([] if command == "down" else [GIVEN])


@pytest.mark.engine
def test_a_kill_leaves_an_orphan(rig: NaiveRig) -> None:
    """The engine is killed after the commit of the create: all that Pulumi offers succeeds, and
    the queued resource is in the cloud without anybody knowing."""
    rig.reset()
    rig.name(given=False, poll_s=0.05)
    rig.run("up", rules=[kill("engine", "after-commit", Call(CREATE, 1))])
    assert rig.struck() == 1
    assert rig.await_engine(10)

    assert rig.run("recover").exit_code == 0, rig.said[-1].stderr

    assert [violation.invariant for violation in rig.check() if "queued" in violation.text] == [
        "I1"
    ]
    (orphan,) = names(rig)
    assert orphan.startswith("slice-")
    assert orphan != GIVEN


def names(rig: NaiveRig) -> list[str]:
    """The queued resources that the cloud has."""
    found = rig.control.inventory().get("tpu", {}).get("queuedResources", [])
    return [entry["name"].rpartition("/")[2] for entry in found]


def yardstick(*results: Result) -> Outcome:
    return Outcome("10", "yardstick", 9, list(results), 1.0, yardstick=True)


def test_a_yardstick_need_not_be_good() -> None:
    """It fails when nothing was injected, or when the rig did not do what it should."""
    orphan = Result("a", struck=1, problems=[("orphan", "I1: q")])
    assert yardstick(orphan).passed
    assert not yardstick(Result("a")).passed
    assert not yardstick().passed
    assert not yardstick(orphan, Result("b", struck=1, problems=[("rig", "R0")])).passed


def test_the_report_shows_both_side_by_side() -> None:
    """Orphans, duplicates and manual steps of ours and of the yardstick; without one, nothing."""
    ours = Outcome("1", "kills", 2, [Result("a", struck=1), Result("b", struck=1)], 1.0)
    twice = [("orphan", "I1: q"), ("orphan", "I5: q"), ("duplicate", "2 were made")]
    theirs = yardstick(Result("a", struck=1), Result("b", struck=1, problems=twice))
    setting = Setting(1, 60, 1, {}, "make reliability", "abc")
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    kept = {outcome.key: record(outcome, setting, now) for outcome in (ours, theirs)}
    text = markdown(kept, kept)
    assert "| tpuflex | 2/2 | 2 | 0 | 0 | 0 |" in text
    assert "| naive provider, names with a random end | 1/2 | 9 | 1 | 1 | 0 |" in text
    assert "has not been measured" in markdown({"10": kept["10"]}, ["10"])
    assert "beside" not in markdown({"1": kept["1"]}, ["1"])
