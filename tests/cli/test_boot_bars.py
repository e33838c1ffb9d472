"""Where the time of a boot went, as the terminal shows it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tpuflex.cli.boot_bars import boot_bars
from tpuflex.host.report import PHASES, READY, HostReport

SERVED = {
    "config": 1000.0,
    "capacity": 1000.2,
    "secrets": 1000.3,
    "image": 1001.3,
    "weights": 1021.3,
    "container": 1061.3,
    "health": 1062.0,
    "completion": 1150.4,
    "READY": 1152.0,
}


def test_a_boot_that_serves() -> None:
    """Each phase has its seconds and a bar in proportion; together they are what the boot cost."""
    assert boot_bars(HostReport(READY, timeline=SERVED), 9999.0, plain=True) == (
        "config         0.2 s\n"
        "capacity       0.1 s\n"
        "secrets        1.0 s\n"
        "image         20.0 s  #######\n"
        "weights       40.0 s  ##############\n"
        "container      0.7 s\n"
        "health        88.4 s  ################################\n"
        "completion     1.6 s  #\n"
        "together     152.0 s"
    )


AT_ONCE = {**SERVED, "weights": 1001.3, "container": 1041.3, "health": 1042.0}
AT_ONCE |= {"completion": 1130.4, "READY": 1132.0}


def test_image_and_weights_at_once() -> None:
    """Each has the seconds and the bar that it took, and what went on beside it; what went on at
    once is counted once."""
    ended = {"image": 1021.3, "weights": 1041.3}
    assert boot_bars(HostReport(READY, timeline=AT_ONCE, ended=ended), 9999.0, plain=True) == (
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
    st.none() | st.dictionaries(st.sampled_from(PHASES), st.floats(-(10.0**11), 10.0**11)),
)
def test_whatever_a_host_writes(
    timeline: dict[str, float],
    error: str,
    now: float,
    plain: bool,
    ended: dict[str, float] | None,
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
