"""Figure 5p: every row of the refresh table x up, refresh, preview, down, status, as processes.

The command line is the real one on a whole stack, and `refresh` is the engine's own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from reliability.figures.edges import Said
from reliability.figures.figure import TPU, Case, Figure, Result
from reliability.row_rig import RowRig
from tpuflex.operate.status import STATUS_FIELDS
from tpuflex.request.edges import COMMANDS
from tpuflex.request.outcomes import TABLE, Condition, Outcome, PreviewAction

_WORDS = {
    "up": ("up", "--yes"),
    "preview": ("preview",),
    "down": ("down", "--yes"),
    "status": ("status",),
}
_LOOK_S = 0.2
#: The engine reads before and while it plans; only then does the provider begin to wait.
_LOOKS = 6


def cases(_rig: RowRig, _seed: int) -> list[Case]:
    """Each row with each command."""
    return [
        Case(f"{condition.value}: {command}", {"standing": condition.value, "command": command})
        for condition in Condition
        for command in COMMANDS
    ]


def judge(rig: RowRig, case: Case) -> Result:
    """Bring the stack into the row, run the command, compare."""
    result = Result(case.name, must_strike=False)
    condition, command = Condition(case.facts["standing"]), case.facts["command"]
    rig.begin()
    rig.stand(condition)
    expected: Outcome = getattr(TABLE[condition], command)
    said = _run(rig, condition, command)
    text = " ".join(said.text.split())
    code = f"exit code {said.exit_code}, the table says {expected.exit_code}: {text}"
    result.wanted(said.exit_code == expected.exit_code, "exit code", code)
    wanted = f"the table says {expected.text!r}: {text}"
    if expected.text:
        result.wanted(said.holds(expected.text), "text", wanted)
    else:
        told = [row.refresh.text for row in TABLE.values() if row.refresh.text]
        result.wanted(not any(each in text for each in told), "text", wanted)
    if command == "status":
        _check_json(rig, condition, expected, result)
    if command == "down" and condition is not Condition.FOREIGN:
        result.found(rig.check(), "after `down`")
    return result


def _run(rig: RowRig, condition: Condition, command: str) -> Said:
    """Run the command; what it waits for completes meanwhile, unless the row is one of waiting."""
    passes = condition is Condition.DELETING and command in ("up", "down")
    passes |= condition is Condition.PROVISIONING and command == "down"
    with _passing(rig) if passes else nullcontext():
        if command == "refresh":
            ended = rig.run_engine("refresh", "--yes", "--stack", rig.stack)
        else:
            rig.run(*_WORDS[command])
            ended = rig.said[-1]
    assert ended.exit_code is not None, "it did not end"
    return Said(f"{ended.stdout}\n{ended.stderr}", ended.exit_code)


@contextmanager
def _passing(rig: RowRig) -> Iterator[None]:
    """Let what stands still proceed once the provider waits for it."""
    over, first = threading.Event(), rig.control.seq()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            calls = [call["method_id"] for call in rig.control.history(first)]
            if calls.count(f"{TPU}queuedResources.get") >= _LOOKS:
                rig.control.capacity()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _check_json(rig: RowRig, condition: Condition, expected: Outcome, result: Result) -> None:
    code = rig.run("status", "--json").exit_code
    found = json.loads(rig.said[-1].stdout)
    result.wanted(code == expected.exit_code, "json", f"exit code {code} with --json")
    if TABLE[condition].action is PreviewAction.CREATE:
        result.wanted(found["error"]["exit_code"] == code, "json", f"{found}")
        return
    fields = set(found["slice"])
    result.wanted(fields == set(STATUS_FIELDS), "json", f"fields {sorted(fields)}")
    said = found["slice"]["standing"]
    result.wanted(said == condition.value, "json", f"standing {said}")


FIGURE = Figure(
    key="5p",
    counted=("text", "exit code", "json"),
    title="every row of that table x the same commands as processes: text and exit code",
    rig="rows",
    cases=cases,
    judge=judge,
    share=13,
    spare=30,
)
