"""What the watch writes to Cloud Monitoring, which refuses here what Google does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from series import PREFIX, SERIES
from watch_metrics import Monitoring
from watch_state import Container, Limits, Look, Server

from embedded_cloud.core.clock import ManualClock, rfc3339
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api

METRICS = Path("tests/measure/recorded/after.txt").read_text()
PLACE = {"project_id": PROJECT, "location": "us-east5-a", "namespace": "dev", "node_id": "n-g1"}


@dataclass
class Rig:
    """A host's Cloud Monitoring, with what the host has logged of it."""

    api: Api
    clock: ManualClock
    token: Callable[[], str]
    started: float
    logged: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writes_to(self.api.url)

    def writes_to(self, url: str, every_s: float = 60) -> None:
        """Let the host write to the API at ``url``, so often."""
        series = f"{url}/v3/projects/{PROJECT}/timeSeries"
        self.monitoring = Monitoring(
            series, PLACE, every_s, self.token, lambda text, _: self.logged.append(text)
        )

    def look(
        self,
        seconds: float = 60,
        *,
        answers: bool = True,
        metrics: str = METRICS,
        ahead: float = 0.0,
    ) -> None:
        """Look at the host after so many seconds."""
        self.clock.advance(seconds)
        now = self.clock.now()
        container = Container("running", started=rfc3339(self.started))
        server = Server(in_flight=2) if answers else None
        found = Look(now, "", container, server, ahead=ahead)
        limits = Limits(600, 1800, ends_at=self.started + 7200)
        self.monitoring.write(found, limits, metrics)

    def points(self, name: str) -> list[tuple[str, Any]]:
        """Start and value of every point of a series, the newest first."""
        query = {
            "filter": f'metric.type="{PREFIX}{name}" AND resource.labels.node_id="n-g1"',
            "interval.startTime": rfc3339(self.started),
            "interval.endTime": rfc3339(self.clock.now()),
        }
        found = self.api.call("GET", f"v3/projects/{PROJECT}/timeSeries", **query)
        assert found.ok, found.text
        (series,) = found.json()["timeSeries"]
        return [
            (point["interval"]["startTime"], next(iter(point["value"].values())))
            for point in series["points"]
        ]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A host whose server was started an hour ago."""
    clock = ManualClock()
    with EmbeddedCloud(tmp_path, token=TOKEN, clock=clock) as cloud:
        token = partial(cloud.cloud.access.host_token, "n-g1")
        yield Rig(Api(cloud.url), clock, token, clock.now() - 3600)


def test_every_series_is_taken_once_a_minute(rig: Rig) -> None:
    """A look in between writes nothing, and one that comes late delays no other; counters say since
    when the server's process runs."""
    for _ in range(27):
        rig.look(7)

    assert rig.logged == []
    for each in SERIES:
        assert len(rig.points(each.name)) == 4
    assert rig.points("generation_tokens") == [(rfc3339(rig.started), "1108")] * 4
    left = [int(value) for _, value in rig.points("run_seconds_left")]
    assert left == [3600 - 189, 3600 - 133, 3600 - 70, 3600 - 7]


def test_a_server_that_is_down_is_written_as_down(rig: Rig) -> None:
    """``up`` goes on, and counters do not; a new process counts from its own start."""
    rig.look()
    rig.look(answers=False)
    rig.started = rig.clock.now() + 10
    rig.look(metrics='vllm:generation_tokens_total{engine="0"} 3.0')
    rig.started -= 3600

    assert rig.logged == []
    assert [up for _, up in rig.points("up")] == ["1", "0", "1"]
    tokens = [int(value) for _, value in rig.points("generation_tokens")]
    assert tokens == [3, 1108]


def test_counters_keep_their_start_over_a_restart_of_the_watch(rig: Rig) -> None:
    """The same process counts on, whatever the next watch takes the cloud's clock to be."""
    rig.look(ahead=0.4)
    rig.writes_to(rig.api.url)
    rig.look(ahead=-0.3)

    assert rig.logged == []
    assert rig.points("generation_tokens") == [(rfc3339(rig.started), "1108")] * 2


def test_a_refusal_is_logged_once_and_waited_for(rig: Rig) -> None:
    """What Google says is in the log, once; the host asks less and less often, and writes again
    when it may."""
    rig.api.call("POST", "_emulator/strictness", body={"iam": {"enforced": True}})
    for _ in range(20):
        rig.look()

    (line,) = rig.logged
    assert line.startswith("Cloud Monitoring answers 403: Permission monitoring.timeSeries.create")
    calls = rig.api.call("GET", "_emulator/history").json()["calls"]
    asked = [each for each in calls if each["method_id"].endswith("timeSeries.create")]
    assert len(asked) == 4  # after 0, 2, 6 and 14 minutes
    rig.api.call("POST", "_emulator/strictness", body={"iam": {"enforced": False}})
    for _ in range(17):
        rig.look()
    assert rig.points("up")
    assert len(rig.logged) == 1


def test_nobody_there_ends_nothing(rig: Rig) -> None:
    """A Google that does not answer is logged like one that refuses."""
    rig.writes_to("http://127.0.0.1:9")
    rig.look()
    assert rig.logged == [
        "Cloud Monitoring does not answer; not all metrics of this host are there"
    ]


def test_without_the_setting_nothing_is_written(rig: Rig) -> None:
    """Zero seconds are no pace."""
    rig.writes_to(rig.api.url, every_s=0)
    rig.look()
    calls = rig.api.call("GET", "_emulator/history").json()["calls"]
    assert not any("timeSeries" in str(each["method_id"]) for each in calls)
