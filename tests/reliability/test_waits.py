"""Figures 6 and 7, reduced to what fits into `make test`: hours for days, order for seconds."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import requests

from reliability.direct import DirectCloud
from reliability.figures import parallel, waiting, waiting_process
from reliability.figures.figure import Case, Result
from reliability.projects import SWIFT
from reliability.provider_process import ProviderProcess, Weight
from reliability.servicer_rig import ServicerRig
from reliability.token_server import TokenServer, session, write_credentials
from tpuflex import gcp, provider

SEED = 1
HOURS = 1.5
#: Its token must expire while the token server is away for an hour, and a while after that.
LONGER = {"a token expires, the token server is away for an hour": 3.0}


@pytest.fixture(scope="module")
def servicer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServicerRig]:
    with ServicerRig(tmp_path_factory.mktemp("waits") / "emulator") as made:
        yield made


@pytest.mark.parametrize("kind", list(waiting.KINDS))
def test_hours_in_the_queue(servicer: ServicerRig, kind: str) -> None:
    """Figure 6: gentle polls, signs of life, the end at the deadline, whatever happens."""
    case = waiting.case(kind, LONGER.get(kind, HOURS), SEED)
    assert waiting.judge(servicer, case).problems == []


def test_a_clock_that_stands_still_in_sleep_would_be_late(servicer: ServicerRig) -> None:
    """The figure can tell: with a clock that stops while the machine sleeps, it fails."""
    case = waiting.case("the machine sleeps for a seventh", HOURS, SEED)
    case.facts["unseen"] = True
    assert "slow" in [kind for kind, _ in waiting.judge(servicer, case).problems]


def test_the_code_that_waits_keeps_nothing(servicer: ServicerRig) -> None:
    """Of an hour of polls, next to nothing is left in what the provider has allocated."""
    sizes: list[int] = []
    ours = [Path(str(package.__file__)).parent for package in (provider, gcp)]
    filters = [tracemalloc.Filter(True, str(path / "*")) for path in ours]

    def weigh() -> None:
        found = tracemalloc.take_snapshot().filter_traces(filters)
        sizes.append(sum(line.size for line in found.statistics("filename")))

    servicer.reset(SEED)
    assert servicer.arguments is not None
    servicer.arguments["queueTimeout"] = "5400s"
    servicer.timeout = 0.0
    servicer.direct.capacity(never=True)
    for hour in (0.5, 1.4):
        servicer.direct.later(hour * 3600, weigh)
    tracemalloc.start()
    try:
        servicer.run("up")
    finally:
        tracemalloc.stop()

    assert len(sizes) == 2
    assert abs(sizes[1] - sizes[0]) < 20_000


def test_growth_is_told() -> None:
    """Figure 6p fails for a process that grows, opens files, or starts threads."""
    for later in (Weight(56_000_000, 9, 9), Weight(50_000_000, 20, 9), Weight(50_000_000, 9, 20)):
        result = Result("a")
        waiting_process._judge_growth(result, [Weight(50_000_000, 9, 9), later])
        assert [kind for kind, _ in result.problems] == ["grown"], later


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[tuple[DirectCloud, TokenServer, Any]]:
    """A cloud, its token server, and the provider's session with both."""
    direct = DirectCloud(tmp_path / "emulator", SWIFT)
    server = TokenServer(direct.clock.now, 3600.0)
    sleeper = SimpleNamespace(sleep=direct.clock.advance)
    with server.serving() as address:
        write_credentials(tmp_path / "key.json", address)
        with (
            patch.dict(os.environ, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "key.json")),
            patch("google.auth._exponential_backoff.time", sleeper),
        ):
            yield direct, server, session(direct, server)
    direct.close()


def test_a_token_server_that_is_away_refuses_nobody(
    tokens: tuple[DirectCloud, TokenServer, Any],
) -> None:
    """Its 503 says nothing about our credentials: it is as passing as a lost connection."""
    _, server, made = tokens
    server.down = True
    with pytest.raises(requests.ConnectionError, match="token server"):
        made.refresh_token()
    server.down = False
    made.refresh_token()
    assert len(server.issued) == 1


def test_others_do_not_wait_for_those_that_wait(tmp_path: Path) -> None:
    """Figure 7 by its order: 32 creates hold the real process, and one more is made and
    deleted before any of them ends."""
    with ProviderProcess(tmp_path) as rig:
        case = parallel.case(32, "at once with them", 1)
        result = parallel.judge(rig, Case(case.name, {**case.facts}))
    assert [problem for problem in result.problems if problem[0] not in ("late", "slow")] == []
    assert result.values["threads"] > 32
