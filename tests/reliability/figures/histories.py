"""Figure 4: random histories with pairs of faults, kills, and deletions behind our back.

A history is a plan in JSON, made from its seed before it begins: a failing one is written to a
file that tells it again, whatever becomes of this generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from reliability.figures.figure import TPU, Case, Figure, Json, Result
from reliability.invariants import Violation
from reliability.servicer_rig import ServicerRig
from tpuflex.emulator.faults.catalogue import random_rules
from tpuflex.gcp.queued_resources import RequestName, TpuClient

#: How many histories the full run has.
COUNT = 10_000
#: The calls that faults are chosen for, each about as often as a command makes it.
CALLS = (
    *[f"{TPU}queuedResources.get"] * 4,
    *[f"{TPU}nodes.get"] * 4,
    f"{TPU}queuedResources.create",
    f"{TPU}queuedResources.delete",
    f"{TPU}nodes.patch",
    f"{TPU}operations.get",
)
KILL_STAGES = ("before-commit", "after-commit", "after-response")
#: Invariants that hold at any time, also right after a command that failed.
ALWAYS = frozenset({"I2", "I6"})


def cases(_rig: ServicerRig, seed: int, count: int = COUNT) -> list[Case]:
    """One history per number, told apart by the seed of the run."""
    return [
        Case(f"history {seed}.{number}", {"seed": seed * 1_000_000 + number})
        for number in range(count)
    ]


def plan(seed: int) -> list[Json]:
    """The steps of the history that ``seed`` decides."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    steps: list[Json] = [_command(chance, "up")]
    for _ in range(chance.randint(2, 6)):
        kind = chance.choices(
            ("up", "refresh", "change", "down", "delete", "advance"), (4, 3, 3, 2, 2, 2)
        )[0]
        if kind == "change":
            key = chance.choice(("labels", "description", "metadata"))
            word = f"w{chance.randint(0, 999)}"
            value: object = {"team": word}
            if key == "description":
                value = word
            elif key == "metadata":
                value = {"startup-script": f"echo {word}"}
            steps += [{"do": "change", "key": key, "value": value}, _command(chance, "up")]
        elif kind == "delete":
            steps.append({"do": "delete"})
        elif kind == "advance":
            steps.append({"do": "advance", "seconds": chance.choice((1, 60, 600))})
        else:
            steps.append(_command(chance, kind))
    return steps


def judge(rig: ServicerRig, case: Case) -> Result:
    """Tell the history; then, without faults, everything converges and nothing is left."""
    steps = case.facts.get("steps") or plan(case.facts["seed"])
    return tell(rig, case.name, case.facts["seed"], steps)


def tell(rig: ServicerRig, name: str, seed: int, steps: list[Json]) -> Result:
    """Run ``steps``, then settle."""
    result = Result(name)
    rig.reset(seed)
    try:
        for step in steps:
            _step(rig, step, result)
        # After any kill or typed failure a person types at most this.
        for number, word in enumerate(("recover", "refresh", "up", "up", "down")):
            ended = rig.run(word)
            text = f"`{word}` (settling, {number}) ends with {ended.exit_code}: "
            said = "; ".join(rig.engine.said[-1:])
            result.wanted(ended.exit_code == 0, "manual", text + said)
            result.found(_now(rig, word), f"after `{word}` (settling)")
    except Exception as error:
        result.wanted(False, "untyped", f"{type(error).__name__}: {error}")
    result.struck += rig.struck()
    return result


def _now(rig: ServicerRig, word: str) -> list[Violation]:
    """What is violated; but for what the next command is there to mend.

    `recover` settles what is pending and reads nothing else, so that only `refresh` finds what
    was deleted behind our back. A replaced request whose deletion was refused stands in the
    state as to be deleted, and the next `up` does so.
    """
    resources = rig.engine.export()["deployment"]["resources"]
    known = {"I3"} if word == "recover" else set()
    if any(resource.get("delete") for resource in resources):
        known.add("I2")
    return [found for found in rig.check() if found.invariant not in known]


def _step(rig: ServicerRig, step: Json, result: Result) -> None:
    assert rig.arguments is not None
    match step["do"]:
        case "change":
            rig.event()
            rig.arguments[step["key"]] = step["value"]
        case "advance":
            rig.advance(step["seconds"])
        case "delete":
            # Somebody else's deletion meets no fault: the rules of the last command are over.
            result.struck += rig.direct.faults.book.struck
            rig.direct.faults.forget()
            rig.event(_delete_all(rig))
        case word:
            ended = rig.run(word, rules=step["rules"])
            if ended.exit_code == -9:
                rig.run("recover")
            now = [found for found in _now(rig, word) if found.invariant in ALWAYS]
            result.found(now, f"after `{word}`")


def _delete_all(rig: ServicerRig) -> Callable[[TpuClient], object]:
    requests = rig.direct.cloud.inventory().get("tpu", {}).get("queuedResources", [])
    names = [RequestName.parse(str(found["name"])) for found in requests]

    def delete(client: TpuClient) -> None:
        for name in names:
            client.delete_queued_resource(name, request_id="theirs")

    return delete


def _command(chance: random.Random, word: str) -> Json:
    """A command with a pair of faults, sometimes one of them a kill; or none at all."""
    if chance.random() < 0.2:
        return {"do": word, "rules": []}
    rules = [r.to_json() for r in random_rules(chance.randrange(10**9), CALLS, count=2)]
    if chance.random() < 0.3:
        rules[-1] = {
            "where": {"method_id": chance.choice(CALLS)},
            "nth": chance.randint(1, 4),
            "stage": chance.choice(KILL_STAGES),
            "effect": {"kind": "kill", "roles": ["provider"]},
        }
    return {"do": word, "rules": list(rules)}


FIGURE = Figure(
    key="4",
    counted=("orphan", "duplicate", "manual", "untyped"),
    title="seeded random histories of up, refresh, change, down with pairs of faults, kills and "
    "deletions behind our back: 0 violations",
    rig="servicer",
    cases=cases,
    judge=judge,
    share=12,
    spare=1,
)
