"""Figure 5: every edge of the state machine x up, refresh, preview, down, status.

After each edge of :data:`tpuflex.request.edges.EDGES`, each command must print the text and end
with the exit code of the row of :data:`tpuflex.request.outcomes.TABLE` that the edge leads to. Here
the provider, the client and the code of the command line run in this process; figure 5p runs every
row of the table as processes.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from reliability.command_rig import ROOT
from reliability.edge_rig import FOR_EVER, NAMES, EdgeRig
from reliability.figures.edge_steps import STILL
from reliability.figures.edge_ways import WAYS
from reliability.figures.figure import Case, Figure, Json, Result
from reliability.projects import SWIFT
from reliability.servicer_rig import CLOUD_PROJECT
from reliability.small_state import PROJECT, STACK
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.plan import slice_plan
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.boot import require_active
from tpuflex.cli.steps.status import show_status
from tpuflex.engine.events import Note
from tpuflex.engine.failure import failure
from tpuflex.errors import TpuflexError
from tpuflex.operate.slice import SliceStatus
from tpuflex.operate.status import STATUS_FIELDS, slice_status
from tpuflex.project import Project
from tpuflex.request.edges import COMMANDS, EDGES, Command, Edge
from tpuflex.request.outcomes import Condition
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings

#: Whatever is in progress ends within ten minutes; nothing is granted.
PASSING: Json = {
    # Counted from the time of the request, which is half an hour ago.
    "admission_s": 2400.0,
    "never": True,
    "provisioning_s": 600.0,
    "suspending_s": 600.0,
    "deleting_s": 600.0,
}
#: The same, but with capacity.
GRANTING: Json = {**SWIFT, "suspending_s": 600.0, "deleting_s": 600.0}
_BY_NAME = {edge.name: edge for edge in EDGES}
_OPERATIONS = {"up": "up", "refresh": "refresh", "preview": "preview", "down": "destroy"}


@dataclass(frozen=True, slots=True)
class Said:
    """A command's output and its exit code."""

    text: str
    exit_code: int

    def holds(self, text: str) -> bool:
        """Whether the output contains ``text``; an empty text stands for no output."""
        return text in " ".join(self.text.split()) if text else not self.text.strip()


def cases(_rig: EdgeRig, _seed: int) -> list[Case]:
    """Each edge with each command."""
    return [
        Case(f"{edge.name}: {command}", {"edge": edge.name, "command": command})
        for edge in EDGES
        for command in COMMANDS
    ]


def judge(rig: EdgeRig, case: Case) -> Result:
    """Take the edge, run the command, compare with the table."""
    result = Result(case.name, must_strike=False)
    edge, command = _BY_NAME[case.facts["edge"]], case.facts["command"]
    take(rig, edge, result)
    rig.pass_time(0, **_weather(edge, command))
    text = f"the command begins at {rig.shown()}, not at {edge.after}"
    result.wanted(rig.shown() == edge.after, "rig", text)
    rig.told.clear()
    rig.engine.said.clear()
    rig.event()
    said = RUN[command](rig, edge, result)
    expected = edge.outcome(command)
    code = f"exit code {said.exit_code}, the table says {expected.exit_code}: {said.text}"
    result.wanted(said.exit_code == expected.exit_code, "exit code", code)
    wanted = f"the table says {expected.text!r}: {said.text}"
    result.wanted(said.holds(expected.text), "text", wanted)
    result.wanted("Traceback" not in said.text, "traceback", said.text)
    return result


def take(rig: EdgeRig, edge: Edge, result: Result) -> None:
    """Bring the rig to the starting point of ``edge`` and take it."""
    way = WAYS[edge.name]
    way.start(rig)
    text = f"the way begins at {rig.shown()}, not at {edge.before}"
    result.wanted(rig.shown() == edge.before, "rig", text)
    way.step(rig)
    text = f"the way ends at {rig.shown()}, not at {edge.after}"
    result.wanted(rig.shown() == edge.after, "rig", text)


def _weather(edge: Edge, command: Command) -> Json:
    """How the cloud behaves while the command runs."""
    if edge.stuck or command not in ("up", "down"):
        return STILL
    if command == "down":
        return PASSING
    hopeless = edge.condition in (Condition.WAITING, Condition.PROVISIONING)
    slow = {"provisioning_s": FOR_EVER, "suspending_s": FOR_EVER}
    return {**PASSING, **slow} if hopeless else GRANTING


# -- the commands ------------------------------------------------------------------------------


def _up(rig: EdgeRig, _edge: Edge, result: Result) -> Said:
    said = _engine(rig, "up")
    if said.exit_code:
        return said
    try:
        require_active(_status(rig))
    except TpuflexError as error:
        return Said(f"{said.text}\n{error}", error.exit_code)
    result.wanted(rig.shown()[0] == "ACTIVE", "not converged", f"`up` left {rig.shown()}")
    return said


def _refresh(rig: EdgeRig, _edge: Edge, _result: Result) -> Said:
    return _engine(rig, "refresh")


def _preview(rig: EdgeRig, edge: Edge, result: Result) -> Said:
    """Preview as the engine does: refresh first, and discard what was seen."""
    before = rig.engine.deployment()
    looked = rig.engine.refresh()
    plan = rig.engine.preview()
    rig.engine.replace(before)
    operation = plan.steps[0].operation
    wanted = edge.action.value
    result.wanted(operation == wanted, "plan", f"plans {operation}, the table says {wanted}")
    text = "\n".join([*rig.told, *rig.engine.said, slice_plan(plan)])
    return Said(text, 0 if looked else 1)


def _down(rig: EdgeRig, edge: Edge, result: Result) -> Said:
    said = _engine(rig, "down")
    ours = () if edge.stuck or edge.condition is Condition.FOREIGN else ("", "")
    if ours:
        result.wanted(rig.shown() == ours, "orphan", f"`down` left {rig.shown()}")
    return said


def _show(rig: EdgeRig, edge: Edge, result: Result) -> Said:
    """`tpuflex status`, as text and as JSON."""
    text, code = _shown(rig, as_json=False)
    document, same = _shown(rig, as_json=True)
    result.wanted(code == same, "exit code", f"{code}, with --json {same}")
    _check_document(json.loads(document), edge, code, result)
    return Said(text, code)


RUN: dict[str, Callable[[EdgeRig, Edge, Result], Said]] = {
    "up": _up,
    "refresh": _refresh,
    "preview": _preview,
    "down": _down,
    "status": _show,
}


def _engine(rig: EdgeRig, command: str) -> Said:
    """Run one engine command; a failure is added as the command line prints it."""
    rig.run(command)
    told = "\n".join(rig.told)
    if not rig.engine.said:
        return Said(told, 0)
    notes = [Note.of("error", text, "slice") for text in rig.engine.said]
    error = failure(_OPERATIONS[command], notes, "")
    return Said(f"{told}\n{error}", error.exit_code)


def _status(rig: EdgeRig) -> SliceStatus:
    return slice_status(_settings(), NAMES, rig.client(), now=_now(rig))


def _shown(rig: EdgeRig, *, as_json: bool) -> tuple[str, int]:
    """What the command line's own code prints, and its exit code."""
    invocation = Invocation(environ={}, now=lambda: _now(rig), json=as_json)
    project = Project(PROJECT, ROOT, ROOT / "stacks", ROOT / ".tpuflex")
    stack = OpenStack(project, STACK, ROOT / "stacks" / "Pulumi.dev.yaml", _settings())
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            show_status(invocation, stack, _status(rig))
        except SystemExit as ended:
            code = int(ended.code or 0)
        except TpuflexError as error:
            code = invocation.output.failure(error)
    return (out.getvalue() if as_json else out.getvalue() + err.getvalue()), code


def _check_document(found: Json, edge: Edge, code: int, result: Result) -> None:
    if "error" in found:
        result.wanted(found["error"]["exit_code"] == code, "json", f"{found}")
        return
    names = set(found["slice"])
    result.wanted(names == set(STATUS_FIELDS), "json", f"fields {sorted(names)}")
    said = found["slice"]["standing"]
    result.wanted(said == edge.condition.value, "json", f"standing {said}, not {edge.condition}")


def _now(rig: EdgeRig) -> datetime:
    return datetime.fromtimestamp(rig.direct.clock.now(), UTC)


@cache
def _settings() -> StackSettings:
    settings = load_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml").settings
    return settings.model_copy(update={"project": CLOUD_PROJECT})


FIGURE = Figure(
    key="5",
    counted=("text", "exit code", "plan", "json", "orphan"),
    title="every edge of the state machine x up, refresh, preview, down, status: text and exit "
    "code of the one table",
    rig="edges",
    cases=cases,
    judge=judge,
    share=3,
    spare=1,
)
