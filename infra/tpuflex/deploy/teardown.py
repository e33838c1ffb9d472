"""One stack's teardown in two steps: look at what is there, then destroy it and prove it gone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.planned import planned_weights
from tpuflex.deploy.ownership import ownership_of
from tpuflex.deploy.purge import kept_line, kept_weights, planned_copies, planned_purge, purge
from tpuflex.deploy.stack_run import StackRun
from tpuflex.deploy.teardown_proof import (
    Keeper,
    KeptResource,
    kept_resources,
    prove_empty,
    refuse_foreign,
    refuse_unknown,
)
from tpuflex.engine.events import EnginePlan
from tpuflex.engine.state import known_ids, resources
from tpuflex.errors import (
    AccessError,
    ApiError,
    ConflictError,
    EngineError,
    NotFoundError,
    PlanChangedError,
    TpuflexError,
)
from tpuflex.inventory.kinds import KINDS
from tpuflex.inventory.unlisted import reasons, recorded, unlisted_remedy
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.slice import slice_status
from tpuflex.planning.cost import cost_in
from tpuflex.queued_resource.outcomes import PROTECTED
from tpuflex.stack.progress import Consent, Progress, Report, require_name, silent, working
from tpuflex.weights.stack_weights import StackWeights, is_shared
from tpuflex.weights.use import note_last_use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.deploy.ownership import Ownership
    from tpuflex.inventory.inventory import Inventory, Item
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.weights.removal import Removal

_NOT_LISTED = (
    "What the state knows there is in the list, and is destroyed all the same; what it does not"
    " know there stays, and nothing proves that it is gone."
)
_NOT_COMPARED = (
    "That is destroyed all the same, as the state says that it is this stack's: whether somebody"
    " else has made it anew under that name, nobody could look."
)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a teardown would do.

    Attributes:
        mine: what of the state, and of the cloud, is ours.
        has_state: whether the backend knows the stack.
        plan: what the engine would delete.
        before: everything in the cloud that has the stack's names.
        not_deleted: what will be kept, on request.
    """

    mine: Ownership
    has_state: bool
    plan: EnginePlan
    before: Inventory
    not_deleted: tuple[KeptResource, ...]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to destroy."""
        return not self.plan.changes and not self.before.ours

    @property
    def to_destroy(self) -> tuple[Item, ...]:
        """What will be destroyed, in that order: what was found, and what only the state knows
        because it could not be looked at."""
        only = recorded(self.mine.deployment.get("resources") or (), self.before)
        order = [kind.name for kind in KINDS]
        found = (*self.before.ours, *only)
        return tuple(sorted(found, key=lambda item: order.index(item.kind)))

    def unlisted_lines(self, project: str) -> list[str]:
        """What could not be looked at in ``project``, what that means, and what to do about it."""
        unlisted, uncompared = self.before.unlisted, self.mine.uncompared_lines()
        lines = []
        if unlisted:
            lines += [f"Could not be looked at: {line}" for line in reasons(unlisted)]
            lines.append(_NOT_LISTED)
        if uncompared:
            lines += [f"Could not be compared with the state: {line}" for line in uncompared]
            lines.append(_NOT_COMPARED)
        return [*lines, *unlisted_remedy((*unlisted, *uncompared), project).splitlines()]

    @property
    def served(self) -> PlannedWeights | None:
        """The weights that the slice in the state was made for."""
        made = resources(self.mine.deployment)
        slices = (each for each in made if each["type"] == QUEUED_RESOURCE)
        found = (planned_weights((each.get("inputs") or {}).get("metadata")) for each in slices)
        return next((each for each in found if each is not None), None)

    @property
    def protected(self) -> bool:
        """Whether Pulumi's ``protect`` keeps something."""
        return _protected(self.not_deleted)

    @property
    def serving(self) -> KeptResource | None:
        """The slice that serves, and that ``deletion_protection`` keeps with all it needs."""
        keepers = (each for each in self.not_deleted if each.keeper is Keeper.DELETION_PROTECTION)
        return next(keepers, None)

    def kept_lines(self) -> list[str]:
        """A line for each thing in the state that will not be deleted, with the reason."""
        return [
            *self.mine.foreign_lines(),
            *(f"Not deleted: {each}" for each in self.not_deleted),
            *(f"Kept: {path} (yours: the stack only uses it)" for path in self.before.kept),
        ]


@dataclass(frozen=True, slots=True)
class Remainder:
    """What a teardown leaves of what outlives the stack.

    Attributes:
        weights: the weights, for ``--json``; None for none.
        line: the same in words, with what it costs a month; empty for none.
    """

    weights: dict[str, object] | None = None
    line: Advice | str = ""


class StackTeardown:
    """The teardown of the stack of ``cloud``."""

    def __init__(self, cloud: Connection, report: Report = silent) -> None:
        self._cloud = cloud
        self._report = report
        self._run = StackRun(cloud, report)

    def kept(self, planned: Planned) -> Remainder:
        """What outlives the stack, and is left after the teardown."""
        home = StackWeights(self._cloud)
        kept = kept_weights(home)
        line = kept_line(home, kept, planned.served)
        return Remainder(kept, line)

    def look(self) -> Planned:
        """What it would do.

        Raises:
            ConflictError: the stack is a program of the user's own, with more than an endpoint.
            IncompleteTeardownError: the slice is there and ours, and not in the state.
            TpuflexError: the state, or the cloud, cannot be read.
        """
        require_alone(self._cloud.stack)
        engine = self._run.engine
        has_state = engine.exists()
        mine = ownership_of(self._cloud, engine.deployment() if has_state else {})
        not_deleted = kept_resources(mine.deployment.get("resources") or ())
        plan = EnginePlan(())
        if has_state:
            plan = engine.preview_destroy(keep_protected=_protected(not_deleted))
            plan = EnginePlan(tuple(step for step in plan.steps if step.urn not in mine.foreign))
        before = mine.inventory(self._cloud)
        refuse_unknown(before, known_ids(mine.deployment))
        return Planned(mine, has_state, plan, before, not_deleted)

    def carry_out(self, planned: Planned) -> Inventory:
        """Destroy what is ``planned``, prove that nothing is left, and give the last inventory.

        Raises:
            IncompleteTeardownError: something is left, or could not be listed.
            TpuflexError: the engine failed.
        """
        has_state, mine = planned.has_state, planned.mine
        if not planned.nothing:
            if mine.foreign:
                self._run.engine.replace(mine.deployment)
            if has_state:
                has_state = destroyed(self._run, planned, self._report)
        with working(self._report, "Asking every service what is left"):
            left = prove_empty(
                lambda: mine.inventory(self._cloud),
                timing=self._cloud.timing,
                project=self._cloud.stack.settings.project,
                kept=planned.not_deleted,
            )
        if has_state and not planned.protected:
            with suppress(NotFoundError):
                self._run.engine.remove()
        refuse_foreign(left)
        if (served := planned.served) is not None:
            note_last_use(self._cloud, served, self._report)
        return left


@dataclass(frozen=True, slots=True)
class DownPlan:
    """What `down` is about to do, told before it asks.

    Attributes:
        home: the stack's weights, in its home.
        planned: what its teardown would do.
        cost: what it has cost so far, in words; empty without a slice.
        purges: whether the weights that outlive the stack are asked to go, too.
        weights: those of them that go; None for none.
        copies: the same in further regions, each with the weights there.
    """

    home: StackWeights
    planned: Planned
    cost: str = ""
    purges: bool = False
    weights: Removal | None = None
    copies: tuple[tuple[StackWeights, Removal], ...] = ()

    def __str__(self) -> str:
        doomed = ", ".join(f"{item.kind} {item.name}" for item in self.planned.to_destroy)
        return f"To be destroyed: {doomed or 'nothing'}"

    @property
    def own_weights_go(self) -> bool:
        """Whether a bucket of the stack's own goes, with the weights that were pushed there."""
        own = not is_shared(self.home.cloud.stack)
        return own and any(item.kind == "bucket" for item in self.planned.to_destroy)

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return self.planned.nothing and self.weights is None and not self.copies

    @property
    def digest(self) -> str:
        """The SHA-256, in hex, of what goes and of what is kept: the same for two plans that would
        do the same, whatever state the slice is in meanwhile."""
        planned = self.planned
        found = {
            "steps": planned.plan.digest,
            "items": sorted([item.kind, item.location, item.name] for item in planned.to_destroy),
            "kept": sorted([*map(str, planned.not_deleted), *planned.before.kept]),
            "weights": None if self.weights is None else self.weights.to_json(),
            "copies": _copies(self.copies),
        }
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex down --dry-run --json`` prints."""
        document: dict[str, object] = {
            "stack": self.home.cloud.stack.name,
            "destroyed": False,
            "digest": self.digest,
            **_document(self.planned, self.planned.before),
            "to_destroy": [item.to_json() for item in self.planned.to_destroy],
            "purged_weights": None if self.weights is None else self.weights.to_json(),
        }
        if self.copies:
            document["purged_copies"] = _copies(self.copies)
        return document


@dataclass(frozen=True, slots=True)
class Down:
    """What `down` has done.

    Attributes:
        plan: what it was about to do.
        left: everything in the cloud that has the stack's names, afterwards.
        kept: what outlives the stack, and is left.
        purged: the sets of weights that were removed, each with the weights there.
        failed: why not all of those were removed that were to be; None if they were. The stack is
            gone all the same.
    """

    plan: DownPlan
    left: Inventory
    kept: Remainder
    purged: tuple[tuple[StackWeights, Removal], ...] = ()
    failed: TpuflexError | None = None

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex down --json`` prints."""
        home = self.plan.home
        stack = home.cloud.stack
        done = {
            "stack": stack.name,
            "destroyed": True,
            **_document(self.plan.planned, self.left),
        }
        if is_shared(stack):
            done["kept_weights"] = self.kept.weights
            here = [removal.to_json() for there, removal in self.purged if there is home]
            done["purged_weights"] = here[0] if here else None
        if removed := [each for each in self.purged if each[0] is not home]:
            done["purged_copies"] = _copies(removed)
        return done


def plan_down(
    cloud: Connection, report: Report = silent, *, purge_weights: bool = False
) -> DownPlan:
    """What :func:`down` would do; nothing is changed.

    Raises:
        ConflictError: the weights that are to go may be of use to others.
        TpuflexError: the state, or the cloud, cannot be read.
    """
    with working(report, "Looking for what there is"):
        planned = StackTeardown(cloud, report).look()
    return _plan(cloud, planned, purge_weights=purge_weights)


def down(
    cloud: Connection,
    report: Callable[[Progress | DownPlan], None] = silent,
    *,
    consent: Consent,
    purge_weights: bool = False,
    expected: str = "",
) -> Down:
    """Destroy the stack of ``cloud`` and prove that nothing of it is left.

    Args:
        cloud: the stack's cloud.
        report: is told what will be destroyed, and then how far it is.
        consent: asked for the stack's name, unless there is nothing to do.
        purge_weights: whether the weights go, too, that outlive the stack.
        expected: the digest of the only plan that may run; empty for any.

    Raises:
        PlanChangedError: the plan is another one; nothing was deleted.
        ConflictError: the slice is ACTIVE, and its deletion protection is on; or the weights that
            are to go may be of use to others.
        InterruptedByUser: the stack's name was not typed.
        IncompleteTeardownError: something is left, or could not be listed; or the slice is there
            and not in the state, in which case nothing was deleted.
        TpuflexError: the engine failed.
    """
    teardown = StackTeardown(cloud, report)
    with working(report, "Looking for what there is"):
        planned = teardown.look()
    if planned.serving is not None:
        raise protected_error(planned.serving)
    plan = _plan(cloud, planned, purge_weights=purge_weights)
    report(plan)
    if expected and plan.digest != expected:
        raise PlanChangedError(
            "What is there is not what was approved, and nothing was deleted: the plan's digest is"
            f" {plan.digest}, and {expected} was expected.",
            hint=Advice("`{down} --dry-run --json` gives the plan as it is now."),
        )
    if not plan.nothing:
        require_name(consent, "stack's name", cloud.stack.name)
    here = () if plan.weights is None else ((plan.home, plan.weights),)
    left = teardown.carry_out(planned)
    purged, failed = _purged((*here, *plan.copies))
    return Down(plan, left, teardown.kept(planned), purged, failed)


def _plan(cloud: Connection, planned: Planned, *, purge_weights: bool) -> DownPlan:
    home = StackWeights(cloud)
    doomed = planned_purge(home, planned.served) if purge_weights else None
    copies = planned_copies(home, planned.served) if purge_weights else ()
    cost = "" if planned.nothing else _cost(cloud)
    return DownPlan(home, planned, cost, purge_weights, doomed, copies)


def _purged(
    doomed: Iterable[tuple[StackWeights, Removal]],
) -> tuple[tuple[tuple[StackWeights, Removal], ...], TpuflexError | None]:
    """Remove the sets of weights that are ``doomed``: those that are gone, and what kept the rest.
    The stack is gone by then, which is to be told all the same."""
    purged: list[tuple[StackWeights, Removal]] = []
    try:
        for there, planned in doomed:
            purged.append((there, purge(there, planned)))
    except TpuflexError as error:
        return tuple(purged), error
    return tuple(purged), None


def _copies(of: Sequence[tuple[StackWeights, Removal]]) -> list[dict[str, object]]:
    """Sets in further regions, for ``--json``."""
    return [{"bucket": there.bucket, **removal.to_json()} for there, removal in of]


def require_alone(stack: Stack) -> None:
    """Refuse a stack that is opened by its state and has more in it than one endpoint.

    Raises:
        ConflictError: that is so.
    """
    if stack.recorded is not None and not stack.recorded.alone:
        raise ConflictError(
            f"Stack {stack.name} is a program of your own, with more in it than an endpoint:"
            " nothing was deleted.",
            hint=f"To destroy all of it: pulumi destroy --stack {stack.name}",
        )


def protected_error(serving: KeptResource) -> ConflictError:
    """The error for a slice that serves and is protected. It is raised before anything is deleted:
    the provider would refuse only after other resources are gone."""
    return ConflictError(
        f"{serving.id} is ACTIVE and {PROTECTED.text}: nothing was deleted",
        hint=Advice("To delete it: {remedy}, then run `{down}` again.", remedy=serving.remedy),
    )


def _cost(cloud: Connection) -> str:
    """What the stack has cost so far, in words."""
    stack = cloud.stack
    if stack.embedded:
        return "nothing: the embedded cloud is free"
    try:
        status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    except NotFoundError:
        return ""
    except (AccessError, ApiError):
        return "unknown"  # it may not be read; the plan for the teardown says so
    per_hour = cost_in(stack.settings, status.zone).per_hour
    spent = status.cost(per_hour, cloud.now())
    return "unknown" if spent is None else f"${spent}, and ${per_hour} per hour while it runs"


def _document(planned: Planned, inventory: Inventory) -> dict[str, object]:
    return {
        "resources": [
            {"operation": step.operation, "type": step.type, "name": step.name}
            for step in planned.plan.resources
        ],
        "inventory": [item.to_json() for item in inventory.items],
        "kept": list(inventory.kept),
        "not_looked_at": [str(each) for each in inventory.unlisted],
        "not_compared": planned.mine.uncompared_lines(),
    }


def _protected(not_deleted: Iterable[KeptResource]) -> bool:
    return any(each.keeper is Keeper.PROTECT for each in not_deleted)


def destroyed(stack_run: StackRun, planned: Planned, say: Callable[[str], None]) -> bool:
    """Destroy; False if another run has removed the stack in the meantime.

    Raises:
        TpuflexError: the engine failed, and nothing is kept that explains it. (A network that a
            kept slice uses cannot be deleted either; both are listed as left.)
    """
    plan, protected = planned.plan, planned.protected
    try:
        try:
            stack_run.destroy(plan, keep_protected=protected)
        except EngineError as error:
            if not error.stale:
                raise
            # pulumi-gcp does not take a bucket that is gone for deleted.
            say(f"{error.message}\nIt is gone already: reading the state again.")
            stack_run.refresh()
            stack_run.destroy(plan, keep_protected=protected)
    except NotFoundError:
        say("Another `tpuflex down` has removed the stack in the meantime.")
        return False
    except EngineError as error:
        if not planned.not_deleted:
            raise
        say(error.message)
    return True
