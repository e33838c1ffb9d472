"""The steps of a random history in JSON, decided by a seed before it begins."""

from __future__ import annotations

import random

from pydantic import JsonValue

from embedded_cloud.faults.control import random_rules
from reliability.figures.figure import TPU, Json
from reliability.figures.kills import STAGES
from tpuflex.host.metadata_keys import CONFIG_KEY

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
    # Somebody who only sees that a plugin has died may well continue without a `recover`.
    recovers = "engine" in killed or chance.random() < 0.5
    return {"do": word, "rules": list(rules), "recovers": recovers}
