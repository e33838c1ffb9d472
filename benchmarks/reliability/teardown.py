"""Figure 9: teardown from every state, twice and two at once.

How a stack gets into each state is done from outside: capacity rules, the clock, faults, and API
calls made by another client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from reliability.cases import TPU, Case, Figure, Json, Result
from reliability.evidence import Command, stored_resources
from reliability.kills import stack_rig
from reliability.rig import StackRig
from tpuflex.errors import EngineError, IncompleteTeardownError
from tpuflex.naming import QUEUED_RESOURCE

#: How long a deletion may take if the slice is stuck, in seconds of the cloud's time.
_PATIENCE = 120
_LOCKED, _LEFT = EngineError.exit_code, IncompleteTeardownError.exit_code
HOW = ("twice", "two at once")
#: Longer than any command takes, in seconds of the cloud's time.
FOR_EVER = 1e6
#: More than the longest run of the rigs' programs.
AFTER_THE_RUN = 20_000
_OWN = ("acceleratorType", "runtimeVersion", "labels", "serviceAccount", "networkConfig")


@dataclass(frozen=True, slots=True)
class State:
    """One state: what brings a rig from nothing to it, in these ``zones`` if any are given, and
    whether Google then holds on to the slice for longer than `down` may take."""

    reach: Callable[[StackRig], None]
    stuck: bool = False
    zones: tuple[str, ...] = ()


def nothing(_rig: StackRig) -> None:
    """Nothing was ever brought up."""


def waiting(rig: StackRig) -> None:
    """In the queue, after Ctrl-C."""
    rig.control.capacity(grant_after_s=FOR_EVER)
    _interrupted(rig)


def provisioning(rig: StackRig) -> None:
    """In PROVISIONING forever, after Ctrl-C."""
    rig.control.capacity(provisioning_s=FOR_EVER)
    _interrupted(rig)


def active(rig: StackRig) -> None:
    """Up."""
    rig.run_well("up")


def ended(rig: StackRig) -> None:
    """The run is over."""
    active(rig)
    rig.event()
    rig.control.advance(AFTER_THE_RUN)


def ended_and_told(rig: StackRig) -> None:
    """The run is over, the state has recorded that, and its leftovers were cleaned up."""
    ended(rig)
    assert rig.run("up").exit_code != 0  # it says that the run is over
    rig.event()
    _call(rig, "DELETE", _request(rig)["name"])
    rig.control.advance(10)


def failed(rig: StackRig) -> None:
    """The create operation was rejected."""
    _failing(rig, {"kind": "operation-error", "code": 3, "message": "not supported"})


def quota_only(rig: StackRig) -> None:
    """The create operation failed because capacity ran out, and left something behind."""
    _failing(rig, {"kind": "operation-error", "code": 8, "message": "GCE_STOCKOUT"})


def node_missing(rig: StackRig) -> None:
    """The node was deleted from outside."""
    active(rig)
    rig.event()
    _call(rig, "DELETE", _node_name(rig))
    rig.control.advance(10)


def orphaned(rig: StackRig) -> None:
    """The queued resource is gone, but its node still exists."""
    active(rig)
    rig.event()
    name, request = _node_name(rig), _request(rig)["name"]
    found = _call(rig, "GET", name)
    _call(rig, "DELETE", f"{request}?force=true")
    rig.control.advance(10)
    parent, _, id_ = name.rpartition("/")
    _call(rig, "POST", f"{parent}?nodeId={id_}", {key: found[key] for key in _OWN if key in found})
    rig.control.advance(10)


def deleting(rig: StackRig) -> None:
    """It is being deleted right now."""
    _deleted(rig, 60)


def stuck_deleting(rig: StackRig) -> None:
    """It is being deleted, and the deletion never ends."""
    _deleted(rig, FOR_EVER)


def foreign(rig: StackRig) -> None:
    """Our request is gone, and another owner has its name."""
    active(rig)
    rig.event()
    found = _call(rig, "GET", _request(rig)["name"])
    _call(rig, "DELETE", f"{found['name']}?force=true")
    rig.control.advance(10)
    spec = json.loads(json.dumps(found["tpu"]["nodeSpec"]))
    theirs = {"tpuflex-owner": "ffffffffffffffff", "tpuflex-stack": "theirs"}
    spec[0]["node"] |= {"labels": theirs, "networkConfig": {}}
    body: Json = {key: found[key] for key in ("provisioningModel", "runDuration") if key in found}
    parent, _, id_ = str(found["name"]).rpartition("/")
    _call(rig, "POST", f"{parent}?queuedResourceId={id_}", {**body, "tpu": {"nodeSpec": spec}})
    rig.control.advance(60)
    rig.remember_foreign()


STATES: dict[str, State] = {
    "nothing": State(nothing),
    "waiting": State(waiting),
    "two zones racing": State(waiting, zones=("us-east5-a", "us-east5-b")),
    "provisioning": State(provisioning, stuck=True),
    "active": State(active),
    "ended": State(ended),
    "ended, leftover gone": State(ended_and_told),
    "failed": State(failed),
    "quota only": State(quota_only),
    "node missing": State(node_missing),
    "orphaned node": State(orphaned),
    "deleting": State(deleting),
    "stuck deleting": State(stuck_deleting, stuck=True),
    "foreign": State(foreign),
}


def _interrupted(rig: StackRig) -> None:
    """Run an `up` that gets one Ctrl-C once its request is accepted.

    The request may be refused at first: only one that is accepted has an operation.
    """
    rule = {
        "where": {"method_id": f"{TPU}operations.get"},
        "nth": 1,
        "stage": "after-response",
        "effect": {"kind": "kill", "roles": ["cli"], "signal": "INT"},
    }
    rig.run("up", rules=[rule])


def _failing(rig: StackRig, effect: Json) -> None:
    rig.run(
        "up",
        rules=[{"where": {"method_id": f"{TPU}queuedResources.create"}, "effect": effect}],
    )


def _deleted(rig: StackRig, seconds: float) -> None:
    active(rig)
    rig.event()
    rig.control.capacity(deleting_s=seconds)
    _call(rig, "DELETE", f"{_request(rig)['name']}?force=true")


def _request(rig: StackRig) -> Json:
    """The only queued resource."""
    (found,) = rig.control.inventory()["tpu"]["queuedResources"]
    return dict(found)


def _node_name(rig: StackRig) -> str:
    (found,) = rig.control.inventory()["tpu"]["nodes"]
    return str(found["name"])


def delete_by_hand(rig: StackRig) -> None:
    """Delete the slice as another client, until it is gone."""
    _call(rig, "DELETE", f"{_request(rig)['name']}?force=true")
    rig.control.advance(60)


def _call(rig: StackRig, method: str, name: str, body: Json | None = None) -> Json:
    """Call the TPU API as another client."""
    return dict(rig.make(method, f"v2alpha1/{name}", body))


def cases(_rig: StackRig, _seed: int) -> list[Case]:
    """Each state in each way."""
    return [
        Case(f"down {how} from {state}", {"state": state, "how": how})
        for state in STATES
        for how in HOW
    ]


def judge(rig: StackRig, case: Case) -> Result:
    """Bring the stack into the state, take it down, and check what is left."""
    result = Result(case.name, must_strike=False)
    state, at_once = STATES[case.facts["state"]], case.facts["how"] == "two at once"
    slice_: Json = {"zones": list(state.zones)} if state.zones else {}
    if state.stuck:
        slice_["timeouts"] = {"delete": f"{_PATIENCE}s"}
    rig.edit(slice=slice_)
    rig.reset()
    state.reach(rig)
    result.struck += rig.struck()
    if state.stuck:
        (_both if at_once else _one)(rig, result, may_end=False)
        kept = [r for r in stored_resources(rig.export()) if r["type"] == QUEUED_RESOURCE]
        result.wanted(len(kept) == 1, "orphan", f"the state has {len(kept)} slices")
        rig.event()
        rig.control.advance(3e6)
        rig.control.capacity()
    elif at_once:
        _both(rig, result, may_end=True)
    for _ in range(2):
        _one(rig, result, may_end=True)
    return result


def _one(rig: StackRig, result: Result, *, may_end: bool) -> None:
    """One `down`: either nothing is left, or it reports at its deadline that something is."""
    ended = rig.run("down")
    _judged(rig, result, ended, number=-1, may_end=may_end)
    if may_end:
        result.found(rig.check(), "after `down`")


def _both(rig: StackRig, result: Result, *, may_end: bool) -> None:
    """Two `down` at the same moment: each succeeds or is clearly refused.

    Both may be: the engine's backend of files writes a lock before it looks for those of others
    (`Lock` in pulumi's `pkg/backend/diy/lock.go`), so two can see each other and both give way. It
    was seen on a machine with seven processes per core. The same command again is judged after it.
    """
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(rig.run, "down") for _ in range(2)]
        ended = [each.result() for each in running]
    refused = [n for n, command in enumerate(rig.commands[-2:], -2) if command.exit_code == _LOCKED]
    for number in (-2, -1):
        if number in refused:
            said = rig.said[number].stderr
            clear = "It is process " in said and "tpuflex recover" in said
            result.wanted(clear, "untyped", f"a `down` is refused without saying why: {said}")
        else:
            _judged(rig, result, rig.commands[number], number=number, may_end=may_end)
    if may_end:
        # For the checker, the one that did the work comes last.
        rig.commands.sort(key=lambda command: command in ended and command.exit_code == 0)
        result.found(rig.check(), "after two `down` at once")


def _judged(rig: StackRig, result: Result, ended: Command, *, number: int, may_end: bool) -> None:
    said = rig.said[number]
    printed = said.stdout + said.stderr
    text = f"`down` exits with {ended.exit_code}: {said.stderr}"
    if may_end:
        result.wanted(ended.exit_code == 0, "manual", text)
        return
    result.wanted(ended.exit_code == _LEFT, "untyped", text)
    result.wanted("is not gone after 2m" in printed, "untyped", f"no deadline is named: {printed}")
    result.wanted("`tpuflex down` again" in printed, "untyped", f"no way on is named: {printed}")
    alive = re.search(r"\(1m\d*s? so far\)", printed) is not None
    result.wanted(alive, "untyped", f"no sign of life: {printed}")


FIGURE = Figure(
    key="9",
    counted=("manual", "orphan"),
    title="teardown of the dev stack from every state, twice and two at once: exit code 0 and "
    "nothing left, or refused, or reported as left",
    rig=stack_rig,
    cases=cases,
    judge=judge,
)
