"""Reading resources into a state through their plugins, for a recovery."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tpuflex.engine.events import name_of
from tpuflex.engine.recovery.look import Answer, Look
from tpuflex.engine.recovery.report import counted
from tpuflex.engine.state import Stored, adopted, living, referenced, resources
from tpuflex.gcp.kinds import of_type
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.request.body import spec_hash
from tpuflex.request.inputs import parse
from tpuflex.request.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.engine.plan import Plan
    from tpuflex.gcp.timing import Timing

Say = Callable[[str], None]

#: Seconds for which something that is being deleted is waited for. A slice takes minutes.
GOING_S = 1800.0
STILL_GOING = "it is still being deleted; run `tpuflex recover` again later"
_LOOK_S = 10.0
_HEARTBEAT_S = 60.0


class RecoverableStack(Protocol):
    """The part of :class:`tpuflex.engine.run.EngineRun` that is used here."""

    def deployment(self) -> Stored:
        """The stack's state."""

    def replace(self, deployment: Stored) -> None:
        """Make ``deployment`` the stack's state."""

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Read resources through their plugins."""

    def preview(self) -> Plan:
        """What ``up`` would do."""


@dataclass
class RememberedStack:
    """A stack whose state is asked for once between two changes of ours: each question is a run of
    the engine.

    Attributes:
        stack: the stack; nobody else changes it meanwhile.
    """

    stack: RecoverableStack
    _known: Stored | None = None

    def deployment(self) -> Stored:
        """The stack's state."""
        if self._known is None:
            self._known = self.stack.deployment()
        return self._known

    def replace(self, deployment: Stored) -> None:
        """Make ``deployment`` the stack's state."""
        self._known = None  # the engine may write it in its own way
        self.stack.replace(deployment)

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Read resources through their plugins."""
        self._known = None
        self.stack.refresh(targets)

    def preview(self) -> Plan:
        """What ``up`` would do."""
        return self.stack.preview()


@dataclass(frozen=True, slots=True)
class Means:
    """What a recovery works with.

    Attributes:
        stack: the stack.
        look: looks into the cloud.
        say: takes a line of progress.
        timing: clocks and pauses.
    """

    stack: RecoverableStack
    look: Look
    say: Say
    timing: Timing


def read_in(
    means: Means, deployment: Stored, newcomers: list[Stored], reread: list[Stored]
) -> Stored:
    """Put ``newcomers`` into the state, read them and ``reread`` through their plugins, and
    return the state after that. What the plugins do not find is not in it any more.

    What is found on its way out would be in the state and, a moment later, not in the cloud: it
    is waited for, :data:`GOING_S` at most. :func:`going` tells what then is still not gone.
    """
    if newcomers:
        # Without outputs the plugin reads by id, as for an import: whole, and in its own form.
        means.stack.replace(adopted(deployment, [{**one, "outputs": {}} for one in newcomers]))
    targets = tuple(dict.fromkeys(resource["urn"] for resource in (*newcomers, *reread)))
    if not targets:
        return deployment
    means.say(f"Reading {counted(targets, 'resource')} …")
    means.stack.refresh(targets)
    return _as_it_is(means, _await_gone(means, targets), newcomers)


def whole(deployment: Stored, newcomer: Stored) -> Stored | None:
    """The resource that ``newcomer`` has become; None if its plugin did not find it."""
    now = living(deployment, newcomer["urn"])
    return now if now is not None and now.get("outputs") else None


def _as_it_is(means: Means, deployment: Stored, newcomers: list[Stored]) -> Stored:
    """Read what was asked for otherwise than ``newcomers`` say once more, as for an import of
    which nothing is known: with inputs that are not its own, the next ``up`` would find it to be
    what it is not. Its newcomer then has no inputs."""
    other = {}
    for newcomer in newcomers:
        now = whole(deployment, newcomer)
        if now is not None and newcomer["inputs"] and _asked_otherwise(now, newcomer["inputs"]):
            other[newcomer["urn"]] = now
            newcomer["inputs"] = {}
    if not other:
        return deployment

    def those(deployment: Stored, change: Callable[[Stored], Stored]) -> Stored:
        return {
            **deployment,
            "resources": [
                change(one) if one["urn"] in other and not one.get("delete") else one
                for one in resources(deployment)
            ],
        }

    means.stack.replace(those(deployment, lambda one: {**one, "inputs": {}, "outputs": {}}))
    means.stack.refresh(tuple(other))
    # Whoever knows nothing of it looks in one zone only.
    return those(
        means.stack.deployment(),
        lambda one: {
            **one,
            "inputs": _with(one.get("inputs"), "zones", other[one["urn"]]["inputs"]),
            "outputs": _with(one.get("outputs"), "requests", other[one["urn"]]["outputs"]),
        },
    )


def _with(values: Stored | None, key: str, known: Stored) -> Stored:
    return {**(values or {}), **({key: known[key]} if key in known else {})}


def _asked_otherwise(now: Stored, asked: Stored) -> bool:
    """Whether a queued resource carries the fingerprint of another request."""
    found = (now.get("outputs") or {}).get("specHash")
    if now["type"] != QUEUED_RESOURCE or not found:
        return False
    try:
        return bool(spec_hash(parse(asked)) != found)
    except ValueError:
        return True  # something in it is encrypted: what the cloud says is right in any case


def linked(deployment: Stored, urns: Collection[str]) -> Stored:
    """``deployment`` with dependencies for ``urns``, read off what their inputs name: they
    decide what a ``down`` deletes first."""
    found = resources(deployment)
    # Roles carry the names of what they are about; nothing refers to a role.
    kinds = {one["type"]: of_type(one["type"]) for one in found}
    namable = [one for one in found if (kind := kinds[one["type"]]) and kind.found_by == "api"]
    known = [
        {**one, "dependencies": referenced(one, namable)} if one["urn"] in urns else one
        for one in found
    ]
    return adopted({**deployment, "resources": known}, ())


def going(resource: Stored) -> bool:
    """Whether ``resource`` was being deleted when it was read."""
    return (resource.get("outputs") or {}).get("lifecycle") == Lifecycle.DELETING.value


def _await_gone(means: Means, urns: tuple[str, ...]) -> Stored:
    """Wait for what of ``urns`` is being deleted; the state after that."""
    clock = means.timing.monotonic
    began, said_at = clock(), -math.inf
    while True:
        deployment = means.stack.deployment()
        left = [one for one in resources(deployment) if one["urn"] in urns and going(one)]
        if not left or clock() - began >= GOING_S:
            return deployment
        names = ", ".join(dict.fromkeys(name_of(one["urn"]) for one in left))
        there = True
        while there and clock() - began < GOING_S:
            if clock() - said_at >= _HEARTBEAT_S:
                said_at = clock()
                so_far = f"{round(said_at - began)} s so far"
                means.say(f"{names}: being deleted; waiting until it is gone ({so_far})")
            means.timing.pause(_LOOK_S)
            there = not all(_absent(means, one) for one in left)
        # Only the plugin looks at everything that belongs to it, such as the node.
        means.stack.refresh(tuple(dict.fromkeys(one["urn"] for one in left)))


def _absent(means: Means, resource: Stored) -> bool:
    found = means.look(resource["type"], resource.get("inputs") or {})
    return found.answer in (Answer.ABSENT, Answer.FOREIGN)
