"""Time that runs faster: the embedded cloud's clock, and clients that keep pace with it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import requests

from embedded_cloud.cloud import Cloud
from embedded_cloud.core.clock import ManualClock, OffsetClock
from embedded_cloud.server import EmbeddedCloud
from reliability.control import Control
from tests.embedded_cloud.api import TOKEN, Api, eventually
from tpuflex.errors import EmulatorError
from tpuflex.google.timing import Timing, boottime_seconds

EMBEDDED = {"TPUFLEX_EMULATOR": "http://127.0.0.1:1"}


def test_a_clock_runs_at_its_speed_and_never_jumps() -> None:
    """A change of speed holds from then on; what has passed stays passed."""
    base = ManualClock(1000.0)
    clock = OffsetClock(base, 5.0)
    clock.run_at(60)
    assert clock.now() == 1005
    base.advance(10)
    assert clock.now() == 1605
    clock.run_at(1)
    base.advance(10)
    assert clock.now() == 1615
    clock.advance(3600)
    assert (clock.now(), clock.offset, clock.speed) == (5215, 4195, 1)


def test_a_clock_goes_on_where_it_was() -> None:
    """Made with the settings of another one over the same base, it shows the same."""
    base = ManualClock(1000.0)
    clock = OffsetClock(base)
    clock.run_at(3600)
    base.advance(2)
    settings = clock.settings()
    again = OffsetClock(base, settings["offset"], since=settings["since"], speed=settings["speed"])
    base.advance(1)

    assert again.now() == clock.now() == 1000 + 3 * 3600


def test_a_clock_does_not_run_slower_than_time() -> None:
    """A speed below 1 is refused."""
    with pytest.raises(ValueError, match="cannot run at"):
        OffsetClock(ManualClock()).run_at(0.5)


def test_hours_in_the_queue_pass_in_a_moment(tmp_path: Path) -> None:
    """Queue wait, provisioning and the run itself follow the speed; so does a restarted cloud."""
    state = tmp_path / "emulator"
    capacity = {"grant_after_s": 7200, "provisioning_s": 600}
    with EmbeddedCloud(state, token=TOKEN, capacity=dict(capacity)) as cloud:
        control, api = Control(cloud.url, cloud.token), Api(cloud.url)
        assert control.call("GET", "clock")["speed"] == 1
        api.create()
        control.speed(36_000)
        eventually(lambda: api.state() == "ACTIVE")
        reached = cloud.clock.now()
    after = Cloud(state, launch_hosts=False)
    assert after.clock.now() >= reached
    after.close()


def test_a_clock_that_stands_still_cannot_be_sped_up(tmp_path: Path) -> None:
    """A test that moves the clock by hand does not also let it run."""
    with EmbeddedCloud(tmp_path / "emulator", clock=ManualClock()) as cloud:
        url = f"{cloud.url}/_emulator/clock"
        for body in ({"speed": 2}, {"speed": 0.5}, {"speed": "2"}, {}, {"advnce": 1}):
            headers = {"Authorization": f"Bearer {cloud.token}"}
            answer = requests.post(url, json=body, headers=headers, timeout=60)
            assert answer.status_code == 400, body


def test_without_a_pace_the_machines_clocks_count() -> None:
    """The variables mean nothing unless the embedded cloud is meant."""
    for environ in ({}, EMBEDDED, {"TPUFLEX_TIME_SPEED": "60"}):
        timing = Timing.of_environment(environ, threading.Event())
        assert timing.speed == 1
        before = boottime_seconds()
        assert before <= timing.monotonic() <= boottime_seconds()
        assert timing.patience(30) == 30


def test_a_client_keeps_pace_with_the_cloud() -> None:
    """Pauses, deadlines and dates run at the cloud's speed; sockets keep some real patience."""
    origin = time.time()
    environ = {
        **EMBEDDED,
        "TPUFLEX_TIME_SPEED": "3600",
        "TPUFLEX_TIME_ORIGIN": f"{origin}:5000",
    }
    timing = Timing.of_environment(environ, threading.Event())
    began, before = boottime_seconds(), timing.monotonic()

    assert timing.pause(180) is False

    paused, wall = timing.monotonic() - before, timing.wall()
    assert 180 <= paused <= 3600 * (boottime_seconds() - began) + 1
    assert boottime_seconds() - began < 60
    assert 5180 <= wall <= 5000 + 3600 * (time.time() - origin) + 1
    assert timing.patience(30) == 2


def test_a_pause_at_any_pace_ends_when_all_waiting_must_stop() -> None:
    """The stop event cuts it short."""
    stop = threading.Event()
    stop.set()
    environ = {**EMBEDDED, "TPUFLEX_TIME_SPEED": "2"}

    assert Timing.of_environment(environ, stop).pause(3600) is True


@pytest.mark.parametrize(
    "pace",
    [
        {"TPUFLEX_TIME_SPEED": "fast"},
        {"TPUFLEX_TIME_SPEED": "0.5"},
        {"TPUFLEX_TIME_SPEED": "2", "TPUFLEX_TIME_ORIGIN": "then:now"},
    ],
)
def test_a_pace_that_cannot_be_read_is_refused(pace: dict[str, str]) -> None:
    """A typo in a test's environment does not quietly mean real time."""
    with pytest.raises(EmulatorError, match="TPUFLEX_TIME_"):
        Timing.of_environment({**EMBEDDED, **pace}, threading.Event())
