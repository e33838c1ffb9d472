"""Figure 9: teardown from every state: twice, two at once, and past what must not be deleted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from reliability.figures.figure import Case, Figure, Json, Result
from reliability.invariants import Command
from reliability.rig import Rig, SliceRig, StackRig
from reliability.states import STATES, consent, delete_by_hand, run_well
from tpuflex.errors import EngineError, IncompleteTeardownError
from tpuflex.naming import QUEUED_RESOURCE

#: How long a deletion may take if the slice is stuck, in seconds of the cloud's time.
_PATIENCE = 120
_LOCKED, _LEFT = EngineError.exit_code, IncompleteTeardownError.exit_code
HOW = ("twice", "two at once")
#: Options that protect a slice from deletion.
KEEPERS = ("deletion_protection", "protect", "retain_on_delete")
#: States that are also run on the whole stack.
_WHOLE = ("nothing", "waiting", "provisioning", "active", "ended", "failed", "node missing")


def cases(_rig: SliceRig, _seed: int) -> list[Case]:
    """Each state in each way, and the options that protect a slice in plain Pulumi."""
    found = [
        Case(f"down {how} from {state}", {"state": state, "how": how})
        for state in STATES
        for how in HOW
    ]
    keepers = [Case(f"down past {k}", {"keeper": k}) for k in KEEPERS[:2]]
    return [*found, *keepers]


def stack_cases(_rig: StackRig, _seed: int) -> list[Case]:
    """The states that the command line treats differently, and all options that protect a slice."""
    found = [
        Case(f"stack down {how} from {state}", {"state": state, "how": how})
        for state in _WHOLE
        for how in (HOW if state in ("active", "provisioning") else HOW[:1])
    ]
    return [*found, *(Case(f"stack down past {k}", {"keeper": k}) for k in KEEPERS)]


def judge(rig: Rig, case: Case) -> Result:
    """Bring the stack into the state, take it down, and check what is left."""
    result = Result(case.name, must_strike=False)
    rig.reset()
    if "keeper" in case.facts:
        with _program(rig, deletion_protection=case.facts["keeper"] == "deletion_protection"):
            _past_a_keeper(rig, result, case.facts["keeper"])
        return result
    state, at_once = STATES[case.facts["state"]], case.facts["how"] == "two at once"
    with _program(rig, zones=state.zones, patience=state.stuck):
        state.reach(rig)
        result.struck += rig.struck()
        if state.stuck:
            (_both if at_once else _one)(rig, result, may_end=False)
            _is_kept(rig, result)
            rig.event()
            rig.control.advance(3e6)
            rig.control.capacity()
        elif at_once:
            _both(rig, result, may_end=True)
        _one(rig, result, may_end=True)
        _one(rig, result, may_end=True)
    return result


def _one(rig: Rig, result: Result, *, may_end: bool) -> None:
    """One `down`: either nothing is left, or it reports at its deadline that something is."""
    ended = rig.run("down", *consent(rig))
    _judged(rig, result, ended, number=-1, may_end=may_end)
    if may_end:
        result.found(rig.check(), "after `down`")


def _both(rig: Rig, result: Result, *, may_end: bool) -> None:
    """Two `down` at the same moment: each succeeds or is clearly refused.

    Both may be: the engine's backend of files writes a lock before it looks for those of others
    (`Lock` in pulumi's `pkg/backend/diy/lock.go`), so two can see each other and both give way. It
    was seen on a machine with seven processes per core. The same command again is judged after it.
    """
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(rig.run, "down", *consent(rig)) for _ in range(2)]
        ended = [each.result() for each in running]
    refused = [n for n, command in enumerate(rig.commands[-2:], -2) if command.exit_code == _LOCKED]
    result.values["refused"] = len(refused)
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


def _judged(rig: Rig, result: Result, ended: Command, *, number: int, may_end: bool) -> None:
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


def _is_kept(rig: Rig, result: Result) -> None:
    """Check that what still exists is still in the state."""
    slices = [r for r in _resources(rig.export()) if r["type"] == QUEUED_RESOURCE]
    result.wanted(len(slices) == 1, "orphan", f"the state has {len(slices)} slices")


# -- what must not be deleted --------------------------------------------------------------------


def _past_a_keeper(rig: Rig, result: Result, keeper: str) -> None:
    """The deletion is refused or the slice reported as left; once it may go, nothing is left."""
    run_well(rig, "up")
    flag = {"protect": "protect", "retain_on_delete": "retainOnDelete"}.get(keeper)
    if flag is not None:
        _mark(rig, flag, True)
    for _ in range(2 if keeper != "retain_on_delete" else 1):
        ended = rig.run("down", *consent(rig))
        said = rig.said[-1]
        printed = said.stdout + said.stderr
        whole = isinstance(rig, StackRig)
        wanted = _LEFT if whole and flag is not None else None
        good = ended.exit_code == wanted if wanted else ended.exit_code not in (0, None)
        result.wanted(good, "I7", f"`down` exits with {ended.exit_code}: {said.stderr}")
        named = {"retain_on_delete": "retain_on_delete", "protect": "protect"}.get(
            keeper, "deletion_protection is on"
        )
        result.wanted(named in printed, "untyped", f"{keeper} is not named: {said.stderr}")
        states = [q["state"] for q in rig.control.inventory()["tpu"]["queuedResources"]]
        result.wanted(states == ["ACTIVE"], "I6", f"what is kept is {states}")
    if keeper == "retain_on_delete":
        rig.event()
        delete_by_hand(rig)
    elif flag is not None:
        _mark(rig, flag, False)
    else:
        _change(rig, deletion_protection=False)
        run_well(rig, "up")
    _one(rig, result, may_end=True)
    _one(rig, result, may_end=True)


def _mark(rig: Rig, flag: str, value: bool) -> None:
    """Set an option of the slice in the state, as `pulumi state protect` does."""
    file = rig.home / ".tpuflex" / "backend" / ".pulumi" / "stacks" / rig.project
    file /= f"{rig.stack}.json"
    document = json.loads(file.read_text())
    for resource in document["checkpoint"]["latest"]["resources"]:
        if resource["type"] == QUEUED_RESOURCE:
            resource[flag] = value
    file.write_text(json.dumps(document))


def _resources(export: Json | None) -> list[Json]:
    return list(((export or {}).get("deployment") or {}).get("resources") or ())


# -- the program ---------------------------------------------------------------------------------


@contextmanager
def _program(
    rig: Rig,
    *,
    zones: tuple[str, ...] = (),
    patience: bool = False,
    deletion_protection: bool = False,
) -> Iterator[None]:
    """Inside this context, the program has these settings."""
    restore = _restorer(rig)
    try:
        if zones:
            _change(rig, zones=list(zones))
        if patience:
            _change(rig, delete_timeout=f"{_PATIENCE}s")
        if deletion_protection:
            _change(rig, deletion_protection=True)
        yield
    finally:
        restore()


def _change(rig: Rig, **values: Any) -> None:
    if isinstance(rig, SliceRig):
        rig.arguments = {**rig.arguments, **values}
        return
    file = _stack_file(rig)
    document = yaml.safe_load(file.read_text())
    slice_ = document["config"]["tpuflex:slice"]
    if "delete_timeout" in values:
        slice_["timeouts"] = {"delete": values.pop("delete_timeout")}
    slice_ |= values
    file.write_text(yaml.safe_dump(document))


def _restorer(rig: Rig) -> Callable[[], None]:
    if isinstance(rig, SliceRig):
        arguments, changed = rig.arguments, rig

        def arguments_back() -> None:
            changed.arguments = arguments

        return arguments_back
    file = _stack_file(rig)
    text = file.read_text()
    return lambda: _written(file, text)


def _written(file: Path, text: str) -> None:
    file.write_text(text)


def _stack_file(rig: Rig) -> Path:
    return rig.home / "stacks" / f"Pulumi.{rig.stack}.yaml"


FIGURE = Figure(
    key="9",
    counted=("manual", "orphan", "cut"),
    title="teardown from every state, twice and two at once: exit code 0 and nothing left, "
    "or refused, or reported as left",
    rig="slice",
    cases=cases,
    judge=judge,
    share=14,
    spare=25,
)
STACK_FIGURE = Figure(
    key="9s",
    counted=("manual", "orphan"),
    title="teardown of the whole stack from the states that matter, and past what is kept",
    rig="stack",
    cases=stack_cases,
    judge=judge,
    share=12,
    spare=40,
)
