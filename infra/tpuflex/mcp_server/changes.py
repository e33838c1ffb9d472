"""Plans of changes: a plan is the permission, and a person gives it.

The first call of a tool returns a plan and its hash. The second one has the hash; then the person
types the stack's name, the plan is made again, and only if it is the same does the command run,
which is held to it. Neither the caller nor what it has read can type for the person.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tpuflex.errors import PlanChangedError
from tpuflex.mcp_server.operations import Operation, Operations
from tpuflex.terminal.money import price_text

if TYPE_CHECKING:
    from tpuflex.deploy.stack_preview import Preview
    from tpuflex.engine.events import Step
    from tpuflex.mcp_server.workspace import Workspace
    from tpuflex.naming import SecretRole

#: Seconds for which a plan may be approved.
VALID_FOR = 600.0
#: Plans that are remembered.
_MOST = 100
#: Steps that a question shows, characters of each, and which of them come first.
_MOST_STEPS = 30
_LONGEST_LINE = 200
_ORDER = {"delete": 0, "replace": 1, "update": 2}


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of a change.

    Attributes:
        action: which change.
        stack: the stack that it is of.
        summary: what the person reads who approves it.
        document: all of it, for the caller.
        decisive: what of it says what would be done; two plans that would do the same are equal in
            it.
        words: the words of the command that does it, held to this plan.
        nothing: whether there is nothing to do.
    """

    action: str
    stack: str
    summary: str
    document: dict[str, Any]
    decisive: dict[str, Any]
    words: tuple[str, ...]
    nothing: bool = False

    @property
    def hash(self) -> str:
        """The SHA-256, in hex, of what would be done, to what, and how."""
        found = {
            "action": self.action,
            "stack": self.stack,
            "command": self.words,
            "plan": self.decisive,
        }
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, object]:
        """The document that a first call returns."""
        return {
            "action": self.action,
            "stack": self.stack,
            "plan_hash": None if self.nothing else self.hash,
            "summary": self.summary,
            "valid_for_seconds": VALID_FOR,
            "next": (
                "there is nothing to do"
                if self.nothing
                else "show the plan to the person; then call again with plan_hash: the person is"
                " asked to type the stack's name"
            ),
            "plan": self.document,
        }


#: Makes a plan, now.
Planner = Callable[[], Planned]


@dataclass
class Changes:
    """The plans that a server has made, and what became of them.

    Attributes:
        workspace: the project.
        clock: seconds, of a clock that is never set.
    """

    workspace: Workspace
    clock: Callable[[], float] = time.monotonic
    _issued: dict[str, tuple[Planned, float]] = field(default_factory=dict)

    @property
    def operations(self) -> Operations:
        """The operations of the project."""
        project = self.workspace.project
        return Operations(project.root, project.home, self.workspace.command)

    def issue(self, plan: Planner) -> Planned:
        """Plan, and remember the plan for ten minutes, unless there is nothing to do."""
        planned = plan()
        if not planned.nothing:
            while len(self._issued) >= _MOST:
                del self._issued[next(iter(self._issued))]
            self._issued.pop(planned.hash, None)
            self._issued[planned.hash] = planned, self.clock()
        return planned

    def issued(self, action: str, stack: str, plan_hash: str) -> Planned:
        """The plan with that hash.

        Raises:
            PlanChangedError: none was made here in the last ten minutes, for this action on this
                stack; or it was carried out.
        """
        planned, at = self._issued.get(plan_hash, (None, 0.0))
        again = f"Call {action} without plan_hash for the plan as it is now."
        if planned is None or (planned.action, planned.stack) != (action, stack):
            raise PlanChangedError(
                f"This server has made no such plan for {action} of stack {stack}, or has carried"
                " it out: nothing was changed.",
                hint=again,
            )
        if self.clock() - at >= VALID_FOR:
            del self._issued[plan_hash]
            raise PlanChangedError(
                f"The plan is older than {VALID_FOR / 60:.0f} minutes: nothing was changed.",
                hint=again,
            )
        return planned

    def carry_out(self, action: str, stack: str, plan_hash: str, plan: Planner) -> Operation:
        """Start what the plan with that hash says, once, if ``plan`` still gives the same.

        Raises:
            PlanChangedError: it is another one by now, or as :meth:`issued` has it.
            ConflictError: another operation on the stack goes on.
            TpuflexError: there is no plan any more.
        """
        self.issued(action, stack, plan_hash)
        del self._issued[plan_hash]
        now = plan()
        if now.hash != plan_hash:
            raise PlanChangedError(
                f"The plan is another one by now, and nothing was changed: {now.summary}",
                hint=f"Call {action} without plan_hash, and have that one approved.",
            )
        return self.operations.start(action, stack, plan_hash, now.words, self.workspace.environ)


def plan_up(
    workspace: Workspace,
    stack: str,
    *,
    refresh: bool = False,
    new_host: bool = False,
    renewal_only: bool = False,
) -> Planned:
    """What `up` would do with these options, or `renew` with ``renewal_only``.

    Raises:
        PlanChangedError: more would change than a renewal does.
        NotFoundError: there is nothing to renew.
        TpuflexError: there is no plan, or a policy forbids it.
    """
    from tpuflex.deploy.approval import Approval
    from tpuflex.deploy.policy import require_allowed
    from tpuflex.deploy.stack_preview import preview
    from tpuflex.google.api_states import ApiState, api_states
    from tpuflex.google.required_apis import needed_apis

    cloud = workspace.deployable(stack)
    settings = cloud.stack.settings
    with workspace.engine:
        found = preview(cloud, workspace.report, refresh=refresh, new_host=new_host)
    if renewal_only:
        Approval(renewal_only=True).require(found.plan.plan)
    if found.plan.plan.changes:
        require_allowed(found.plan.policy)
    if found.before_chips.refuses:
        raise found.before_chips.refuses[0]
    states = api_states(cloud.apis(), settings.project, needed_apis(settings))
    enabled = sorted(api.service for api, state in states.items() if state is ApiState.DISABLED)
    document = {**found.to_json(), "enables": enabled}
    decisive = {
        "project": found.project,
        "cloud": document["cloud"],
        "google_project": document["project"],
        "digest": found.digest,
        "usd_per_hour": document["usd_per_hour"],
        "usd_maximum": document["usd_maximum"],
        "before_chips": document["foreseen"],
        "enables": enabled,
    }
    options = {"--refresh": refresh, "--new-host": new_host, "--renewal-only": renewal_only}
    words = [option for option, is_set in options.items() if is_set]
    return Planned(
        "renew" if renewal_only else "up",
        stack,
        _summary(found, enabled, words),
        document,
        decisive,
        ("up", "--yes", "--expect", found.digest, *words),
        nothing=renewal_only and not found.plan.plan.changes,
    )


def _summary(found: Preview, enabled: Sequence[str], options: Sequence[str]) -> str:
    """What the person reads who approves ``found``, which enables those APIs, with ``options``."""
    network = found.plan.stack.settings.network
    said = [f"{found.plan}."]
    if found.plan.request:
        said.append(f"The slice: {found.plan.request}.")
    said.append(f"Price: {price_text(found.plan.cost)}.")
    if enabled:
        said.append(f"It enables {', '.join(enabled)}.")
    if options:
        said.append(f"With {', '.join(options)}.")
    reached = (
        f"Who reaches it besides IAP: {', '.join(map(str, network.allowed_cidrs)) or 'nobody'}."
        f" What hosts reach (egress): {network.egress}."
    )
    steps = (f"- {line}" for line in step_lines(found.plan.plan.resources))
    return "\n".join((" ".join(said), reached, *steps))


def step_lines(steps: Sequence[Step]) -> list[str]:
    """What the person who approves ``steps`` reads of them: first what deletes something, then what
    changes it, each with the properties that change."""
    ordered = sorted(
        steps, key=lambda step: (_ORDER.get(step.operation, len(_ORDER)), step.type, step.name)
    )
    lines = []
    for step in ordered[:_MOST_STEPS]:
        why = step.replaced_for if step.operation == "replace" else step.changed
        ends = ", and deletes what it has replaced" if step.ends_replaced else ""
        reasons = f" ({', '.join(why)})" if why else ""
        line = f"{step}{reasons}{ends}"
        lines.append("".join(c if c.isprintable() else "?" for c in line)[:_LONGEST_LINE])
    if more := len(ordered) - len(lines):
        lines.append(f"and {more} more")
    return lines


def plan_down(workspace: Workspace, stack: str) -> Planned:
    """What `down` would destroy.

    Raises:
        ConflictError: the slice serves, and deletion protection is on.
    """
    from tpuflex.deploy import teardown

    cloud = workspace.torn_down(stack)
    with workspace.engine:
        found = teardown.plan_down(cloud, workspace.report)
    if found.planned.serving is not None:
        raise teardown.protected_error(found.planned.serving)
    return Planned(
        "down",
        stack,
        f"Stack {stack} on {cloud.stack.cloud_text}. {found}.",
        found.to_json(),
        {"google_project": cloud.stack.settings.project, "digest": found.digest},
        ("down", "--yes", "--expect", found.digest),
        nothing=found.nothing,
    )


def plan_secret_rotation(workspace: Workspace, stack: str, role: SecretRole) -> Planned:
    """What `secrets rotate` would add."""
    from tpuflex.deploy.secrets import plan_rotation

    found = plan_rotation(workspace.deployed(stack), role)
    return Planned(
        "rotate_secret",
        stack,
        f"Version {found.number} of {found.secret} is added with a new random key, which no answer"
        f" shows; hosts use version {found.pinned} until the stack file says otherwise.",
        found.to_json(),
        found.to_json(),
        ("secrets", "rotate", role, "--yes", "--expect", str(found.number)),
    )
