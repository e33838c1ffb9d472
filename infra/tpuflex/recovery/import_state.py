"""Reading resources into a state through their plugins, for a recovery."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tpuflex.engine.events import name_of
from tpuflex.engine.state import (
    Stored,
    adopted,
    is_reminder,
    live_resource,
    referenced,
    resources,
    with_asked_inputs,
    without_pending,
)
from tpuflex.inventory.kinds import of_type
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.queued_resource.body import spec_hash
from tpuflex.queued_resource.check import parse
from tpuflex.queued_resource.outputs import TAKES_OVER_FROM, recorded_lifecycle
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.recovery.look import Look, Presence
from tpuflex.recovery.report import Recovery, counted

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan
    from tpuflex.google.timing import Timing


#: Seconds for which something that is being deleted is waited for. A slice takes minutes.
DELETION_WAIT_S = 1800.0
STILL_BEING_DELETED = "it is still being deleted; run `tpuflex recover` again later"
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

    def preview(self) -> EnginePlan:
        """What ``up`` would do."""


@dataclass
class RememberedStack:
    """A stack whose state is asked for once between two changes of ours: each question is a run of
    the engine.

    Attributes:
        stack: the stack; nothing else changes it meanwhile.
    """

    stack: RecoverableStack
    _deployment: Stored | None = None

    def deployment(self) -> Stored:
        """The stack's state."""
        if self._deployment is None:
            self._deployment = self.stack.deployment()
        return self._deployment

    def replace(self, deployment: Stored) -> None:
        """Make ``deployment`` the stack's state."""
        self._deployment = None  # the engine may write it in its own way
        self.stack.replace(deployment)

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Read resources through their plugins."""
        self._deployment = None
        self.stack.refresh(targets)

    def preview(self) -> EnginePlan:
        """What ``up`` would do."""
        return self.stack.preview()


@dataclass(frozen=True, slots=True)
class Context:
    """What a recovery works with.

    Attributes:
        stack: the stack.
        look: looks into the cloud.
        say: takes a line of progress.
        timing: clocks and pauses.
        report: takes what became of each resource.
    """

    stack: RecoverableStack
    look: Look
    say: Callable[[str], None]
    timing: Timing
    report: Recovery


@dataclass(frozen=True, slots=True)
class ImportedState:
    """A state after resources were imported into it.

    Attributes:
        deployment: the state.
        program_inputs: by URN, the inputs that imported resources have in the program. A request
            that was made with others is not among them: its own inputs are in the state.
    """

    deployment: Stored
    program_inputs: Mapping[str, Stored]


def import_resources(
    context: Context, deployment: Stored, imported: Sequence[Stored], reread: Sequence[Stored]
) -> ImportedState:
    """Put ``imported`` into the state, and read them and ``reread`` through their plugins. What
    the plugins do not find is not in the state any more.

    What is being deleted would be in the state and, a moment later, not in the cloud: it is
    waited for, :data:`DELETION_WAIT_S` at most. :func:`being_deleted` tells what is then still
    not gone.
    """
    if imported:
        # Without outputs the plugin reads by id, as for an import: complete, in its own form.
        context.stack.replace(adopted(deployment, [{**one, "outputs": {}} for one in imported]))
    targets = tuple(dict.fromkeys(resource["urn"] for resource in (*imported, *reread)))
    if not targets:
        return ImportedState(deployment, {})
    context.say(f"Reading {counted(targets, 'resource')} …")
    context.stack.refresh(targets)
    deployment = _await_gone(context, targets)
    inputs = {one["urn"]: one["inputs"] for one in imported if one["inputs"]}
    others = {
        urn: now
        for urn in inputs
        if (now := complete(deployment, urn)) and _asked_otherwise(now, inputs[urn])
    }
    if others:
        deployment = _with_own_inputs(context, deployment, others)
    deployment = with_predecessors(deployment, {one["urn"] for one in imported})
    return ImportedState(deployment, {u: inputs[u] for u in inputs if u not in others})


def write_back(context: Context, state: ImportedState, unlinked: Collection[str]) -> None:
    """Make ``state`` that of the stack, with what only the program knows and with dependencies
    for the URNs ``unlinked``. Nothing stays pending but what could not be settled."""
    linked = _linked(with_asked_inputs(state.deployment, state.program_inputs), unlinked)
    left = {item.urn for item in context.report.left}
    context.stack.replace(without_pending(linked, left))


def complete(deployment: Stored, urn: str) -> Stored | None:
    """The resource ``urn`` once its plugin has found it; None if it has not."""
    now = live_resource(deployment, urn)
    return now if now is not None and now.get("outputs") else None


def being_deleted(resource: Stored) -> bool:
    """Whether ``resource`` was being deleted when it was read."""
    return recorded_lifecycle(resource.get("outputs") or {}) is Lifecycle.DELETING


def _with_own_inputs(context: Context, deployment: Stored, others: Mapping[str, Stored]) -> Stored:
    """Read ``others``, which were asked for with other inputs than the program has now, once more
    as for an import of which nothing is known: with inputs that are not its own, `up` would plan
    a false change."""

    def changed(deployment: Stored, change: Callable[[Stored], Stored]) -> Stored:
        return {
            **deployment,
            "resources": [
                change(one) if one["urn"] in others and not one.get("delete") else one
                for one in resources(deployment)
            ],
        }

    context.stack.replace(changed(deployment, lambda one: {**one, "inputs": {}, "outputs": {}}))
    context.stack.refresh(tuple(others))
    # A read without inputs checks only one zone.
    return changed(
        context.stack.deployment(),
        lambda one: {
            **one,
            "inputs": _with(one.get("inputs"), "zones", others[one["urn"]]["inputs"]),
            "outputs": _with(one.get("outputs"), "requests", others[one["urn"]]["outputs"]),
        },
    )


def _with(values: Stored | None, key: str, source: Stored) -> Stored:
    return {**(values or {}), **({key: source[key]} if key in source else {})}


def _asked_otherwise(now: Stored, inputs: Stored) -> bool:
    """Whether a queued resource carries the fingerprint of a request with other inputs."""
    fingerprint = (now.get("outputs") or {}).get("specHash")
    if now["type"] != QUEUED_RESOURCE or not fingerprint:
        return False
    try:
        return bool(spec_hash(parse(inputs)) != fingerprint)
    except ValueError:
        return True  # something in it is encrypted: what the cloud says is right in any case


def _linked(deployment: Stored, urns: Collection[str]) -> Stored:
    """``deployment`` with dependencies for ``urns``, read off what their inputs name: they
    decide what a ``down`` deletes first."""
    present = resources(deployment)
    # Roles carry the names of what they are about; nothing refers to a role.
    namable = [one for one in present if (k := of_type(one["type"])) and k.found_by == "api"]
    known = [
        {**one, "dependencies": referenced(one, namable)} if one["urn"] in urns else one
        for one in present
    ]
    return adopted({**deployment, "resources": known}, ())


def _await_gone(context: Context, urns: tuple[str, ...]) -> Stored:
    """Wait for what of ``urns`` is being deleted; the state after that."""
    clock = context.timing.monotonic
    began, said_at = clock(), -math.inf
    while True:
        deployment = context.stack.deployment()
        left = [one for one in resources(deployment) if one["urn"] in urns and being_deleted(one)]
        if not left or clock() - began >= DELETION_WAIT_S:
            return deployment
        names = ", ".join(dict.fromkeys(name_of(one["urn"]) for one in left))
        there = True
        while there and clock() - began < DELETION_WAIT_S:
            if clock() - said_at >= _HEARTBEAT_S:
                said_at = clock()
                so_far = f"{round(said_at - began)} s so far"
                context.say(f"{names}: being deleted; waiting until it is gone ({so_far})")
            context.timing.pause(_LOOK_S)
            there = not all(_absent(context, one) for one in left)
        # Only the plugin looks at everything that belongs to it, such as the node.
        context.stack.refresh(tuple(dict.fromkeys(one["urn"] for one in left)))


def _absent(context: Context, resource: Stored) -> bool:
    seen = context.look(resource["type"], resource.get("inputs") or {})
    return seen.presence in (Presence.ABSENT, Presence.FOREIGN)


def with_predecessors(deployment: Stored, urns: Collection[str]) -> Stored:
    """``deployment`` in which the queued resources ``urns``, adopted in the place of others that
    are still to be deleted, take over from those: whether they serve, nobody has waited for. The
    next `up` does, and deletes what serves after that (docs/adr/0036)."""

    def change(resource: Stored) -> Stored:
        urn, outputs = resource["urn"], resource.get("outputs")
        if urn not in urns or not outputs or resource is not live_resource(deployment, urn):
            return resource
        names = _replaced(deployment, urn, str(resource.get("id")))
        if resource["type"] != QUEUED_RESOURCE or not names:
            return resource
        known = outputs.get(TAKES_OVER_FROM) or ()
        return {
            **resource,
            "outputs": {**outputs, TAKES_OVER_FROM: [*dict.fromkeys((*known, *names))]},
        }

    return {**deployment, "resources": [change(each) for each in resources(deployment)]}


def _replaced(deployment: Stored, urn: str, id_: str) -> list[str]:
    """Names of the requests under ``urn`` that are to be deleted once ``id_`` serves."""
    found = (
        str(name)
        for each in resources(deployment)
        if each["urn"] == urn and each.get("delete") and not is_reminder(each)
        for name in (each.get("id"), *((each.get("outputs") or {}).get("requests") or ()))
        if name
    )
    return [name for name in dict.fromkeys(found) if name != id_]
