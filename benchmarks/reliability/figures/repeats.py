"""Figure 8: a second `up` that changes nothing, and a preview that plans nothing.

The commands of one case alternate between two hash seeds, so that nothing can depend on the order
of a set. The slice rig runs the queued resource in many settings; the stack rig runs every stack
file of the project. Those for Google name things that only Google has (an image, a large model,
four serving chips, a data type of the TPU): only these are replaced, everything else is brought up
as written.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from reliability.command_rig import ROOT
from reliability.figures.figure import Case, Figure, Json, Result
from reliability.rig import Rig, SliceRig, StackRig
from reliability.states import consent
from reliability.traces import is_mutating

#: Possible settings of one slice.
STACKS: dict[str, Json] = {
    "plain": {},
    "description": {"description": "a slice"},
    "tags": {"tags": ["one", "two"]},
    "network": {"external_ips": True},
    "no labels": {"labels": {}},
    "many labels": {"labels": {f"label-{n}": f"value-{n}" for n in range(24)}},
    "much metadata": {"metadata": {f"key-{n}": f"value {n}" for n in range(24)}},
    "boot by update": {"on_boot_change": "update"},
    "two zones": {"zones": ["us-east5-a", "us-east5-b"]},
    "two zones in order": {"zones": ["us-east5-b", "us-east5-a"], "strategy": "ordered"},
    "renewed": {"renew_before": "3600s", "rerun": "1", "on_run_end": "delete"},
    "protected": {"deletion_protection": True},
    "scopes": {"scopes": ["https://www.googleapis.com/auth/cloud-platform"]},
}
_HASH_SEEDS = ("0", "1")


def slice_cases(_rig: SliceRig, _seed: int) -> list[Case]:
    """Each setting of the table."""
    return [Case(f"second up: {name}", {"stack": name}) for name in STACKS]


def stack_cases(_rig: StackRig, _seed: int) -> list[Case]:
    """Each stack file."""
    files = sorted(path.name for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))
    return [Case(f"second up: {name}", {"file": name}) for name in files]


def judge(rig: Rig, case: Case) -> Result:
    """Up, up: no mutating call; refresh, preview: no change; down leaves nothing."""
    result = Result(case.name, must_strike=False)
    rig.reset()
    if isinstance(rig, SliceRig):
        before = dict(rig.arguments)
        rig.arguments = {**before, **STACKS[case.facts["stack"]]}
        try:
            _repeated(rig, result)
        finally:
            rig.arguments = before
        return result
    file = rig.home / "stacks" / f"Pulumi.{rig.stack}.yaml"
    text = file.read_text()
    try:
        file.write_text(on_this_machine(ROOT / "stacks" / case.facts["file"], text))
        _repeated(rig, result)
        ended = rig.run("down", "--yes")
        result.wanted(ended.exit_code == 0, "manual", f"`down`: {rig.said[-1].stderr}")
        result.found(rig.check(), "after `down`")
    finally:
        file.write_text(text)
    return result


def _repeated(rig: Rig, result: Result) -> None:
    _all_well(rig, result, "up", hash_seed=0)
    again = _all_well(rig, result, "up", hash_seed=1)
    calls = [c for c in rig.control.history(again) if is_mutating(c)]
    result.values["mutating"] = len(calls)
    result.wanted(not calls, "mutating", f"a second `up` sent {calls}")
    _all_well(rig, result, "refresh", hash_seed=0)
    for number in range(len(_HASH_SEEDS)):
        _all_well(rig, result, "preview", hash_seed=number)
        changes = _planned(rig)
        result.wanted(not changes, "mutating", f"preview after refresh: {changes}")


def _all_well(rig: Rig, result: Result, word: str, *, hash_seed: int) -> int:
    """Run a command that must succeed; return the history's last line before it."""
    rig.environment["PYTHONHASHSEED"] = _HASH_SEEDS[hash_seed]
    words = {"up": consent(rig), "refresh": (), "preview": _as_json(rig)}[word]
    if word == "refresh" and isinstance(rig, StackRig):
        # The command line has no such command: an `up` refreshes what it needs to.
        return _refresh(rig, result)
    ended = rig.run(word, *words)
    text = f"`{word}` exits with {ended.exit_code}: {rig.said[-1].stderr}"
    result.wanted(ended.exit_code == 0, "manual", text)
    if word != "preview":
        result.found(rig.check(), f"after `{word}`")
    return ended.first_seq


def _refresh(rig: StackRig, result: Result) -> int:
    """`pulumi refresh`, which reads everything."""
    seq = rig.control.seq()
    said = rig.pulumi("refresh", "--yes", "--skip-preview")
    result.wanted(said.returncode == 0, "manual", f"`pulumi refresh`: {said.stdout}{said.stderr}")
    return seq


def _as_json(rig: Rig) -> tuple[str, ...]:
    return ("--json",) if isinstance(rig, StackRig) else ()


def _planned(rig: Rig) -> list[str]:
    """What the last preview would change."""
    printed = rig.said[-1].stdout
    if isinstance(rig, StackRig):
        return [f"{c['operation']} {c['type']} {c['name']}" for c in json.loads(printed)["changes"]]
    steps = [line for line in printed.splitlines() if " " in line]
    return [s for s in steps if s.split()[0] in ("create", "update", "replace", "delete")]


def on_this_machine(file: Path, dev: str) -> str:
    """A stack file in which only what the embedded cloud lacks is replaced: image, model, data type
    of the cache, chips that share a layer."""
    if file.name == "Pulumi.dev.yaml":
        return dev
    document, here = yaml.safe_load(file.read_text()), yaml.safe_load(dev)
    config = document["config"]
    config["tpuflex:cloud"] = "embedded"
    config["tpuflex:model"] = here["config"]["tpuflex:model"]
    serving, ours = config["tpuflex:serving"], here["config"]["tpuflex:serving"]
    serving["image"] = ours["image"]
    # The rules know the small model's longest sequence, and what its machine holds.
    serving["env"] = {**serving.get("env", {}), **ours["env"]}
    serving["flags"]["max_model_len"] = ours["flags"]["max_model_len"]
    serving["flags"].pop("kv_cache_dtype", None)
    serving["flags"]["tensor_parallel_size"] = 1
    document["encryptionsalt"] = here["encryptionsalt"]
    return yaml.safe_dump(document)


FIGURE = Figure(
    key="8",
    counted=("mutating",),
    title="second `up`: 0 mutating calls; preview after refresh: no changes; 2 hash seeds",
    rig="slice",
    cases=slice_cases,
    judge=judge,
    share=11,
    spare=25,
)
STACK_FIGURE = Figure(
    key="8s",
    counted=("mutating",),
    title="the same for every stack file, the whole stack",
    rig="stack",
    cases=stack_cases,
    judge=judge,
    share=46,
    spare=60,
)
