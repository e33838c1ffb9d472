"""What a slice and its server say to the alert rules, and how long `alerts` looks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain, repeat

import pytest

from tests.alerts.test_rules import settings as stack_settings
from tests.cli.samples import status
from tests.cli.typing import NOON
from tests.measure.fake_server import BEFORE
from tpuflex.alerts.judgement import Judge, Look, State
from tpuflex.alerts.rules import alert_rules
from tpuflex.alerts.signals import (
    BILLED_NODES,
    GENERATED,
    IN_FLIGHT,
    PHASE_SECONDS,
    RUN_SECONDS_LEFT,
    SLICES,
    SUCCESSORS,
    UP,
    WAITING,
    Signal,
)
from tpuflex.errors import AccessError, ApiError, ServerDownError, TpuflexError
from tpuflex.host.report import HostReport
from tpuflex.host.serving import Serving, ServingPhase
from tpuflex.measure.alerts import (
    LOOK_S,
    Alerts,
    is_down,
    look_of,
    quiet_server,
    settled,
    slice_numbers,
)
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.operate.slice import SliceStatus
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.model import StackSettings

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def settings() -> StackSettings:
    """A stack on Google, whose run lasts a week."""
    return stack_settings()


def booting(phase: str, minutes: float, error: str = "") -> SliceStatus:
    """A slice whose host has been in ``phase`` for so long."""
    began = (NOON - timedelta(minutes=minutes)).timestamp()
    return status(host=HostReport(phase, error=error, timeline={phase: began}))


LOST = {"lifecycle": Lifecycle.LOST, "state": "NOT_FOUND"}
QUEUED = {"lifecycle": Lifecycle.WAITING, "node_state": "", "active_since": None, "host": None}


@pytest.mark.parametrize(
    ("slice_", "firing"),
    [
        (status(expires=NOON + 7 * HOUR), ()),
        (status(expires=NOON + 5 * HOUR), ("RunEndsSoon",)),
        (status(expires=NOON + 5 * HOUR, others=("a successor",)), ()),
        (status(expires=NOON + 7 * HOUR, host=None), ("BootStuck",)),
        (booting("container", 5), ("RunEndsSoon",)),
        (booting("fetch", 29), ("RunEndsSoon",)),
        (booting("fetch", 31), ("BootStuck", "RunEndsSoon")),
        (booting("container", 1, error="docker: no"), ("BootStuck", "RunEndsSoon")),
        (status(**QUEUED), ()),
        (status(**LOST), ("SpendWithoutSlice",)),
        (status(**LOST, node_state=""), ()),
        (status(**LOST, node_state="", others_since=(NOON - HOUR,)), ("SpendWithoutSlice",)),
        (status(lifecycle=Lifecycle.DELETING, state="DELETING"), ()),
        (status(lifecycle=Lifecycle.ENDED, state="SUSPENDING"), ()),
        (
            status(expires=NOON + 7 * HOUR, active_since=NOON - 40 * 24 * HOUR),
            ("CostCapReached",),
        ),
    ],
)
def test_what_a_slice_shows_by_itself(
    settings: StackSettings, slice_: SliceStatus, firing: Iterable[str]
) -> None:
    """Its rules fire by one reading of it, and are quiet on each way that a slice goes; those about
    its server are not known where it was not asked."""
    look, _ = look_of(settings, slice_, NOON, None, NOON)
    found = Judge(alert_rules(settings)).look(look)

    assert {each.rule.name for each in found if each.state is State.FIRING} == set(firing)
    assert {each.rule.name for each in found if each.state is State.UNKNOWN} == {
        *("KvCacheFull", "RequestsWaiting", "FirstTokenSlow", "FirstTokenVerySlow"),
        *("NoTokens", "TargetDown"),
    }


@pytest.mark.parametrize(
    ("slice_", "code"),
    [
        (status(lifecycle=Lifecycle.ENDED, state="SUSPENDED", sentence="the run is over"), 7),
        (status(lifecycle=Lifecycle.FAILED, state="FAILED", node_state=""), 7),
        (status(lifecycle=Lifecycle.LOST, node_state=""), 7),
        # These wait or boot: nothing is wrong yet.
        (status(**QUEUED), 0),
        (status(lifecycle=Lifecycle.DELETING, state="DELETING"), 0),
        (status(host=None), 0),
    ],
)
def test_an_endpoint_that_is_over_is_not_quiet(
    settings: StackSettings, slice_: SliceStatus, code: int
) -> None:
    """Its exit code is that of `status`, with what to do: no rule fires for it."""
    _, refused = look_of(settings, slice_, NOON, None, NOON)
    found = Alerts("dev", NOON, (), refused=refused)

    assert found.exit_code == code
    if refused is not None:
        assert slice_.sentence in refused.message
        assert "up" in str(refused.hint)


@pytest.mark.parametrize(("in_flight", "state"), [(0, State.OK), (1, State.FIRING)])
def test_an_engine_that_froze_while_it_was_idle(
    settings: StackSettings, in_flight: int, state: State
) -> None:
    """It says that it runs nothing; its guard says what waits for it."""
    judge = Judge(rule for rule in alert_rules(settings) if rule.name == "NoTokens")
    for minute in range(6):
        at = NOON + timedelta(minutes=minute)
        metrics = EngineMetrics.parse(BEFORE, at)
        look, _ = look_of(settings, status(), at, metrics, at, in_flight)
        (found,) = judge.look(look)

    assert metrics.running == 0
    assert found.state is state


HUNG = {WAITING: 0.0, IN_FLIGHT: 1.0, GENERATED: 7.0, UP: 1.0}


def looks(
    settings: StackSettings, rule: str, numbers: Iterable[dict[Signal, float]]
) -> Iterator[Alerts]:
    """What ``rule`` says of looks at these numbers, which stay as the last ones say."""
    judge = Judge(each for each in alert_rules(settings) if each.name == rule)
    every = chain(numbers, repeat([*numbers][-1]))
    for number, found in enumerate(every):
        at = NOON + timedelta(seconds=number * LOOK_S)
        verdicts = judge.look(Look(at, found))
        yield Alerts("dev", at, verdicts, number + 1, number * LOOK_S)


@pytest.mark.parametrize(
    ("rule", "waiting_for", "numbers", "seconds", "state"),
    [
        ("RequestsWaiting", "30s", [{WAITING: 0.0}], 0, State.OK),
        ("RequestsWaiting", "30s", [{WAITING: 1.0}], 30, State.FIRING),
        ("RequestsWaiting", "30s", [{WAITING: 1.0}, {WAITING: 0.0}], LOOK_S, State.OK),
        # Longer than anybody waits for a command.
        ("RequestsWaiting", "6m", [{WAITING: 1.0}], 0, State.PENDING),
        ("FirstTokenSlow", "30s", [{}], 0, State.UNKNOWN),
        # In flight for 3 minutes without a token, and that for a minute.
        ("NoTokens", "30s", [HUNG], 240, State.FIRING),
        ("NoTokens", "30s", [HUNG, HUNG | {GENERATED: 8.0}], LOOK_S, State.OK),
        ("NoTokens", "30s", [HUNG | {IN_FLIGHT: 0.0}], 0, State.OK),
    ],
)
def test_how_long_it_looks(
    rule: str,
    waiting_for: str,
    numbers: Sequence[dict[Signal, float]],
    seconds: float,
    state: State,
) -> None:
    """Until a rule is decided; not at all where more looks do not help, or take over 5 minutes. It
    says once for which rule."""
    said: list[object] = []
    found = settled(looks(stack_settings(waiting_for=waiting_for), rule, numbers), said.append)

    assert (found.seconds, found.verdicts[0].state) == (seconds, state)
    assert len(said) == (seconds > 0)
    assert all(rule in str(each) for each in said)


def test_what_is_not_known_of_a_slice_is_no_number(settings: StackSettings) -> None:
    """A run without an end, and a host that may not be read, are not known; nothing is guessed."""
    numbers, missing = slice_numbers(
        settings, status(expires=None, host=None, unread="403 from the API"), NOON
    )

    assert RUN_SECONDS_LEFT not in numbers
    assert "when the run ends" in missing[RUN_SECONDS_LEFT]
    assert {missing[each] for each in PHASE_SECONDS.values()} == {"403 from the API"}
    assert numbers[SLICES] == numbers[BILLED_NODES] == 1
    assert numbers[SUCCESSORS] == 0


SERVING = HostReport("READY", serving=Serving(ServingPhase.SERVING, at=NOON.timestamp()))
DEGRADED = HostReport("READY", serving=Serving(ServingPhase.DEGRADED, at=NOON.timestamp()))
OLD = HostReport("READY", serving=Serving(ServingPhase.SERVING, at=(NOON - HOUR).timestamp()))


@pytest.mark.parametrize(
    ("error", "host", "down"),
    [
        (ServerDownError("no connection"), SERVING, True),
        (ApiError("500", status=500), SERVING, True),
        (ApiError("404", status=404), SERVING, False),
        (AccessError("the key is refused"), DEGRADED, False),
        (TpuflexError("no tunnel"), DEGRADED, False),
        # The way from here may be closed, where the host says that it serves.
        (ApiError("cannot be reached from here"), SERVING, False),
        (ApiError("cannot be reached from here"), DEGRADED, True),
        (ApiError("did not answer in time"), OLD, True),
    ],
)
def test_when_a_server_is_down(error: TpuflexError, host: HostReport, down: bool) -> None:
    """That it cannot be asked from here says nothing of it, unless its host agrees."""
    assert is_down(error, status(host=host), NOON) is down


@pytest.mark.parametrize(
    ("slice_", "why"),
    [
        (status(), ""),
        (status(host=None, unread="403"), ""),
        (status(host=None), "the host has not reported"),
        (booting("container", 1), "the host is in phase container"),
        (status(lifecycle=Lifecycle.WAITING, sentence="in the queue"), "in the queue"),
    ],
)
def test_a_server_that_never_served_is_not_asked(slice_: SliceStatus, why: str) -> None:
    """While nothing serves yet, its alerts are not known, and say why."""
    assert quiet_server(slice_).partition(": ")[2] == why


def test_a_failed_boot_is_without_end(settings: StackSettings) -> None:
    """A host that has failed is stuck whatever its phase may take, and only in that phase."""
    numbers, _ = slice_numbers(settings, booting("container", 1, error="docker: no"), NOON)

    assert numbers[PHASE_SECONDS["container"]] == math.inf
    assert numbers[PHASE_SECONDS["fetch"]] == 0
