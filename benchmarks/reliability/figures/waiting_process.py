"""Figure 6p: a week of waiting does not increase memory, threads or open files.

Real provider processes over gRPC, with their clock and the embedded cloud's sped up so that the
week passes in a minute and a half. A poll takes a few real milliseconds, so fewer polls fit in than
a real week has (figure 6 counts those); their number is reported beside the growth. Only the
resident memory of the provider's process is measured: the cloud with its history, and the receiver
of the provider's log messages, run in the measuring process.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc

from embedded_cloud.faults.control import FAULTS
from embedded_cloud.faults.rule import Rule, Where
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.waiting import FLAKY, GET, HOUR, POLL_S, RETRIES_S, WEEK_H, ZONES
from reliability.provider_process import ProviderProcess, Weight
from tpuflex.codes import Code, split_code

#: Real seconds that a wait takes.
REAL_S = 90.0
#: The fraction of the wait after which the process counts as warmed up.
WARM = 0.1
#: Bytes by which it may grow from then on.
MOST_GROWTH = 5_000_000
#: With fewer polls than this, a wait says nothing about growth.
FEWEST_POLLS = 2000

KINDS: dict[str, dict[str, Any]] = {
    "one zone, to the deadline": {"hours": WEEK_H},
    "two zones, one poll in twenty fails, granted in the end": {
        "hours": WEEK_H,
        "zones": 2,
        "granted_at": 0.9,
        "flaky": True,
    },
    "32 requests, to the deadline": {"hours": 12, "requests": 32},
}


def cases(rig: ProviderProcess, _seed: int) -> list[Case]:
    """The long waits."""
    del rig
    return [Case(f"{f['hours']:g} h: {kind}", {**f, "real_s": REAL_S}) for kind, f in KINDS.items()]


def judge(rig: ProviderProcess, case: Case) -> Result:
    """One wait of one process, weighed from when it is warmed up until the wait is over."""
    facts = case.facts
    result = Result(case.name, must_strike=bool(facts.get("flaky")))
    span = facts["hours"] * HOUR
    speed = span / facts["real_s"]
    zones = ZONES[: facts.get("zones", 1)]
    granted = {"grant_after_s": facts["granted_at"] * span} if "granted_at" in facts else None
    rules = {zone: {"never": True} for zone in zones}
    rules |= {zones[-1]: granted} if granted else {}
    rig.start(speed=speed, capacity={"zones": rules, "quota": {"*": 100_000}})
    if facts.get("flaky"):
        rig.control.call("POST", "faults", {"rules": _flaky()})
    names = [f"wait{number}" for number in range(facts.get("requests", 1))]
    checked = {n: rig.checked(n, zones=list(zones), queueTimeout=f"{span:.0f}s") for n in names}
    began, real = rig.now(), time.monotonic()
    waits = [rig.create(name, inputs) for name, inputs in checked.items()]
    weights = _weigh(rig, waits, real + WARM * facts["real_s"])
    took = rig.now() - began
    ends = [_ended(wait) for wait in waits]
    _judge_growth(result, weights)
    polls = sum(call["method_id"] == GET for call in rig.control.history())
    result.struck = int(rig.control.faults()["firings"])
    result.values |= {
        "wait_h": round(took / HOUR, 2),
        "real_s": round(time.monotonic() - real, 1),
        "polls": polls,
        "lasting_lines": rig.log.lasting,
        "passing_lines": rig.log.passing,
        "kB_said": rig.log.characters // 1000,
    }
    fewest = FEWEST_POLLS * facts["real_s"] / REAL_S
    result.wanted(polls >= fewest, "rig", f"only {polls} polls were made")
    wrong = [end for end in ends if (end if granted else split_code(end)[1] is not Code.WAITING)]
    result.wanted(not wrong, "not converged", f"ended: {wrong[:3]}")
    # A thread that wakes late in real time is later by the factor of the speed here.
    due = (facts["granted_at"] if granted else 1.0) * span
    late, slack = took - due, POLL_S + RETRIES_S + speed * 2.0
    result.values["late_s"] = round(late, 1)
    result.wanted(-1 <= late <= slack, "not converged", f"it ends {late:.0f} s after it should")
    minutes = took / 60 * len(names)
    text = f"{rig.log.passing} passing and {rig.log.lasting} lasting lines in {minutes:.0f} minutes"
    noisy = rig.log.passing > minutes + polls / 20 + 2 or rig.log.lasting > 12 * len(names)
    result.wanted(not noisy, "noisy", text)
    rig.stop()
    return result


def _weigh(rig: ProviderProcess, waits: list[Any], warm: float) -> list[Weight]:
    """Weigh the process twice a second from ``warm`` on, until all waits are over."""
    weights: list[Weight] = []
    pause = threading.Event()
    while not all(wait.done() for wait in waits):
        if time.monotonic() >= warm:
            weights.append(rig.weigh())
        pause.wait(0.5)
    weights.append(rig.weigh())
    return weights


def _judge_growth(result: Result, weights: list[Weight]) -> None:
    first, most = weights[0], max(weight.rss for weight in weights)
    result.values["rss_MB"] = round(first.rss / 1e6, 2)
    result.values["growth_MB"] = round((most - first.rss) / 1e6, 2)
    text = f"from {first.rss} to {most} bytes"
    result.wanted(most - first.rss < MOST_GROWTH, "grown", f"memory: {text}")
    for what in ("threads", "files"):
        count = [int(getattr(weight, what)) for weight in weights]
        result.values[what] = max(count)
        # Each request in flight holds one of each for a moment, longer on a busy machine: the
        # lasting number is the one at the quietest moment.
        part = max(1, len(count) // 4)
        early, late = min(count[:part]), min(count[-part:])
        result.wanted(late <= early + 4, "grown", f"{what}: from {early} to {late}")


def _ended(wait: Any) -> str:
    """How a create ended: empty for success, otherwise the error."""
    try:
        wait.result(timeout=1)
    except grpc.RpcError as error:
        return str(error.details())
    return ""


def _flaky() -> list[dict[str, Any]]:
    return [
        Rule(
            id=name,
            where=Where(method_id=GET),
            nth=20 * (turn + 1),
            every=100,
            times=0,
            stage=FAULTS[name].stage,
            effect=FAULTS[name].effect,
        ).to_json()
        for turn, name in enumerate(FLAKY)
    ]


FIGURE = Figure(
    key="6p",
    counted=("grown", "not converged"),
    title="the same as a process, the clock sped up: memory grows by less than 5 MB, threads and "
    "files do not",
    rig="provider",
    cases=cases,
    judge=judge,
    share=28,
    spare=REAL_S + 15,
)
