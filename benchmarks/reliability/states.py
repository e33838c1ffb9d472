"""How a stack gets into each state in which a teardown may find it.

Everything is done from outside: capacity rules, the clock, faults, and API calls made by somebody
else. This works on every rig that runs commands as processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

from reliability.rig import Rig, StackRig

Json = dict[str, Any]
Reach = Callable[[Rig], None]

TPU = "tpu.projects.locations."
#: Longer than any command takes, in seconds of the cloud's time.
FOR_EVER = 1e6
#: More than the longest run of the rigs' programs.
AFTER_THE_RUN = 20_000
_OWN = ("acceleratorType", "runtimeVersion", "labels", "serviceAccount", "networkConfig")


@dataclass(frozen=True, slots=True)
class State:
    """One state.

    Attributes:
        reach: brings a rig from nothing to this state.
        stuck: whether Google holds on to the slice for longer than `down` may take.
        foreign: whether the name belongs to somebody else.
        zones: the zones that the program must have; unchanged if empty.
    """

    reach: Reach
    stuck: bool = False
    foreign: bool = False
    zones: tuple[str, ...] = ()


def nothing(_rig: Rig) -> None:
    """Nothing was ever brought up."""


def waiting(rig: Rig) -> None:
    """In the queue, after Ctrl-C."""
    rig.control.capacity(grant_after_s=FOR_EVER)
    _interrupted(rig)


def provisioning(rig: Rig) -> None:
    """In PROVISIONING forever, after Ctrl-C."""
    rig.control.capacity(provisioning_s=FOR_EVER)
    _interrupted(rig)


def active(rig: Rig) -> None:
    """Up."""
    run_well(rig, "up")


def ended(rig: Rig) -> None:
    """The run is over."""
    active(rig)
    rig.event()
    rig.control.advance(AFTER_THE_RUN)


def ended_and_told(rig: Rig) -> None:
    """The run is over, the state has recorded that, and somebody has cleaned up."""
    ended(rig)
    run_well(rig, "refresh")
    rig.event()
    _call(rig, "DELETE", _request(rig)["name"])
    rig.control.advance(10)


def failed(rig: Rig) -> None:
    """The create operation was rejected."""
    _failing(rig, {"kind": "operation-error", "code": 3, "message": "not supported"})


def quota_only(rig: Rig) -> None:
    """The create operation failed because capacity ran out, and left something behind."""
    _failing(rig, {"kind": "operation-error", "code": 8, "message": "GCE_STOCKOUT"})


def node_missing(rig: Rig) -> None:
    """Somebody deleted the node."""
    active(rig)
    rig.event()
    _call(rig, "DELETE", _node_name(rig))
    rig.control.advance(10)


def orphaned(rig: Rig) -> None:
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


def deleting(rig: Rig) -> None:
    """Somebody is deleting it right now."""
    _deleted(rig, 60)


def stuck_deleting(rig: Rig) -> None:
    """Somebody is deleting it, and the deletion never ends."""
    _deleted(rig, FOR_EVER)


def foreign(rig: Rig) -> None:
    """Our request is gone, and somebody else has its name."""
    active(rig)
    rig.event()
    found = _call(rig, "GET", _request(rig)["name"])
    _call(rig, "DELETE", f"{found['name']}?force=true")
    rig.control.advance(10)
    spec = json.loads(json.dumps(found["tpu"]["nodeSpec"]))
    spec[0]["node"]["labels"] = {"tpuflex-owner": "ffffffffffffffff", "tpuflex-stack": "theirs"}
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
    "foreign": State(foreign, foreign=True),
}


def consent(rig: Rig) -> tuple[str, ...]:
    """The arguments that confirm a change on the command line."""
    return ("--yes",) if isinstance(rig, StackRig) else ()


def run_well(rig: Rig, word: str) -> None:
    """Run a command that must succeed."""
    ended = rig.run(word, *consent(rig))
    assert ended.exit_code == 0, f"`{word}` exits with {ended.exit_code}: {rig.said[-1].stderr}"


def _interrupted(rig: Rig) -> None:
    """Run an `up` that gets one Ctrl-C once its request is accepted.

    The request may be refused at first: only one that is accepted has an operation.
    """
    rule = {
        "where": {"method_id": f"{TPU}operations.get"},
        "nth": 1,
        "stage": "after-response",
        "effect": {"kind": "kill", "roles": ["cli"], "signal": "INT"},
    }
    rig.run("up", *consent(rig), rules=[rule])


def _failing(rig: Rig, effect: Json) -> None:
    rig.run(
        "up",
        *consent(rig),
        rules=[{"where": {"method_id": f"{TPU}queuedResources.create"}, "effect": effect}],
    )


def _deleted(rig: Rig, seconds: float) -> None:
    active(rig)
    rig.event()
    rig.control.capacity(deleting_s=seconds)
    _call(rig, "DELETE", f"{_request(rig)['name']}?force=true")


def _request(rig: Rig) -> Json:
    """The only queued resource."""
    (found,) = rig.control.inventory()["tpu"]["queuedResources"]
    return dict(found)


def _node_name(rig: Rig) -> str:
    (found,) = rig.control.inventory()["tpu"]["nodes"]
    return str(found["name"])


def delete_by_hand(rig: Rig) -> None:
    """Delete the slice as somebody else, until it is gone."""
    _call(rig, "DELETE", f"{_request(rig)['name']}?force=true")
    rig.control.advance(60)


def _call(rig: Rig, method: str, name: str, body: Json | None = None) -> Json:
    """Call the TPU API as somebody else."""
    answer = requests.request(
        method,
        f"{rig.control.url}/v2alpha1/{name}",
        json=body,
        headers={"Authorization": f"Bearer {rig.control.token}"},
        timeout=30,
    )
    assert answer.ok, f"{method} {name}: {answer.text}"
    return dict(answer.json())
