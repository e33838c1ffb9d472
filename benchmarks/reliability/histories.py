"""Figure 4: random histories with pairs of faults, kills, and changes that others make.

Programs change every input that may change, use one zone or two, and have runs that are renewed and
runs that end, of slices that serve, hand over and drain; slices, requests and nodes are deleted
from outside; capacity comes and goes; state is lost. The steps of a history are decided by
its seed before it begins.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from pydantic import JsonValue

from embedded_cloud.control import inflict
from embedded_cloud.faults.control import random_rules
from reliability.cases import STAGES, TPU, Case, Figure, Json, Result
from reliability.evidence import Command, Violation, is_leaving, is_over, stored_resources
from reliability.faults import servicer_rig
from reliability.servicer_rig import ServicerRig
from tpuflex.codes import Code, split_code
from tpuflex.errors import ConflictError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.host.report import CONFIG_KEY
from tpuflex.queued_resource.name import RequestName

#: The calls that faults are chosen for, each about as often as a command makes it.
CALLS = (
    *[f"{TPU}queuedResources.get"] * 4,
    *[f"{TPU}nodes.get"] * 4,
    f"{TPU}queuedResources.create",
    f"{TPU}queuedResources.delete",
    f"{TPU}nodes.patch",
    f"{TPU}operations.get",
    *[f"{TPU}nodes.getGuestAttributes"] * 4,
)
#: What may come between two commands, and how often.
KINDS = {
    "up": 5,
    "refresh": 3,
    "change": 5,
    "down": 2,
    "delete": 2,
    "delete node": 2,
    "mishap": 1,
    "advance": 2,
    "near the end": 1,
    "run over": 1,
    "capacity": 1,
    "lose state": 1,
}
_A, _B = "us-east5-a", "us-east5-b"
#: What the service may do to one part of a request on its own.
MISHAPS = (("nodes", "preempted"), ("nodes", "lost"), ("queuedResources", "lost"))
#: The roles to kill. An engine that survives treats the operation as failed and records nothing.
KILLED: tuple[list[JsonValue], ...] = (["provider"], ["provider", "engine"])
#: Capacity rules: some zones only, late, slow to arrive and slow to be released.
CAPACITIES: tuple[Json, ...] = (
    {},
    {"zones": {_A: {"never": True}}},
    {"zones": {_B: {"grant_after_s": 300}}},
    {"provisioning_s": 2400},
    {"deleting_s": 2400},
)
#: How many histories the full run has.
COUNT = 10_000
#: Invariants that hold at any time, even right after a failed command.
ALWAYS = frozenset({"I2", "I6", "I9", "I10"})


def cases(_rig: ServicerRig, seed: int, count: int = COUNT) -> list[Case]:
    """One history per number; the seed of the run makes them differ between runs."""
    return [
        Case(f"history {seed}.{number}", {"seed": seed * 1_000_000 + number})
        for number in range(count)
    ]


def judge(rig: ServicerRig, case: Case) -> Result:
    """Play the history; then, without faults, everything must converge and nothing be left."""
    steps = case.facts.get("steps") or plan(case.facts["seed"])
    return tell(rig, case.name, case.facts["seed"], steps)


def tell(rig: ServicerRig, name: str, seed: int, steps: list[Json]) -> Result:
    """Run ``steps``, then settle."""
    result = Result(name)
    rig.reset(seed)
    try:
        for step in steps:
            _step(rig, step, result)
        _settle(rig, result)
    except Exception as error:
        result.wanted(False, "untyped", f"{type(error).__name__}: {error}")
    result.struck += rig.struck()
    return result


def _settle(rig: ServicerRig, result: Result) -> None:
    """Run the most that anybody has to type after any kill or typed failure; after the end of a
    run, that includes asking for a new one."""
    rig.direct.capacity()
    for word in ("recover", "refresh"):
        _ends_well(rig, result, word)
    # A changed program may ask for another run (a preview then shows it); otherwise nobody has.
    planned = {step.operation for step in rig.engine.preview().steps}
    if _is_over(rig) and planned <= {"update", "same"}:
        _stays_over(rig, result)
        _rerun(rig, "again")
    first = rig.run("up")
    if first.exit_code and _is_over(rig):  # the run ended during this very command
        _rerun(rig, "once more")
        first = rig.run("up")
    _ended_well(rig, result, first)
    for word in ("up", "down"):
        _ends_well(rig, result, word)


def _rerun(rig: ServicerRig, word: str) -> None:
    """Make the program ask for another run."""
    assert rig.arguments is not None
    rig.event()
    rig.arguments["rerun"] = word


def _ends_well(rig: ServicerRig, result: Result, word: str) -> None:
    _ended_well(rig, result, rig.run(word))


def _ended_well(rig: ServicerRig, result: Result, ended: Command) -> None:
    word = ended.name
    said = "; ".join(rig.engine.said[-1:])
    text = f"`{word}` (settling) ends with {ended.exit_code}: {said}"
    result.wanted(ended.exit_code == 0, "manual", text)
    result.found(_now(rig, word), f"after `{word}` (settling)")


def _is_over(rig: ServicerRig) -> bool:
    # One that is to be deleted has been replaced: another run was asked for.
    stored = stored_resources(rig.engine.export())
    return any(is_over(resource) for resource in stored if not resource.get("delete"))


def _stays_over(rig: ServicerRig, result: Result) -> None:
    """When the run is over, an `up` must request nothing unasked, say so, and fail unless that is
    accepted."""
    ended = rig.run("up")
    said = "; ".join(rig.engine.said[-1:])
    good = ended.exit_code == 1 and split_code(said)[1] is Code.RUN_OVER
    if (rig.arguments or {}).get("onRunEnd") == "accept":
        good = ended.exit_code == 0
    result.wanted(good, "I7", f"`up` after the run: {said}")
    bought = [
        call
        for call in rig.evidence().history
        if call["seq"] > ended.first_seq and call["method_id"].endswith("queuedResources.create")
    ]
    result.wanted(not bought, "I7", f"`up` after the run sent {bought}")


def _now(rig: ServicerRig, word: str) -> list[Violation]:
    """The violations now, except for those that the next command is meant to repair.

    `recover` settles pending operations and reads nothing else, so only `refresh` finds what
    others have deleted. A replaced request whose deletion was refused is in the state as to be
    deleted, and one that lost a race is there as one of the requests: the next `up` deletes
    both.
    """
    resources = rig.engine.export()["deployment"]["resources"]
    known = {"I3"} if word == "recover" else set()
    losers = any(len((r.get("outputs") or {}).get("requests") or ()) > 1 for r in resources)
    unsettled = losers and not rig.commands[-1].succeeded(("up",))
    if unsettled or is_leaving(rig.engine.export()):
        known.add("I2")
    return [found for found in rig.check() if found.invariant not in known]


def _step(rig: ServicerRig, step: Json, result: Result) -> None:
    assert rig.arguments is not None
    match step["do"]:
        case "change":
            rig.event()
            rig.arguments[step["key"]] = step["value"]
            if step["value"] is None:
                del rig.arguments[step["key"]]
        case "mishap":
            rig.event()
            _inflict(rig, step)
        case "advance":
            rig.advance(step["seconds"])
        case "capacity":
            rig.event()
            rig.direct.capacity(**step["rules"])
        case "delete" | "delete node" as deletion:
            # No fault strikes a deletion from outside: the last command's rules are over.
            result.struck += rig.direct.faults.book.struck
            rig.direct.faults.forget()
            rig.event(_delete_all(rig) if deletion == "delete" else _delete_nodes(rig))
        case "lose state":
            rig.event()
            rig.engine.clear()
            rig.run("recover")
        case word:
            ended = rig.run(word, rules=step["rules"])
            if ended.exit_code == -9 and step.get("recovers", True):
                rig.run("recover")
            held = ALWAYS - {"I2"} if _unrecovered(rig) else ALWAYS
            now = [found for found in _now(rig, word) if found.invariant in held]
            result.found(now, f"after `{word}`")


def _unrecovered(rig: ServicerRig) -> bool:
    """Whether a kill was not followed by a `recover`: more than one request may then exist."""
    kills = [number for number, command in enumerate(rig.commands) if command.exit_code == -9]
    return bool(kills) and all(c.name != "recover" for c in rig.commands[kills[-1] :])


def _inflict(rig: ServicerRig, step: Json) -> None:
    tpu = rig.direct.cloud.tpu
    tpu.sync()
    there = rig.direct.cloud.inventory().get("tpu", {}).get(step["kind"], [])
    if there:
        name = str(there[step["which"] % len(there)]["name"])
        inflict(tpu, {"name": name, "mishap": step["mishap"]})


def _delete_all(rig: ServicerRig) -> Callable[[TpuClient], object]:
    requests = rig.direct.cloud.inventory().get("tpu", {}).get("queuedResources", [])
    names = [RequestName.parse(str(found["name"])) for found in requests]

    def delete(client: TpuClient) -> None:
        for name in names:
            # Google refuses it while the slice is being created or deleted.
            with contextlib.suppress(ConflictError):
                client.delete_queued_resource(name, request_id="theirs")

    return delete


def _delete_nodes(rig: ServicerRig) -> Callable[[TpuClient], object]:
    nodes = [str(n["name"]) for n in rig.direct.cloud.inventory().get("tpu", {}).get("nodes", [])]

    def delete(client: TpuClient) -> None:
        for node in nodes:
            with contextlib.suppress(ConflictError):
                client.delete_node(node)

    return delete


# -- what happens, decided by a seed ---------------------------------------------------------------


def plan(seed: int) -> list[Json]:
    """The steps of the history that ``seed`` decides."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    steps = [_change(chance) for _ in range(chance.choice((0, 0, 1, 2)))]
    steps.append(_command(chance, "up"))
    for _ in range(chance.randint(2, 6)):
        match chance.choices(tuple(KINDS), tuple(KINDS.values()))[0]:
            case "change":
                steps += [_change(chance), _command(chance, "up")]
            case "near the end":
                # A run has 4 hours, and renew_before is one of them, where it is set.
                steps += [{"do": "advance", "seconds": 11_000}, _command(chance, "up")]
            case "run over":
                steps += [{"do": "advance", "seconds": 15_000}, _command(chance, "up")]
            case "advance":
                steps.append({"do": "advance", "seconds": chance.choice((1, 60, 600))})
            case "capacity":
                steps.append({"do": "capacity", "rules": chance.choice(CAPACITIES)})
            case "delete" | "delete node" | "lose state" as word:
                steps.append({"do": word})
            case "mishap":
                kind, mishap = chance.choice(MISHAPS)
                what: Json = {"kind": kind, "mishap": mishap, "which": chance.randrange(8)}
                steps.append({"do": "mishap", **what})
            case command:
                steps.append(_command(chance, command))
    return steps


def _change(chance: random.Random) -> Json:
    """A change of one input of the program; None removes it."""
    word = f"w{chance.randint(0, 999)}"
    values: dict[str, tuple[object, ...]] = {
        "labels": ({"team": word},),
        "description": (word,),
        "metadata": (
            {"startup-script": f"echo {word}", CONFIG_KEY: "{}"},
            {"motd": word, CONFIG_KEY: "{}"},
        ),
        "onBootChange": ("update", "replace"),
        "tags": ([word], []),
        "externalIps": (True, False),
        "zones": ([_A, _B], [_B, _A], [_A], [_B]),
        "strategy": ("race", "ordered"),
        "renewBefore": ("3600s", None),
        "rerun": (word,),
        "onRunEnd": ("delete", "keep", "accept"),
        "multiNode": ({"nodeCount": 2}, {"nodeCount": 3}, None),
    }
    key = chance.choice(tuple(values))
    return {"do": "change", "key": key, "value": chance.choice(values[key])}


def _command(chance: random.Random, word: str) -> Json:
    """A command with a pair of faults, one of them sometimes a kill, or with none at all."""
    if chance.random() < 0.2:
        return {"do": word, "rules": []}
    rules = [r.to_json() for r in random_rules(chance.randrange(10**9), CALLS, count=2)]
    if chance.random() >= 0.3:
        return {"do": word, "rules": list(rules)}
    killed = chance.choice(KILLED)
    rules[-1] = {
        "where": {"method_id": chance.choice(CALLS)},
        "nth": chance.randint(1, 4),
        "stage": chance.choice(STAGES),
        "effect": {"kind": "kill", "roles": killed},
    }
    # A user who only sees that a plugin has died may well continue without a `recover`.
    recovers = "engine" in killed or chance.random() < 0.5
    return {"do": word, "rules": list(rules), "recovers": recovers}


FIGURE = Figure(
    key="4",
    counted=("orphan", "duplicate", "manual", "untyped", "away", "cut"),
    title="seeded random histories of up, refresh, change, renew, down with pairs of faults, "
    "kills, runs that end, lost states, and deletions behind our back: 0 violations",
    rig=servicer_rig,
    cases=cases,
    judge=judge,
)
