"""The faults of figure 15: a successor that does not come to serve, and an engine that freezes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from reliability.figures.figure import Case, Result
from reliability.figures.renewal_judging import Load, names, under_load, well_served
from reliability.renewal_rig import RenewalRig
from reliability.streams import REFUSED, WHOLE
from tpuflex.errors import BootError, CapacityError
from tpuflex.host.serving import ServingPhase

Up = Future[int | None]

#: Until a frozen engine's host says that its server is started again.
FROZEN_WITHIN_S = 75.0
#: For what was open on a server that is ended, until its clients have noticed.
_NOTICED_S = 15.0
#: Between two looks for a server that could be killed.
_LOOK_S = 1.0
#: Of the cloud's clock: a grant so late leaves time to take the weights away.
_GRANT_S = 15.0


def _kill(rig: RenewalRig, before: str, up: Up) -> int:
    """Kill the successor's server as often as it is started, until its boot is given up."""
    kills = 0
    while not up.done():
        host = rig.other_host(before)
        kills += host is not None and rig.kill_server(host)
        time.sleep(_LOOK_S)
    return kills


def _starve(rig: RenewalRig, _before: str, _up: Up) -> int:
    """Delete the weights' files while the successor waits for capacity."""
    rig.until(lambda: sum("queuedResources" in name for name in rig.slices()) > 1, "a request")
    return rig.lose_weights()


def _push_again(rig: RenewalRig) -> None:
    rig.control.capacity()
    pushed = rig.beside("weights", "push", "--again", "--yes")
    assert pushed.exit_code == 0, pushed.stderr
    rig.another()


def _nothing(_rig: RenewalRig, _before: str, _up: Up) -> int:
    return 1


def _flag(rig: RenewalRig, **flags: str) -> None:
    rig.flags = dict(flags)
    rig.write_stack()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a successor does not come to serve.

    Attributes:
        reason: what the boot's reason has in it.
        arm: before the `up`.
        strike: during it; how often it struck.
        mend: before the next one.
    """

    reason: str
    arm: Callable[[RenewalRig], object]
    strike: Callable[[RenewalRig, str, Up], int]
    mend: Callable[[RenewalRig], object]


FAULTS: Mapping[str, Fault] = {
    "killed": Fault("the server died with status 137", lambda _: None, _kill, RenewalRig.another),
    "without weights": Fault(
        "is in the manifest but not in the bucket",
        lambda rig: rig.control.capacity(grant_after_s=_GRANT_S),
        _starve,
        _push_again,
    ),
    "with a wrong flag": Fault(
        "nonsense", lambda rig: _flag(rig, reasoning_parser="nonsense"), _nothing, _flag
    ),
}


def successor(rig: RenewalRig, case: Case, result: Result) -> None:
    """The next slice does not serve: `up` says why, the old one serves on; then it is mended."""
    fault = FAULTS[case.facts["fault"]]
    before = rig.reader.endpoint()
    rig.make_due()
    fault.arm(rig)
    with under_load(rig) as load:
        up = rig.begin("up")
        result.struck = fault.strike(rig, before, up)
        code, said = up.result(), rig.said[-1].stderr
        wrong = f"`up` exits with {code}: {said}"
        result.wanted(code == BootError.exit_code, "exit code", wrong)
        result.wanted(fault.reason in said, "no reason", wrong)
        result.values["first up, s"] = round(rig.said[-1].seconds, 1)
        load.goes_on()
        names(rig, result, before, "after the first `up`")
        _judge_shown(rig, result)
        fault.mend(rig)
        code = rig.begin("up").result()
        again = f"`up` again exits with {code}: {rig.said[-1].stderr}"
        result.wanted(code == 0, "not converged", again)
        after = rig.reader.endpoint()
        load.goes_on()
        names(rig, result, after, "in the end")
    well_served(rig, result, load.clients, before, after)


def _judge_shown(rig: RenewalRig, result: Result) -> None:
    """`status` shows the one that serves, and what has become of the other."""
    told = rig.beside("status")
    result.wanted(told.exit_code == 0, "exit code", f"`status` exits with {told.exit_code}")
    shown = "its boot has failed" in told.stdout
    result.wanted(shown, "not told", f"`status` shows {told.stdout}")


def frozen(rig: RenewalRig, _case: Case, result: Result) -> None:
    """The engine stops computing: it is started once more, and the second time given up."""
    address = rig.reader.endpoint()
    (host,) = rig.hosts().values()
    with under_load(rig) as load:
        _restarted(rig, host, result, load)
        _given_up(rig, host, result)
    # A host says first what it does next.
    rig.until(lambda: not rig.has_server(host), "a server that is stopped", 60)
    (refused, said) = load.clients.ask(address, 8)
    result.wanted(refused == REFUSED, "half-served", f"{address} answers: {refused} {said}")


def _restarted(rig: RenewalRig, host: Path, result: Result, load: Load) -> None:
    result.struck += rig.freeze_engine(host)
    began = time.monotonic()
    rig.until(lambda: rig.phase() is ServingPhase.DEGRADED, "a server that is started again", 150)
    noticed = time.monotonic()
    result.values["frozen until started again, s"] = round(noticed - began, 1)
    result.wanted(noticed - began <= FROZEN_WITHIN_S, "slow", f"{noticed - began:.0f} s")
    told = rig.beside("status")
    code = CapacityError.exit_code
    result.wanted(told.exit_code == code, "exit code", f"`status` degraded: {told.exit_code}")
    result.wanted("no token came" in told.stdout, "no reason", f"`status` shows {told.stdout}")
    rig.until(lambda: rig.phase() is ServingPhase.SERVING, "a server that serves again", 240)
    result.values["started again until it serves, s"] = round(time.monotonic() - noticed, 1)
    serving = rig.serving()
    restarts = None if serving is None else serving.restarts
    result.wanted(restarts == 1, "not converged", f"{restarts} restarts")
    load.goes_on()
    _judge_ends(result, load, noticed)


def _judge_ends(result: Result, load: Load, noticed: float) -> None:
    """Judge that nobody was left waiting by the server that was ended."""
    late = [
        each
        for each in load.clients.streams
        if each.began < noticed and each.ended > noticed + _NOTICED_S and each.outcome != WHOLE
    ]
    result.wanted(not late, "half-served", f"ended late: {late[:3]}")


def _given_up(rig: RenewalRig, host: Path, result: Result) -> None:
    result.struck += rig.freeze_engine(host)
    began = time.monotonic()
    rig.until(lambda: rig.phase() is ServingPhase.FAILED, "a host that has failed", 150)
    took = time.monotonic() - began
    result.values["frozen again until given up, s"] = round(took, 1)
    result.wanted(took <= FROZEN_WITHIN_S, "slow", f"given up after {took:.0f} s")
    for word in ("status", "up"):
        told = rig.beside(word)
        code = BootError.exit_code
        result.wanted(told.exit_code == code, "exit code", f"`{word}`: {told.exit_code}")
        shown = told.stdout + told.stderr
        result.wanted("no token came" in shown, "no reason", f"`{word}` shows {shown}")
    result.wanted(not rig.reader.endpoint(), "half-served", "status names the endpoint as ready")
