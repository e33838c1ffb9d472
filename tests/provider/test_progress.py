"""How a wait is reported, and how long it sleeps between two polls."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest

from tests.provider.fakes import FakeTime, args, missing, queued, scripted
from tests.provider.zones import A, B, Zone, race
from tpuflex.google.timing import Timing
from tpuflex.provider.call import HEARTBEAT, Call, Deadlines, UnreadyError, pause_for
from tpuflex.provider.waits import Waits
from tpuflex.provider.watch import Watch
from tpuflex.provider.zone_attempts import RaceProgress, ZoneAttempts
from tpuflex.queued_resource.model import QueuedResource
from tpuflex.queued_resource.snapshot import Snapshot

HOUR = 3600.0
LIMITS = Deadlines(queue=24 * HOUR, provisioning=HOUR, deletion=HOUR)


@dataclass
class Told:
    """Every text, and whether the next one may replace it."""

    texts: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, text: str, *, passing: bool = False, warning: bool = False) -> None:
        assert not warning
        self.texts.append((text, passing))

    def take(self) -> list[tuple[str, bool]]:
        """The lines since the last time."""
        texts, self.texts = self.texts, []
        return texts


@dataclass
class Wait:
    """The wait in some zones, in each of which a request is in the queue already."""

    zones: tuple[str, ...] = (A,)
    limits: Deadlines = LIMITS
    jitter: float = 0.5
    waits: Waits = field(default_factory=Waits)
    time: FakeTime = field(default_factory=FakeTime)
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        self.attempts = ZoneAttempts(self._call(), args(zones=list(self.zones)), self.limits)
        for attempt in self.attempts.attempts:
            attempt.watch = Watch(self.attempts.call, attempt.name)
        self.see(*["WAITING_FOR_RESOURCES"] * len(self.zones))
        self.progress = RaceProgress(self.attempts.call, self.attempts)

    def _call(self) -> Call:
        call, _, _ = scripted(lambda _: missing(), self.time)
        clock = self.time
        timing = Timing(lambda: clock.now, lambda: clock.now, clock.pause, lambda: self.jitter)
        return replace(call, timing=timing, report=self.told, waits=self.waits)

    def watches(self) -> list[Watch]:
        return [attempt.watch for attempt in self.attempts.attempts if attempt.watch is not None]

    def see(self, *states: str) -> None:
        """The next look finds the zones' requests in ``states``."""
        for watch, state in zip(self.watches(), states, strict=True):
            found = QueuedResource.model_validate(queued(state))
            watch.seen = Snapshot(watch.name, found)
            watch.listed = True

    def after(self, seconds: float) -> list[tuple[str, bool]]:
        """The lines after ``seconds`` more."""
        self.time.now += seconds
        self.progress.report()
        return self.told.take()


def test_the_first_look_is_told_without_a_time_and_stays() -> None:
    """Nothing was reported before, so no time is given."""
    wait = Wait()

    ((text, passing),) = wait.after(5)

    assert text == wait.attempts.lines()[0]
    assert not passing
    assert "(after" not in text


def test_a_change_is_told_at_once_with_the_age_of_the_wait() -> None:
    """A change does not wait for the next sign of life, and says how long it took."""
    wait = Wait()
    wait.after(0)
    wait.see("PROVISIONING")

    ((text, passing),) = wait.after(30)

    assert text == f"{wait.attempts.lines()[0]} (after 30s)"
    assert not passing


def test_of_several_zones_only_the_one_that_changed_is_told() -> None:
    """An unchanged line is not repeated, and every new line is written."""
    wait = Wait((A, B))
    assert [text[: len(A)] for text, _ in wait.after(0)] == [A, B]

    wait.see("WAITING_FOR_RESOURCES", "PROVISIONING")
    ((text, _),) = wait.after(10)

    assert text.startswith(f"{B}: PROVISIONING")
    wait.see("PROVISIONING", "ACTIVE")
    assert [text[: len(A)] for text, _ in wait.after(10)] == [A, B]


def test_what_stays_is_said_again_a_minute_after_the_last_line() -> None:
    """A sign of life comes 60 s after the last line, no sooner, and may be replaced."""
    wait = Wait()
    wait.after(0)

    assert wait.after(59.9) == []
    ((text, passing),) = wait.after(0.1)
    assert text == f"{wait.attempts.describe()} (1m so far, 23h59m left)"
    assert passing
    assert wait.after(59.9) == []
    wait.see("PROVISIONING")
    for watch in wait.watches():
        watch.granted = wait.time.now
    assert len(wait.after(0)) == 1
    assert wait.after(59.9) == []
    assert wait.after(0.1) == [(f"{wait.attempts.describe()} (3m so far, 59m left)", True)]


@pytest.mark.parametrize(
    ("silences", "note"),
    [((None,), ""), ((59.0,), ""), ((60.0,), ", no answer for 1m"),
     ((150.0, 90.0), ", no answer for 2m30s"), ((None, 90.0), ", no answer for 1m30s")],
)  # fmt: skip
def test_a_sign_of_life_says_since_when_google_is_silent(
    silences: tuple[float | None, ...], note: str
) -> None:
    """A silence of a minute or more is reported, the longest of all zones."""
    wait = Wait((A, B)[: len(silences)])
    wait.after(0)
    for watch, silence in zip(wait.watches(), silences, strict=True):
        watch.unanswered_since = None if silence is None else wait.time.now + 200 - silence

    told = wait.after(200)

    assert told == [(f"{wait.attempts.describe()} (3m20s so far, 23h56m left{note})", True)]


def test_a_sign_of_life_needs_no_deadline() -> None:
    """While a leftover is cleared no deadline applies, so no remaining time is given."""
    wait = Wait()
    wait.attempts.drop(wait.attempts.attempts[0])
    assert wait.after(0) == []

    assert wait.after(60) == [(f"{A} being cleared (1m so far)", True)]


def test_a_leftover_that_takes_minutes_to_go_is_waited_for() -> None:
    """An earlier run's request that is being deleted slowly does not end `up`."""
    run = race(stop_at=1300, a=Zone({0.0: "DELETING"}, there=True))

    with pytest.raises(UnreadyError, match="stopped waiting"):
        run.go()

    assert run.time.now == 1300
    assert f"{A} being cleared (1m so far)" in run.said.text


def test_a_pause_ends_with_the_sign_of_life() -> None:
    """An old wait polls every 30 s, but speaks on time."""
    wait = Wait()
    wait.after(HOUR)
    wait.time.now += 45

    assert wait.progress.pause() == pytest.approx(HEARTBEAT - 45)


def test_a_pause_ends_with_the_deadline() -> None:
    """A deadline is acted upon when it is over; one that is over already hurries nothing."""
    wait = Wait(limits=replace(LIMITS, queue=HOUR + 7))
    wait.after(HOUR)
    assert wait.progress.pause() == pytest.approx(7)

    wait = Wait(limits=replace(LIMITS, overall=HOUR + 0.5))
    wait.after(HOUR)
    assert wait.progress.pause() == pytest.approx(0.5)

    over = Wait(limits=replace(LIMITS, overall=HOUR))
    over.after(HOUR)
    assert over.progress.pause() == 30


def test_a_pause_ends_with_the_turn_of_a_zone() -> None:
    """In order: the next zone is asked when the turn is over, unless this one was granted."""
    wait = Wait((A, B))
    wait.after(HOUR)
    wait.attempts.attempts[1].share = wait.time.now + 4
    assert wait.progress.pause() == pytest.approx(4)

    watch = wait.attempts.attempts[1].watch
    assert watch is not None
    watch.granted = wait.time.now
    assert wait.progress.pause() == 30


def test_a_pause_ends_with_the_next_step_of_a_deletion() -> None:
    """A young deletion beside an old wait is looked at as often as it needs."""
    wait = Wait((A, B))
    wait.after(HOUR)
    wait.attempts.drop(wait.attempts.attempts[1], "lost")

    assert wait.progress.pause() == 0.5


def test_without_request_and_deletion_the_next_zone_is_asked_at_once() -> None:
    """A zone that has failed costs no pause; one that is being deleted, or waited for, does."""
    wait = Wait((A, B))
    wait.after(HOUR)
    for attempt in wait.attempts.attempts:
        attempt.watch = None
    assert wait.progress.pause() == 0

    wait.attempts.drop(wait.attempts.attempts[0])
    assert wait.progress.pause() == 0.5


@pytest.mark.parametrize(
    ("waits", "pause"), [(5, 0.5), (6, 0.6), (100, 10.0), (300, 30.0), (310, 31.0)]
)
def test_a_crowd_polls_ten_times_a_second_together(waits: int, pause: float) -> None:
    """From six on, each wait adds a tenth of a second to the pause, spread by a fifth."""
    assert pause_for(0, 0.5, waits) == pytest.approx(pause)
    assert pause_for(0, 0, waits) == pytest.approx(0.8 * pause)
    assert not math.isclose(pause_for(0, 0, waits), pause_for(0, 0.9, waits))
