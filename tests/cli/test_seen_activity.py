"""What this home remembers of a server's counters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tpuflex.cli.seen_activity import SeenActivity
from tpuflex.operate.activity import Counters, Observation

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
LOOK = Observation(NOON, Counters(1.0, 6.0, 100.0))


def test_the_first_look_with_the_same_counters_is_kept(tmp_path: Path) -> None:
    """A later look at an idle server does not make it idle for less long."""
    seen = SeenActivity(tmp_path, "shop")

    seen.remember("dev", LOOK)
    seen.remember("dev", replace(LOOK, at=NOON + timedelta(hours=1)))

    assert seen.of("dev") == (LOOK,)
    assert seen.of("qa") == ()


def test_other_counters_replace_it(tmp_path: Path) -> None:
    """What a server had counted before it was asked again is of no use."""
    seen, later = SeenActivity(tmp_path, "shop"), replace(LOOK, counters=Counters(1.0, 7.0, 120.0))

    seen.remember("dev", LOOK)
    seen.remember("dev", later)

    assert seen.of("dev") == (later,)


def test_a_busy_server_is_forgotten(tmp_path: Path) -> None:
    """A request that was in flight and failed may leave the counters as they were."""
    seen = SeenActivity(tmp_path, "shop")

    seen.remember("dev", LOOK)
    seen.remember("dev", replace(LOOK, in_flight=1.0))

    assert seen.of("dev") == ()


def test_what_is_damaged_or_writable_by_others_tells_nothing(tmp_path: Path) -> None:
    """It decides what is destroyed, so only this user's own word counts."""
    seen = SeenActivity(tmp_path, "shop")
    seen.remember("dev", LOOK)
    (file,) = (tmp_path / "activity").glob("*.json")

    file.chmod(0o666)
    assert seen.of("dev") == ()
    file.chmod(0o600)
    assert seen.of("dev") == (LOOK,)
    file.write_text('{"at": 7}')
    assert seen.of("dev") == ()
