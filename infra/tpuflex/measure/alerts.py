"""Whether an alert fires: the rules judged over looks at a running endpoint and its slice, where no
Prometheus does that."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tpuflex.alerts import signals
from tpuflex.alerts.conditions import parts_of
from tpuflex.alerts.judgement import Judge, Look, State, Verdict
from tpuflex.alerts.rules import alert_rules
from tpuflex.alerts.signals import Signal
from tpuflex.duration import format_roughly
from tpuflex.errors import (
    AccessError,
    AlertError,
    ApiError,
    BootError,
    ServerDownError,
    TpuflexError,
)
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.measure.server import KeptServer
from tpuflex.operate.endpoint_status import with_last_known
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.planning.cost import cost_in
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection

#: Seconds from one look to the next.
LOOK_S = 5.0
#: Seconds after which the slice is read again: it changes slowly, and APIs are called each time.
_SLICE_S = 30.0
#: What only time can decide is waited for as long as this, and no longer.
_PATIENCE = timedelta(minutes=5)
#: How each signal is read from a server's metrics.
_NUMBERS: Mapping[Signal, Callable[[EngineMetrics], float | None]] = {
    signals.KV_USE: lambda metrics: metrics.kv_use,
    signals.IN_FLIGHT: lambda metrics: metrics.running,
    signals.WAITING: lambda metrics: metrics.waiting,
    signals.PREEMPTIONS: lambda metrics: metrics.preemptions,
    signals.GENERATED: lambda metrics: metrics.generation_tokens,
}
#: The signals that come from the server alone.
_OF_THE_SERVER = (*_NUMBERS, signals.TTFT, signals.UP)
#: A slice runs, is being made, or is being deleted: what is billed then is no surprise.
_PASSING = frozenset({Lifecycle.ACTIVE, Lifecycle.PROVISIONING, Lifecycle.DELETING})


@dataclass(frozen=True, slots=True)
class Alerts:
    """What the rules say of an endpoint.

    Attributes:
        stack: its stack.
        at: when it was looked at last.
        verdicts: what each rule says.
        looks: how often it was looked at.
        seconds: from the first look to the last.
        refused: why the server could not be asked, where that does not mean that it is down; or why
            none serves any more.
    """

    stack: str
    at: datetime
    verdicts: tuple[Verdict, ...]
    looks: int = 1
    seconds: float = 0.0
    refused: TpuflexError | None = field(default=None, compare=False)

    def of(self, state: State) -> tuple[Verdict, ...]:
        """Those that say ``state``."""
        return tuple(each for each in self.verdicts if each.state is state)

    @property
    def firing(self) -> tuple[Verdict, ...]:
        """Those that fire."""
        return self.of(State.FIRING)

    @property
    def exit_code(self) -> int:
        """16 when something fires; otherwise that of what kept the server from being asked, so that
        a script does not take it for quiet; otherwise 0."""
        if self.firing:
            return AlertError.exit_code
        return 0 if self.refused is None else self.refused.exit_code

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex alerts --json`` prints."""
        return {
            "stack": self.stack,
            "at": self.at.isoformat(),
            "looks": self.looks,
            "seconds": round(self.seconds, 1),
            **{
                state.value: [each.rule.name for each in self.of(state)]
                for state in (State.FIRING, State.PENDING, State.UNKNOWN)
            },
            "refused": None if self.refused is None else self.refused.to_json(self.stack),
            "alerts": [each.to_json(self.stack) for each in self.verdicts],
        }


def read_alerts(
    cloud: Connection, report: Report = silent, *, tunnel: bool = True, wait: bool = True
) -> Alerts:
    """What the rules say of the endpoint of the stack of ``cloud``.

    Args:
        cloud: the stack's cloud.
        report: receives why it looks again, and why a tunnel is opened.
        tunnel: whether one may be opened.
        wait: whether to look again, for five minutes at most, where one look leaves open what more
            of them decide.

    Raises:
        NotFoundError: the stack has no request for a slice.
        AccessError: reading its slice is refused.
    """
    with closing(watch_alerts(cloud, LOOK_S, report, tunnel=tunnel)) as looks:
        return settled(looks, report) if wait else next(looks)


def settled(looks: Iterable[Alerts], report: Report = silent) -> Alerts:
    """The first of ``looks`` after which no later one within five minutes would tell more; or the
    last.

    Args:
        looks: looks at one endpoint; at least one.
        report: receives why it looks again.
    """
    said: set[str] = set()
    for found in looks:
        left = {
            each.rule.name: wait
            for each in found.verdicts
            if (wait := _undecided_for(each, found)) > timedelta()
        }
        if not left:
            break
        if left.keys() - said:
            said |= left.keys()
            names, longest = ", ".join(left), format_roughly(max(left.values()))
            report(f"Looking again for at most {longest}, to be certain: {names}.")
    return found


def _undecided_for(verdict: Verdict, found: Alerts) -> timedelta:
    """How much longer to look until ``verdict`` is certain; zero where it is already, or where no
    look within :data:`_PATIENCE` makes it so."""
    rule, looked = verdict.rule, timedelta(seconds=found.seconds)
    if verdict.state is State.PENDING and verdict.since is not None:
        needed, done = rule.held, found.at - verdict.since
    elif verdict.state is State.UNKNOWN and not any(each.unknowable for each in verdict.readings):
        needed, done = rule.held + max(each.window for each in parts_of(rule.condition)), looked
    else:
        return timedelta()
    return needed - done if needed <= _PATIENCE else timedelta()


def watch_alerts(
    cloud: Connection, seconds: float, report: Report = silent, *, tunnel: bool = True
) -> Generator[Alerts]:
    """What the rules say, every so many seconds, without an end.

    Args:
        cloud: the stack's cloud.
        seconds: from one look to the next.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.

    Raises:
        NotFoundError, AccessError: as :func:`read_alerts`.
    """
    stack, timing = cloud.stack, cloud.timing
    judge = Judge(alert_rules(stack.settings))
    # Looks are this machine's: the clock of an embedded cloud may be a faster one.
    begin, number = datetime.now(UTC), 0
    with _Observer(cloud, report, tunnel) as observer:
        while True:
            look, refused = observer.look(datetime.now(UTC))
            number += 1
            yield Alerts(
                stack.name,
                look.at,
                judge.look(look),
                looks=number,
                seconds=(look.at - begin).total_seconds(),
                refused=refused,
            )
            if timing.pause(seconds):
                return


class _Observer:
    """Looks at the endpoint of a stack: at its slice now and then, at its server each time."""

    def __init__(self, cloud: Connection, report: Report, tunnel: bool) -> None:
        self._cloud = cloud
        self._server = KeptServer(cloud, report, tunnel=tunnel, read_slice=self._slice)
        self._status: SliceStatus | None = None
        self._read = -math.inf

    def __enter__(self) -> _Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def look(self, at: datetime) -> tuple[Look, TpuflexError | None]:
        """A look, and why the server could not be asked."""
        status = self._slice()
        settings, now = self._cloud.stack.settings, self._cloud.now()
        metrics, in_flight = (None, None) if quiet_server(status) else self._ask()
        return look_of(settings, status, now, metrics, at, in_flight)

    def _ask(self) -> tuple[EngineMetrics | TpuflexError, int | None]:
        try:
            return self._server.ask(lambda server: (server.metrics(), server.in_flight()))
        except TpuflexError as error:
            return error, None

    def _slice(self) -> SliceStatus:
        """The stack's slice, read every half minute; the last reading where the API does not
        answer."""
        cloud, monotonic = self._cloud, self._cloud.timing.monotonic()
        if self._status is not None and monotonic - self._read < _SLICE_S:
            return self._status
        stack = cloud.stack
        try:
            self._status = slice_status(
                stack.settings,
                stack.names,
                cloud.tpu,
                now=cloud.now(),
                recorded=cloud.recorded_zones,
            )
        except AccessError as error:
            raise with_last_known(error, cloud.recorded_requests()) from error
        except ApiError:
            if self._status is None:
                raise
        self._read = monotonic
        return self._status


def look_of(
    settings: StackSettings,
    status: SliceStatus,
    now: datetime,
    metrics: EngineMetrics | TpuflexError | None,
    at: datetime,
    in_flight: int | None = None,
) -> tuple[Look, TpuflexError | None]:
    """What is known of an endpoint now.

    Args:
        settings: the stack's settings.
        status: its slice.
        now: the time on the cloud's clock.
        metrics: what its server counts, or why it does not say; None where it was not asked.
        at: the time of the look.
        in_flight: requests that have not ended, by its guard; None where that does not say.

    Returns:
        The look; and why the server could not be asked, where that does not mean that it is down,
        or why none serves any more: an endpoint that is over is not well, though no rule fires.
    """
    numbers, missing = slice_numbers(settings, status, now)
    if isinstance(metrics, EngineMetrics):
        counted, histograms = server_numbers(metrics, in_flight)
        return Look(at, numbers | counted, histograms, missing), None
    why = quiet_server(status) if metrics is None else metrics.message
    missing |= dict.fromkeys(_OF_THE_SERVER, why or "the server was not asked")
    if metrics is None:
        over = (
            status.lifecycle is not Lifecycle.ACTIVE
            and status.outcome.exit_code == BootError.exit_code
        )
        refused = BootError(f"{why}.", hint=status.advice.sentence()) if over else None
        return Look(at, numbers, missing=missing), refused
    if not is_down(metrics, status, now):
        return Look(at, numbers, missing=missing), metrics
    return Look(at, {**numbers, signals.UP: 0.0}, missing=missing), None


def server_numbers(
    metrics: EngineMetrics, in_flight: int | None = None
) -> tuple[dict[Signal, float], dict[Signal, dict[float, float]]]:
    """The numbers and histograms of a server that answered, and of its guard."""
    known = {signal: read(metrics) for signal, read in _NUMBERS.items()}
    numbers = {signal: value for signal, value in known.items() if value is not None}
    if in_flight is not None:
        # What an engine runs is its last word: one that froze while it was idle says 0.
        numbers[signals.IN_FLIGHT] = max(float(in_flight), numbers.get(signals.IN_FLIGHT, 0.0))
    histograms = {} if metrics.ttft is None else {signals.TTFT: dict(metrics.ttft.buckets)}
    return numbers | {signals.UP: 1.0}, histograms


def quiet_server(status: SliceStatus) -> str:
    """Why no server of the slice is asked: none has served yet, or none is left; empty where one
    has."""
    if status.lifecycle is not Lifecycle.ACTIVE:
        return f"nothing serves: {status.sentence}"
    if status.unread:
        return ""
    if status.host is None or not status.host.phase:
        return "nothing serves yet: the host has not reported"
    if not status.host.ready:
        return f"nothing serves yet: the host is in phase {status.host.phase}"
    return ""


def is_down(error: TpuflexError, status: SliceStatus, at: datetime) -> bool:
    """Whether ``error``, with which the server answered or did not, shows that it is down: it
    answers wrongly, nothing listens, or its host does not say that it serves either. Otherwise the
    way from here may be closed."""
    if isinstance(error, ServerDownError):
        return True
    if not isinstance(error, ApiError):
        return False
    if error.status >= 500:
        return True
    host = status.host
    return error.status == 0 and host is not None and not host.serves_at(at.timestamp())


def slice_numbers(
    settings: StackSettings, status: SliceStatus, at: datetime
) -> tuple[dict[Signal, float], dict[Signal, str]]:
    """What a slice says of itself, and why it does not say the rest.

    Args:
        settings: the stack's settings.
        status: its slice.
        at: the time on the cloud's clock.
    """
    active = status.lifecycle is Lifecycle.ACTIVE
    # A node that is being made has hosts to be billed for only once it is there.
    own = bool(status.node_state) and status.lifecycle is not Lifecycle.PROVISIONING
    numbers: dict[Signal, float] = {
        signals.SUCCESSORS: float(len(status.others)),
        signals.SLICES: float(status.lifecycle in _PASSING or status.state == "SUSPENDING"),
        signals.BILLED_NODES: float(own + len(status.others_since)),
    }
    missing: dict[Signal, str] = {}
    if not active:
        numbers[signals.RUN_SECONDS_LEFT] = math.inf
    elif status.expires is None:
        missing[signals.RUN_SECONDS_LEFT] = "Google does not say yet when the run ends"
    else:
        numbers[signals.RUN_SECONDS_LEFT] = (status.expires - at).total_seconds()
    spent = status.cost(cost_in(settings, status.zone).per_hour, at)
    if spent is None:
        missing[signals.SPENT_USD] = "no price for this region"
    else:
        numbers[signals.SPENT_USD] = float(spent)
    if active and status.unread:
        return numbers, missing | dict.fromkeys(signals.PHASE_SECONDS.values(), status.unread)
    phases = _phase(status, at) if active else {}
    in_each = {signal: phases.get(name, 0.0) for name, signal in signals.PHASE_SECONDS.items()}
    return numbers | in_each, missing


def _phase(status: SliceStatus, at: datetime) -> dict[str, float]:
    """The phase that the host's boot is in, and for how long."""
    host = status.host
    if host is None or not host.phase:
        since = status.active_since
        return {} if since is None else {"silence": (at - since).total_seconds()}
    if host.phase not in signals.BOOT_PHASES:
        return {}
    if host.error:
        return {host.phase: math.inf}
    began = host.timeline.get(host.phase)
    return {} if began is None else {host.phase: at.timestamp() - began}
