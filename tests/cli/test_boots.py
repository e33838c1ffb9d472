"""`tpuflex logs --boots`, and where the time of a boot went, in bars."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.boot_logs import WrittenBoot
from tests.cli.typing import NOON, Captured
from tpuflex.cli.endpoint.logs import run_boots
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import NotFoundError
from tpuflex.google.cloud_logging import BootEntry
from tpuflex.host.report import PHASES, READY, HostReport
from tpuflex.operate.boots import Outcome, recent_boots
from tpuflex.stack.connection import Connection
from tpuflex.terminal.boot_bars import boot_bars

TIME = "2026-11-21T10:00:00Z"


@pytest.fixture
def boots(cloud: Connection) -> None:
    """Three boots that served, one that failed, one that was lost; and another endpoint's."""
    for generation, image in ((1, 10), (2, 30), (3, 20)):
        boot = WrittenBoot(cloud, NOON + timedelta(hours=generation), generation)
        boot.write("config", 0)
        boot.write("image", 1)
        boot.ended = {"image": boot.timeline["image"] + image}
        boot.write("health", 1 + image)
        boot.write("READY", 61 + image)
    lost = WrittenBoot(cloud, NOON + timedelta(hours=4), 4)
    lost.write("config", 0)
    lost.write("image", 2)
    failed = WrittenBoot(cloud, NOON + timedelta(hours=5), 4, worker=1)
    failed.write("config", 0)
    failed.write("image", 2)
    failed.timeline["start\x1b"] = -(10.0**11)
    failed.write("image", 9.5, error="registry: no\x1b such image\nTraceback")
    WrittenBoot(cloud, NOON, labels={"tpuflex-stack": "o"}).write("READY", 9)


@pytest.mark.usefixtures("boots")
def test_the_table(cloud: Connection, invocation: Invocation, capsys: Captured) -> None:
    """The newest first, each with its time beside the median of those that served, and the newest
    with its phases."""
    run_boots(invocation, cloud, 10)
    lines = capsys.readouterr().out.replace("█", "#").splitlines()
    assert lines == [
        "run  host    last word (UTC)      took    beside median  outcome",
        "g4   n-g4 1  2026-11-21 17:00:09  9.5 s                  "
        "failed, in image: registry: no\\x1b such image",
        "g4   n-g4 0  2026-11-21 16:00:02  2.0 s                  no end, in image",
        "g3   n-g3 0  2026-11-21 15:01:21  81.0 s  +0.0 s         READY",
        "g2   n-g2 0  2026-11-21 14:01:31  91.0 s  +10.0 s        READY",
        "g1   n-g1 0  2026-11-21 13:01:11  71.0 s  -10.0 s        READY",
        "",
        "Phases of n-g4, beside the median of 3",
        "  config         2.0 s       1.0 s  #########",
        "  image          7.5 s      20.0 s  ################################",
        "  together       9.5 s      81.0 s",
    ]


@pytest.mark.usefixtures("boots")
def test_the_last_ones(cloud: Connection, invocation: Invocation, capsys: Captured) -> None:
    """As many as were asked for; where none of them served there is no median."""
    run_boots(invocation, cloud, 2)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:9] for line in lines[1:3]] == ["g4   n-g4", "g4   n-g4"]
    assert lines[4] == "Phases of n-g4"
    assert [line.split()[:3] for line in lines[5:]] == [
        ["config", "2.0", "s"],
        ["image", "7.5", "s"],
        ["together", "9.5", "s"],
    ]


@pytest.mark.usefixtures("boots")
def test_the_document(cloud: Connection, invocation: Invocation, capsys: Captured) -> None:
    """A script reads the seconds of every phase, outcome and reason, and the medians."""
    invocation.json = True
    run_boots(invocation, cloud, 3)
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "projects/tpuflex-dev/logs/tpuflex-boot"
    assert document["median_seconds"] == {"config": 1.0, "image": 20.0, "health": 60.0}
    assert document["median_total_seconds"] == 81.0
    assert [boot["outcome"] for boot in document["boots"]] == ["failed", "unfinished", "served"]
    assert document["boots"][0] == {
        "node": "n-g4",
        "zone": "us-east5-a",
        "generation": 4,
        "worker": 1,
        "time": "2026-11-21T17:00:09.500000000Z",
        "phase": "image",
        "outcome": "failed",
        "error": "registry: no\\x1b such image\n  | Traceback",
        "boot_seconds": {"config": 2.0, "image": 7.5},
        "total_seconds": 9.5,
    }


def test_no_boot(cloud: Connection, invocation: Invocation) -> None:
    """Exit code 4, with how long they are kept."""
    with pytest.raises(NotFoundError, match="has no boot of a host of stack dev") as caught:
        run_boots(invocation, cloud, 10)
    assert caught.value.exit_code == 4
    assert "30 days" in str(caught.value.hint)


def test_image_and_weights_at_once(
    cloud: Connection, invocation: Invocation, capsys: Captured
) -> None:
    """What went on at once is shown as that, and counted once."""
    boot = WrittenBoot(cloud)
    boot.write("config", 0)
    boot.timeline |= {"image": NOON.timestamp() + 1, "weights": NOON.timestamp() + 1}
    boot.ended = {"image": NOON.timestamp() + 21, "weights": NOON.timestamp() + 41}
    boot.write("container", 41)
    boot.write("READY", 61)
    run_boots(invocation, cloud, 10)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    lines = {words[0]: words for words in shown if words}
    assert lines["weights"][1] == "40.0"
    assert lines["weights"][-2:] == ["beside", "image"]
    assert lines["together"][1] == "61.0"
    assert "beside" not in lines["image"]


@pytest.mark.parametrize("order", [1, -1])
def test_the_last_entry_of_a_request_counts(order: int) -> None:
    """A request writes its entries with one time, and Cloud Logging gives those by their ids, also
    where the newest are asked for first: the end of the boot is not taken for its middle."""
    last = BootEntry("n", "z", TIME, "READY", "", (), id="n-7-010-001", boot="7")
    before = replace(last, phase="completion", id="n-7-010-000")
    older = replace(last, phase="config", time=TIME.replace("10:", "09:"), id="n-7-000-000")
    (boot,) = recent_boots([*[before, last][::order], older], 9)
    assert boot.outcome is Outcome.SERVED
    assert boot.phase == "READY"


SERVED = {
    "config": 1000.0,
    "capacity": 1000.2,
    "secrets": 1000.3,
    "image": 1001.3,
    "weights": 1001.3,
    "container": 1041.3,
    "health": 1042.0,
    "completion": 1130.4,
    "READY": 1132.0,
}


def test_a_boot_that_serves() -> None:
    """Each phase has its seconds and a bar in proportion, and what went on beside it; together they
    are what the boot cost, where what went on at once is counted once."""
    ended = {"image": 1021.3, "weights": 1041.3}
    assert boot_bars(HostReport(READY, timeline=SERVED, ended=ended), 9999.0, plain=True) == (
        "config         0.2 s\n"
        "capacity       0.1 s\n"
        "secrets        1.0 s\n"
        "image         20.0 s  #######\n"
        "weights       40.0 s  ############## beside image\n"
        "container      0.7 s\n"
        "health        88.4 s  ################################\n"
        "completion     1.6 s  #\n"
        "together     132.0 s"
    )


def test_an_image_that_is_still_pulled() -> None:
    """While the phase lasts, each is open until it ends."""
    timeline = {"config": 1000.0, "image": 1001.0, "weights": 1001.0}
    report = HostReport("fetch", timeline=timeline, ended={"weights": 1003.0})

    assert boot_bars(report, 1005.0, plain=True) == (
        "config         1.0 s  ########\n"
        "image          4.0 s  >>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>> so far\n"
        "weights        2.0 s  ################ beside image\n"
        "together       5.0 s"
    )


def test_a_boot_that_goes_on() -> None:
    """The phase that goes on is counted until now, and says so."""
    timeline = {"config": 1000.0, "image": 1001.0}

    assert boot_bars(HostReport("image", timeline=timeline), 1005.0, plain=False) == (
        "config         1.0 s  ████████\n"
        "image          4.0 s  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ so far\n"
        "together       5.0 s"
    )


def test_a_boot_that_failed() -> None:
    """When the phase ended in which it failed is not known, so it has no bar."""
    timeline = {"config": 1000.0, "image": 1001.0}
    report = HostReport("image", error="IMAGE: no such image", timeline=timeline)

    assert boot_bars(report, 5000.0, plain=True) == (
        "config         1.0 s  ################################\ntogether       1.0 s"
    )


def test_nothing_to_tell() -> None:
    """Before the second phase there is nothing to compare: nothing is shown."""
    reports = (None, HostReport(), HostReport("config", timeline={"config": 1.0}))

    assert [boot_bars(report, 2.0, plain=True) for report in reports] == ["", "", ""]


@given(
    st.dictionaries(
        st.sampled_from([*PHASES, "start", "\x1b[31m"]), st.floats(-(10.0**11), 10.0**11)
    ),
    st.sampled_from(["", "IMAGE: gone"]),
    st.floats(0, 10.0**10),
    st.booleans(),
    st.dictionaries(st.sampled_from(PHASES), st.floats(-(10.0**11), 10.0**11)),
)
def test_whatever_a_host_writes(
    timeline: dict[str, float], error: str, now: float, plain: bool, ended: dict[str, float]
) -> None:
    """Whatever times and names a host reports: known phases alone, no bar longer than the widest,
    no time below zero."""
    report = HostReport("image", error=error, timeline=timeline, ended=ended)
    text = boot_bars(report, now, plain=plain)

    for line in text.splitlines():
        found = re.fullmatch(
            r"(\w+) +(\d+\.\d) s(?:  (?:[#>█▒]{1,32} ?)?(?:so far ?)?(?:beside \w+)?)?", line
        )
        assert found is not None, line
        assert found[1] in {*PHASES, "together"}
        assert float(found[2]) >= 0
