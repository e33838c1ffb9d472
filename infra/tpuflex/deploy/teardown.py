"""One stack's teardown in two steps: look at what is there, then destroy it and prove it gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.planned import planned_weights
from tpuflex.deploy.ownership import ownership_of
from tpuflex.deploy.stack_run import StackRun
from tpuflex.deploy.teardown_proof import (
    Keeper,
    Kept,
    kept,
    prove_empty,
    refuse_foreign,
    refuse_unknown,
)
from tpuflex.engine.events import EnginePlan
from tpuflex.engine.state import known_ids, resources
from tpuflex.errors import EngineError, NotFoundError
from tpuflex.inventory.kinds import KINDS
from tpuflex.inventory.unlisted import reasons, recorded, unseen_remedy
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.weights.stack_weights import StackWeights, kept_line, kept_weights
from tpuflex.weights.use import note_last_use

if TYPE_CHECKING:
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.ownership import Ownership
    from tpuflex.inventory.inventory import Inventory, Item
    from tpuflex.stack.connection import Connection

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
    not_deleted: tuple[Kept, ...]

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

    def unseen_lines(self, project: str) -> list[str]:
        """What could not be looked at in ``project``, what that means, and what to do about it."""
        unseen, uncompared = self.before.unseen, self.mine.uncompared_lines()
        lines = []
        if unseen:
            lines += [f"Could not be looked at: {line}" for line in reasons(unseen)]
            lines.append(_NOT_LISTED)
        if uncompared:
            lines += [f"Could not be compared with the state: {line}" for line in uncompared]
            lines.append(_NOT_COMPARED)
        return [*lines, *unseen_remedy((*unseen, *uncompared), project).splitlines()]

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
    def serving(self) -> Kept | None:
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
class Left:
    """What a teardown leaves of what outlives the stack.

    Attributes:
        weights: the weights, for ``--json``; None for none.
        line: the same in words, with what it costs a month; empty for none.
    """

    weights: dict[str, object] | None = None
    line: str = ""


class StackTeardown:
    """The teardown of the stack of ``cloud``."""

    def __init__(self, invocation: Invocation, cloud: Connection) -> None:
        self._output = invocation.output
        self._cloud = cloud
        self._run = StackRun(cloud, invocation.report)

    def kept(self, planned: Planned) -> Left:
        """What outlives the stack, and is left after the teardown."""
        home = StackWeights(self._cloud)
        kept = kept_weights(home)
        line = kept_line(home, kept, planned.served)
        return Left(kept, line.for_stack(self._cloud.stack.name, os.environ))

    def look(self) -> Planned:
        """What it would do.

        Raises:
            IncompleteTeardownError: the slice is there and ours, and not in the state.
            TpuflexError: the state, or the cloud, cannot be read.
        """
        engine = self._run.engine
        has_state = engine.exists()
        mine = ownership_of(self._cloud, engine.deployment() if has_state else {})
        not_deleted = kept(mine.deployment.get("resources") or ())
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
                has_state = destroyed(self._run, planned, self._output.progress)
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
            note_last_use(self._cloud, served, self._output.progress)
        return left


def _protected(not_deleted: Iterable[Kept]) -> bool:
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
