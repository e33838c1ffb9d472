"""Figures 15 and 15f: what a client meets of renewals, and of faults and the end of a run, with the
real vLLM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from reliability.cases import Case, Figure, Result
from reliability.renewal_rig import RenewalRig, running_on
from reliability.streams import CUT, FAILED, REFUSED, WHOLE, Clients
from tpuflex.errors import BootError, CapacityError
from tpuflex.host.serving import ServingPhase

RENEWALS = 10
#: Of the cloud's clock: how long before a host drains its clock is moved to; the host looks at it
#: every 5 s, and has 20 s at most to begin.
_BEFORE_S, _LATE_S = 3.0, 20.0
#: For what is open when a host begins to drain, in real seconds.
_OPEN_S = 240.0
_MARGIN_S = 300.0
_HOSTS = Path(".tpuflex", "emulator", "hosts")
Up = Future[int | None]

#: Until a frozen engine's host says that its server is started again.
FROZEN_WITHIN_S = 75.0
#: For what was open on a server that is ended, until its clients have noticed.
_NOTICED_S = 15.0
#: Between two looks for a server that could be killed.
_LOOK_S = 1.0
#: Of the cloud's clock: a grant so late leaves time to take the weights away.
_GRANT_S = 15.0
_QUESTION = "In one word, what is the capital of France?"
#: How many streams have to end well before a case goes on, and within which time.
_STREAMS, _STREAMS_S = 4, 120.0


def renewals(_rig: RenewalRig, _seed: int) -> list[Case]:
    """Renewals, each of the slice that the last one has left."""
    return [Case(f"renewal {n + 1}", {"way": "renewal"}) for n in range(RENEWALS)]


def faults(_rig: RenewalRig, _seed: int) -> list[Case]:
    """A fault of each kind; the end of a run."""
    return [
        *(Case(f"successor {kind}", {"way": "successor", "fault": kind}) for kind in FAULTS),
        Case("frozen twice", {"way": "frozen"}),
        Case("end", {"way": "end"}),
    ]


def judge(rig: RenewalRig, case: Case) -> Result:
    """Let it happen under load, and judge what clients and commands have seen."""
    way = str(case.facts["way"])
    result = Result(case.name, must_strike=way in ("successor", "frozen"))
    rig.serve()
    rig.sound = False
    _WAYS[way](rig, case, result)
    rig.sound = not result.problems and way in ("renewal", "successor")
    return result


def _renewal(rig: RenewalRig, _case: Case, result: Result) -> None:
    """The run is renewed: a client that reads the address again loses nothing."""
    before = rig.reader.endpoint()
    rig.make_due()
    with under_load(rig) as load:
        names(rig, result, before, "before")
        up = rig.begin("up")
        rig.until(lambda: up.done() or rig.booting(before), "a server that boots")
        names(rig, result, before, "while the next server boots")
        code = up.result()
        result.wanted(code == 0, "not converged", f"`up` exits with {code}: {rig.said[-1].stderr}")
        after = rig.reader.endpoint()
        load.goes_on()
        names(rig, result, after, "after")
    well_served(rig, result, load.clients, before, after)


def _end(rig: RenewalRig, _case: Case, result: Result) -> None:
    """The end of the run is near: the host drains before it, what is open ends whole."""
    status, shown = rig.reader.status(), rig.beside("status")
    result.wanted(shown.exit_code == 0, "exit code", f"`status` before: {shown.exit_code}")
    result.wanted("drains at" in shown.stdout, "not told", f"`status` shows {shown.stdout}")
    serving = rig.serving()
    assert serving is not None
    assert serving.drains_at is not None
    assert status.expires is not None
    drains, ends = serving.drains_at.timestamp(), status.expires.timestamp()
    result.wanted(
        ends - drains >= _MARGIN_S, "late", f"drains {ends - drains:.0f} s before the end"
    )
    with under_load(rig) as load:
        rig.control.advance(drains - rig.now() - _BEFORE_S)
        rig.until(lambda: rig.phase() is ServingPhase.DRAINING, "a drain", 60)
        late = rig.now() - drains
        result.wanted(0 <= late <= _LATE_S, "late", f"it drains {late:.0f} s after its time")
        rig.until(rig.drained, "a drained host", _OPEN_S)
        told = rig.beside("status")
        code = BootError.exit_code
        result.wanted(told.exit_code == code, "exit code", f"`status` drained: {told.exit_code}")
    cut = load.clients.of(CUT)
    result.wanted(not cut, "cut", f"{len(cut)}: {cut[:3]}")
    odd = [each for each in load.clients.of(FAILED) if not _was_told(each.said)]
    result.wanted(not odd, "failed", f"{len(odd)}: {odd[:3]}")
    _over(rig, result, ends)


def _was_told(said: str) -> bool:
    """Whether a client was told that nothing serves, and no more than that."""
    return said in ("503", "status names no address that serves")


def _over(rig: RenewalRig, result: Result, ends: float) -> None:
    """Let the run end: nothing was cut off, the host is gone, and `status` says so."""
    serving = rig.serving()
    cut_off = -1 if serving is None else serving.cut_off
    result.wanted(cut_off == 0, "cut", f"the host says that it cut off {cut_off}")
    rig.control.advance(max(0.0, ends - rig.now()) + 5.0)
    rig.until(lambda: not rig.hosts(), "no host after the end of the run", 60)
    told = rig.beside("status")
    code = BootError.exit_code
    result.wanted(told.exit_code == code, "exit code", f"`status` at the end: {told.exit_code}")
    left = running_on(rig.home / _HOSTS)
    result.wanted(not left, "orphan", f"left running: {left}")


# -- faults --------------------------------------------------------------------------------------


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
    """Why a successor does not come to serve: the reason that its boot gives, what is done before
    and during the `up`, and before the next one."""

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
    result.wanted(noticed - began <= FROZEN_WITHIN_S, "slow", f"{noticed - began:.0f} s")
    told = rig.beside("status")
    code = CapacityError.exit_code
    result.wanted(told.exit_code == code, "exit code", f"`status` degraded: {told.exit_code}")
    result.wanted("no token came" in told.stdout, "no reason", f"`status` shows {told.stdout}")
    rig.until(lambda: rig.phase() is ServingPhase.SERVING, "a server that serves again", 240)
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
    result.wanted(took <= FROZEN_WITHIN_S, "slow", f"given up after {took:.0f} s")
    for word in ("status", "up"):
        told = rig.beside(word)
        code = BootError.exit_code
        result.wanted(told.exit_code == code, "exit code", f"`{word}`: {told.exit_code}")
        shown = told.stdout + told.stderr
        result.wanted("no token came" in shown, "no reason", f"`{word}` shows {shown}")
    result.wanted(not rig.reader.endpoint(), "half-served", "status names the endpoint as ready")


_WAYS: Mapping[str, Callable[[RenewalRig, Case, Result], None]] = {
    "renewal": _renewal,
    "successor": successor,
    "frozen": frozen,
    "end": _end,
}


# -- under load ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Clients at work."""

    rig: RenewalRig
    clients: Clients

    def goes_on(self) -> None:
        """Wait until some more streams have ended well, that have begun from now on at the
        earliest when all have that were open."""
        before = len(self.clients.of(WHOLE))
        self.rig.until(
            lambda: len(self.clients.of(WHOLE)) >= before + _STREAMS, "streams", _STREAMS_S
        )


@contextmanager
def under_load(rig: RenewalRig) -> Iterator[Load]:
    """Streams are open while the block runs."""
    load = Load(rig, Clients(rig.reader))
    with load.clients.running():
        load.goes_on()
        yield load


def names(rig: RenewalRig, result: Result, endpoint: str, when: str) -> None:
    """Judge that `status`, the stack's output and `ask` all have this address, which answers."""
    answer = rig.beside("ask", _QUESTION, "--max-tokens", "8")
    told = f"{when}: `ask` exits with {answer.exit_code}: {answer.stderr}"
    result.wanted(answer.exit_code == 0 and bool(answer.stdout.strip()), "failed", told)
    named = {
        "status": rig.reader.endpoint(),
        "ask": rig.reader.asked(),
        "the output": rig.output(),
    }
    for who, address in named.items():
        text = f"{when}: {who} names {address or 'nothing'}, not {endpoint}"
        result.wanted(address == endpoint, "away", text)


def well_served(rig: RenewalRig, result: Result, clients: Clients, before: str, after: str) -> None:
    """Judge that the clients have met no gap while ``after`` took over from ``before``."""
    moved = after not in ("", before)
    result.wanted(moved, "not converged", f"{before} serves, and then {after or 'nothing'}")
    failed, cut = clients.of(FAILED), clients.of(CUT)
    result.wanted(not failed, "failed", f"{len(failed)}: {failed[:3]}")
    result.wanted(not cut, "cut", f"{len(cut)}: {cut[:3]}")
    away = clients.seconds(lambda each: not each.endpoint)
    said = sorted({each.said for each in clients.samples if each.said})
    result.wanted(away == 0, "away", f"nothing serves for {away:.1f} s; {said}")
    # What was named, without repetition: first the one, then the other, and never back.
    named = [each.endpoint for each in clients.samples if each.endpoint]
    changes = [two for one, two in zip(["", *named], named, strict=False) if one != two]
    result.wanted(changes == [before, after], "not converged", f"status names {changes}")
    slices = rig.slices()
    result.wanted(len(slices) == 2, "orphan", f"in the cloud in the end: {slices}")


def _rig(home: Path, _strict: bool) -> RenewalRig:
    return RenewalRig(home / "project")


_FIGURE = Figure(
    key="15",
    counted=("failed", "cut", "away", "orphan", "not converged"),
    title="real vLLM under load, ten renewals: 0 requests failed, 0 streams cut, 0 s without an"
    " address that serves",
    rig=_rig,
    cases=renewals,
    judge=judge,
    # Servers that starve each other would be what is measured.
    workers=1,
)
FIGURES = (
    _FIGURE,
    replace(
        _FIGURE,
        key="15f",
        title="the same of a successor that is killed, starved of weights or given a wrong flag, of"
        " an engine that freezes twice, and of the end of a run: 0 streams cut that could have"
        " ended",
        cases=faults,
    ),
)
