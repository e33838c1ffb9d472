"""The wait for READY: odd answers, silence, failure, and a slice that ends meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.errors import (
    AccessError,
    ApiError,
    BootError,
    CapacityError,
    FailedBootError,
    NotFoundError,
    TpuflexError,
)
from tpuflex.host.boot_wait import BootDeadlines, BootWait
from tpuflex.host.report import HostReport
from tpuflex.host.serving import Serving, ServingPhase

Seen = HostReport | TpuflexError | None
READY = HostReport("READY")
ODD = [
    ApiError("400 INVALID_ARGUMENT: bad request", status=400),
    AccessError("403 PERMISSION_DENIED: denied"),
    ApiError("500 INTERNAL: oops", status=500),
    ApiError("503 UNAVAILABLE: down", status=503),
    ApiError("no answer (ConnectionError)"),
]


class Waiting:
    """A clock that only moves when somebody sleeps, and answers that come one per look, the last
    one for ever."""

    def __init__(self, *answers: Seen, slices: tuple[TpuflexError | None, ...] = (None,)) -> None:
        self._answers: Iterator[Seen] = iter(answers)
        self._slices = iter(slices)
        self._last: Seen = None
        self._slice: TpuflexError | None = None
        self.time = 0.0
        self.shown: list[str] = []
        self.refused: list[str] = []

    def observe(self) -> HostReport | None:
        self._last = next(self._answers, self._last)
        if isinstance(self._last, TpuflexError):
            raise self._last
        return self._last

    def look(self) -> None:
        self._slice = next(self._slices, self._slice)
        if self._slice is not None:
            raise self._slice

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def wait(self, first_report: float = 600, ready: float = 3600) -> HostReport:
        return BootWait(
            self.observe,
            self.look,
            BootDeadlines(first_report, ready, poll=10.0),
            now=lambda: self.time,
            sleep=self.sleep,
            changed=lambda report: self.shown.append(f"{report.phase} {report.detail}".strip()),
            refused=self.refused.append,
            log="/log",
        ).run()


def test_each_change_is_shown_once() -> None:
    """Each new phase or detail is shown once, and the wait ends with READY."""
    waiting = Waiting(
        None,
        HostReport("config"),
        HostReport("config"),
        HostReport("weights", "1 of 2 GB"),
        HostReport("weights", "2 of 2 GB"),
        READY,
    )

    assert waiting.wait().ready
    assert waiting.shown == ["config", "weights 1 of 2 GB", "weights 2 of 2 GB", "READY"]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("before", [None, HostReport("weights")])
def test_one_odd_answer_ends_nothing(odd: TpuflexError, before: HostReport | None) -> None:
    """A 400, 403, 404 or 5xx of getGuestAttributes is passed over and said once; the chips
    run, and are billed, all the same."""
    waiting = Waiting(before, odd, odd, None, odd, READY)

    assert waiting.wait().ready
    assert waiting.refused == [odd.message, odd.message]


def test_a_boot_that_failed_ends_the_wait() -> None:
    """With the phase, the host's text and where the log is; waiting longer would not help."""
    waiting = Waiting(HostReport("weights", error="checksum: model.safetensors differs"))

    with pytest.raises(FailedBootError) as caught:
        waiting.wait()

    assert caught.value.message == (
        "The host failed in phase weights: checksum: model.safetensors differs"
    )
    assert caught.value.exit_code == 7
    assert str(caught.value.hint).startswith("The host's log: /log\n")
    assert caught.value.section == "troubleshooting#codes-of-a-host"


def test_a_host_that_never_reports_costs_ten_minutes() -> None:
    """Not an hour; the error names what keeps a host silent, what to do, and that the chips
    are billed meanwhile."""
    waiting = Waiting(None)

    with pytest.raises(FailedBootError) as caught:
        waiting.wait()

    assert waiting.time == 600
    assert str(caught.value) == (
        "The host has reported nothing for 10m.\n"
        "The host's log: /log\n"
        "Until it says something it is billed all the same. What keeps a host silent:\n"
        "  - the organization policy compute.disableGuestAttributesAccess (`tpuflex doctor` reads"
        " it):\n"
        "    have it lifted for the project, then `tpuflex up`\n"
        "  - Secure Boot, which lets nothing unsigned boot: remove tpuflex:slice.secure_boot\n"
        "  - the startup script is missing, changed by somebody, or stuck, or the host has no way"
        " to\n"
        "    Google's APIs (firewall rules and routes that are not ours)\n"
        "`tpuflex up` waits again, `tpuflex down` ends it."
    )


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("before", [None, HostReport("weights")])
def test_what_is_refused_for_good_is_no_failed_boot(
    odd: TpuflexError, before: HostReport | None
) -> None:
    """Refused for as long as a first report may take, the wait ends, and says so; but the host
    may be well, so that nothing is deleted for it."""
    waiting = Waiting(before, odd)

    with pytest.raises(TpuflexError, match=r"could not be read for 10m: ") as caught:
        waiting.wait()

    assert not isinstance(caught.value, BootError)
    assert isinstance(caught.value, AccessError) is isinstance(odd, AccessError)
    assert waiting.time == 600
    assert odd.message in caught.value.message
    assert ("compute.disableGuestAttributesAccess" in str(caught.value.hint)) is (before is None)


def test_a_slow_host_is_named_with_its_phase() -> None:
    """It may be READY a minute later: it is no failure."""
    waiting = Waiting(HostReport("health", "vLLM is loading"))

    with pytest.raises(BootError) as caught:
        waiting.wait()

    assert caught.value.message == ("The host is still in phase health (vLLM is loading) after 1h.")
    assert not isinstance(caught.value, FailedBootError)
    assert waiting.time == 3600


@pytest.mark.parametrize("first", [None, HostReport("weights")])
def test_a_slice_that_is_taken_back_ends_the_wait(first: HostReport | None) -> None:
    """Reports of a host that is gone never change; the slice is looked at every minute."""
    waiting = Waiting(first, slices=(None, CapacityError("it is WAITING_FOR_RESOURCES")))

    with pytest.raises(CapacityError, match="WAITING_FOR_RESOURCES"):
        waiting.wait()

    assert waiting.time == 120


def serving(phase: ServingPhase) -> HostReport:
    """A host that was READY, and says ``phase`` now."""
    return HostReport("READY", serving=Serving(phase, reason="no token for 60 s"))


def test_a_server_that_is_started_again_is_waited_for() -> None:
    """One that is degraded, or whose drain has just been called off, serves again by itself."""
    for phase in (ServingPhase.DEGRADED, ServingPhase.DRAINING):
        waiting = Waiting(serving(phase), serving(phase), serving(ServingPhase.SERVING))

        assert waiting.wait() == serving(ServingPhase.SERVING)


def test_a_server_that_has_failed_ends_the_wait() -> None:
    """Nothing starts it again: the host's reason is the error."""
    server = "The host's server has failed: no token for 60 s"
    with pytest.raises(FailedBootError, match=server) as caught:
        Waiting(serving(ServingPhase.FAILED)).wait()
    assert caught.value.section == "troubleshooting#another-host"


def test_a_host_that_goes_on_draining_ends_the_wait() -> None:
    """Its run ends: nobody will call that off."""
    waiting = Waiting(serving(ServingPhase.DRAINING))

    with pytest.raises(BootError, match="takes no new requests any more"):
        waiting.wait()
    assert waiting.time < 60


def test_one_odd_answer_about_the_slice_ends_nothing_either() -> None:
    """A refusal is passed over, and so is one "not found"; the second in a row is the end."""
    gone = NotFoundError("no queued resource")
    waiting = Waiting(HostReport("weights"), slices=(gone, ODD[1], None, gone, None, gone, gone))

    with pytest.raises(NotFoundError, match="no queued resource"):
        waiting.wait()

    assert waiting.time == 7 * 60


@given(st.lists(st.sampled_from([None, HostReport("weights"), *ODD]), max_size=50))
def test_whatever_comes_there_is_an_end(answers: list[Seen]) -> None:
    """Within the time for READY, and never before the time for a first report."""
    waiting = Waiting(*answers)

    with pytest.raises((BootError, AccessError, ApiError)):
        waiting.wait()

    assert 600 <= waiting.time <= 3600
