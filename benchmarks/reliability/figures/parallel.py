"""Figure 7: many requests wait, and nothing else is delayed by them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty

from embedded_cloud.clock import parse_rfc3339
from embedded_cloud.faults.rule import Delay, Rule, Where
from pulumi_plugin.protocol import provider_pb2
from reliability import processes
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.waiting import GET, ZONES
from reliability.projects import SWIFT
from reliability.provider_process import ProviderProcess, until, urn
from reliability.rig import SliceRig
from reliability.snapshot import pending_operations, stored_resources

#: Seconds below which another resource's start, or the answer about it, must stay.
LATE_S = 2.0
#: Seconds within which all waits must end after the engine cancels or after Ctrl-C.
END_S = 5.0
#: Seconds that the engine needs at most to record what the provider has answered.
_REGISTERED_S = 1.0
#: Resources whose start is timed in one case.
PROBES = 6
QUEUE, ELSEWHERE = ZONES

#: When the other resources start: while many wait in the queue; at the same moment as those; or
#: while they wait and each of their polls takes five seconds to be answered.
WHEN = ("in the queue", "at once with them", "in the queue, their polls hang")


def cases(rig: ProviderProcess, _seed: int) -> list[Case]:
    """How many wait, and when the others start."""
    del rig
    none = case(0, WHEN[0], PROBES)
    return [none, *(case(many, when, PROBES) for many in (32, 64) for when in WHEN)]


def case(many: int, when: str, probes: int) -> Case:
    """``many`` wait, and ``probes`` others start."""
    return Case(f"{many} wait: {when}", {"waiting": many, "when": when, "probes": probes})


def judge(rig: ProviderProcess, case: Case) -> Result:
    """Many creates that are never granted, others beside them, then the engine cancels."""
    many, when = case.facts["waiting"], case.facts["when"]
    result = Result(case.name, must_strike=False)
    rules = {QUEUE: {"never": True}}
    rig.start(capacity={"zones": rules, "quota": {"*": 100_000}})
    names = [f"wait{number}" for number in range(many)]
    checked = {name: rig.checked(name, zones=[QUEUE], queueTimeout="604800s") for name in names}
    waits = [rig.create(name, inputs) for name, inputs in checked.items()]
    if when != "at once with them":
        until(lambda: rig.queued() == many, 60, f"a queue of {many}")
    if "hang" in when:
        hang = Rule(
            id="hang",
            where=Where(method_id=GET, resource="-wait"),
            times=0,
            effect=Delay(seconds=5),
        )
        rig.control.call("POST", "faults", {"rules": [hang.to_json()]})
    took: dict[str, list[float]] = {}
    for number in range(case.facts["probes"]):
        for name, seconds in _probe(rig, f"probe{number}").items():
            took.setdefault(name, []).append(seconds)
    for name, spans in took.items():
        longest = max(spans)
        result.values[f"{name}_s"] = round(longest, 3)
        result.wanted(longest < LATE_S, "late", f"{name}: {longest:.2f} s")
    # What was begun at once with the probes may reach the API after them.
    until(lambda: rig.queued() >= many, 60, f"a queue of {many}")
    result.values["threads"] = rig.weigh().threads
    over = [name for name, wait in zip(names, waits, strict=True) if wait.done()]
    result.wanted(not over, "not converged", f"these no longer wait: {over}")
    result.wanted(rig.queued() == many, "orphan", f"{rig.queued()} requests exist, not {many}")
    began = time.monotonic()
    rig.stub.Cancel(Empty(), timeout=60)
    ends = [_kept(wait) for wait in waits]
    result.values["cancel_s"] = round(time.monotonic() - began, 2)
    result.wanted(result.values["cancel_s"] < END_S, "slow", f"{result.values['cancel_s']} s")
    good = sum("stopped waiting for" in end for end in ends)
    result.wanted(good == many, "manual", f"{good} of {many} waits are kept: {ends[:2]}")
    rig.stop()
    return result


def _probe(rig: ProviderProcess, name: str) -> dict[str, float]:
    """Seconds until another resource's calls are answered, or first reach the API."""
    began = time.monotonic()
    inputs = rig.checked(name, zones=[ELSEWHERE])
    check = time.monotonic() - began
    label = urn(name)
    create = provider_pb2.CreateRequest(urn=label, properties=inputs)
    made, created = _first_call(rig, name, lambda: rig.stub.Create(create, timeout=60))
    diff = provider_pb2.DiffRequest(
        id=made.id, urn=label, olds=made.properties, news=inputs, old_inputs=inputs
    )
    began = time.monotonic()
    rig.stub.Diff(diff, timeout=60)
    differed = time.monotonic() - began
    read = provider_pb2.ReadRequest(
        id=made.id, urn=label, properties=made.properties, inputs=inputs
    )
    began = time.monotonic()
    rig.stub.Read(read, timeout=60)
    seen = time.monotonic() - began
    delete = provider_pb2.DeleteRequest(
        id=made.id, urn=label, properties=made.properties, old_inputs=inputs
    )
    rig.begin_run()  # none deletes what it has made
    _, deleted = _first_call(rig, name, lambda: rig.stub.Delete(delete, timeout=60))
    return {"check": check, "create": created, "diff": differed, "read": seen, "delete": deleted}


def _first_call(rig: ProviderProcess, name: str, work: Callable[[], Any]) -> tuple[Any, float]:
    """What ``work`` returns, and the seconds until the API has answered its first call."""
    seq, began = rig.control.seq(), rig.now()
    given = work()
    calls = [call for call in rig.control.history(seq) if f"-{name}-" in call["path"]]
    return given, parse_rfc3339(calls[0]["time"]) - began


def _kept(wait: Any) -> str:
    """What an interrupted create reports."""
    try:
        wait.result(timeout=2 * END_S)
    except grpc.RpcError as error:
        return str(error.details())
    except grpc.FutureTimeoutError:
        return "it goes on"
    return "it succeeded"


def engine_cases(rig: SliceRig, _seed: int) -> list[Case]:
    """A program in which many resources wait."""
    del rig
    return [Case("a program with 32 that wait", {"waiting": 32})]


def engine_judge(rig: SliceRig, case: Case) -> Result:
    """`up` of a program in which many wait and the last is granted at once; then Ctrl-C."""
    many, speed = case.facts["waiting"], rig.speed
    result = Result(case.name, must_strike=False)
    arguments = dict(rig.arguments)
    rig.speed = 1.0  # real seconds are judged here
    rig.reset()
    zones = {**SWIFT, "zones": {QUEUE: {"never": True}}, "quota": {"*": 100_000}}
    rig.control.capacity(**zones)
    rig.arguments |= {"zones": [ELSEWHERE], "siblings": many, "siblings_zones": [QUEUE]}
    interrupt = _Interrupt(rig, many)
    interrupt.start()
    try:
        ended = rig.run("up")
        exited = time.monotonic()
        interrupt.join()
        calls = [call for call in rig.control.history(ended.first_seq) if "slice" in call["path"]]
        first = rig.control.history(ended.first_seq)[0]
        delay = parse_rfc3339(calls[0]["time"]) - parse_rfc3339(first["time"])
        result.values["start_s"] = round(delay, 2)
        result.wanted(delay < LATE_S, "late", f"its first call came {delay:.2f} s after the first")
        result.wanted(interrupt.at is not None, "not converged", f"not all began: {rig.said[-1]}")
        result.values["exit_s"] = round(exited - (interrupt.at or exited), 2)
        text = f"`up` ended {result.values['exit_s']} s after Ctrl-C"
        result.wanted(result.values["exit_s"] <= END_S, "slow", text)
        result.wanted(ended.exit_code is not None, "manual", "`up` did not end")
        _judge_state(result, rig, many)
        result.found(rig.check(), "after Ctrl-C")
        down = rig.run("down")
        text = f"`down` exits with {down.exit_code}: {rig.said[-1].stderr}"
        result.wanted(down.exit_code == 0, "manual", text)
        result.found(rig.check(), "after `down`")
    finally:
        rig.arguments, rig.speed = arguments, speed
    return result


def _judge_state(result: Result, rig: SliceRig, many: int) -> None:
    export = rig.export() or {}
    kept = [r for r in stored_resources(export) if r["type"] == "tpuflex:tpu:QueuedResource"]
    states = [r["outputs"]["lifecycle"] for r in kept]
    waiting, active = states.count("waiting"), states.count("active")
    text = f"{waiting} wait and {active} are active in the state"
    result.wanted((waiting, active) == (many, 1), "manual", text)
    result.wanted(not pending_operations(export), "manual", "operations are pending")
    fault = rig.snapshot_error()
    result.wanted(not fault, "manual", f"the engine does not take the state: {fault}")


class _Interrupt(threading.Thread):
    """Presses Ctrl-C once all wait and the one that is granted is ACTIVE.

    Attributes:
        at: when, by ``time.monotonic()``; None if the signal was never sent.
    """

    def __init__(self, rig: SliceRig, many: int) -> None:
        super().__init__(daemon=True)
        self._rig, self._many = rig, many
        self.at: float | None = None

    def run(self) -> None:
        """Wait for that moment, then send the signal."""
        until(self._ready, 60, "the wait of all")
        time.sleep(_REGISTERED_S)
        for process in processes.marked(self._rig.mark):
            if any("slice_program" in word for word in process.cmdline()):
                self.at = time.monotonic()
                os.kill(process.pid, signal.SIGINT)
                return

    def _ready(self) -> bool:
        found = self._rig.control.inventory().get("tpu", {}).get("queuedResources", ())
        states = [item["state"] for item in found]
        if states.count("ACTIVE") != 1 or len(states) != self._many + 1:
            return False
        # The provider must have seen it, too, and the node is the last thing that it reads.
        seen = [call["path"] for call in self._rig.control.history() if call["status"] == 200]
        return any("/nodes/" in path and "slice" in path for path in seen)


FIGURE = Figure(
    key="7",
    counted=("late", "slow"),
    title=f"32 and 64 requests wait in one provider process: another resource's Check, Diff and "
    f"Read are answered, its Create and Delete reach the API, in less than {LATE_S:g} s",
    rig="provider",
    cases=cases,
    judge=judge,
    share=34,
    spare=40,
)
ENGINE_FIGURE = Figure(
    key="7e",
    counted=("late", "slow", "manual"),
    title=f"32 requests wait in one program: one more is made meanwhile; one Ctrl-C ends "
    f"all within {END_S:g} s and leaves a valid state",
    rig="slice",
    cases=engine_cases,
    judge=engine_judge,
    share=3,
    spare=60,
)
