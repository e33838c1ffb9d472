"""Figures 15 and 15f: what a client meets of renewals, and of faults and the end of a run, with the
real vLLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from reliability import host_guard
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.renewal_faults import FAULTS, frozen, successor
from reliability.figures.renewal_judging import names, under_load, well_served
from reliability.renewal_rig import RenewalRig
from reliability.streams import CUT, FAILED
from tpuflex.errors import BootError
from tpuflex.host.serving import ServingPhase

RENEWALS = 10
#: Of the cloud's clock: how long before a host drains its clock is moved to; the host looks at it
#: every 5 s, and has 20 s at most to begin.
_BEFORE_S, _LATE_S = 3.0, 20.0
#: For what is open when a host begins to drain, in real seconds.
_STREAMS_S = 240.0
_MARGIN_S = 300.0
_HOSTS = Path(".tpuflex", "emulator", "hosts")


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
    """The run is renewed: whoever reads the address again loses nothing."""
    before = rig.reader.endpoint()
    rig.make_due()
    with under_load(rig) as load:
        names(rig, result, before, "before")
        up = rig.begin("up")
        rig.until(lambda: up.done() or rig.booting(before), "a server that boots")
        names(rig, result, before, "while the next server boots")
        code = up.result()
        result.wanted(code == 0, "not converged", f"`up` exits with {code}: {rig.said[-1].stderr}")
        result.values["up_s"] = round(rig.said[-1].seconds, 1)
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
        rig.until(rig.drained, "a drained host", _STREAMS_S)
        told = rig.beside("status")
        code = BootError.exit_code
        result.wanted(told.exit_code == code, "exit code", f"`status` drained: {told.exit_code}")
    cut = load.clients.of(CUT)
    result.wanted(not cut, "cut", f"{len(cut)}: {cut[:3]}")
    odd = [each for each in load.clients.of(FAILED) if not _was_told(each.said)]
    result.wanted(not odd, "failed", f"{len(odd)}: {odd[:3]}")
    result.values["drain began, s late"] = round(late, 1)
    result.values["left of the run, s"] = round(ends - rig.now(), 1)
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
    left = host_guard.running_on(rig.home / _HOSTS)
    result.wanted(not left, "orphan", f"left running: {left}")


_WAYS: Mapping[str, Callable[[RenewalRig, Case, Result], None]] = {
    "renewal": _renewal,
    "successor": successor,
    "frozen": frozen,
    "end": _end,
}


def rig(home: Path) -> RenewalRig:
    """The rig of the cases."""
    return RenewalRig(home / "project")


FIGURE = Figure(
    key="15",
    counted=("failed", "cut", "away", "orphan", "not converged"),
    title="real vLLM under load, ten renewals: 0 requests failed, 0 streams cut, 0 s without an"
    " address that serves",
    rig=rig,
    cases=renewals,
    judge=judge,
    share=40,
    spare=240,
)
FAULTS_FIGURE = replace(
    FIGURE,
    key="15f",
    title="the same of a successor that is killed, starved of weights or given a wrong flag, of an"
    " engine that freezes twice, and of the end of a run: 0 streams cut that could have ended",
    cases=faults,
    share=20,
)
