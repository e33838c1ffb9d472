"""Whether a plan may run unattended: because it was approved, or because it only renews a run."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.advice import Advice
from tpuflex.engine.events import EnginePlan, Step
from tpuflex.errors import NotFoundError, PlanChangedError
from tpuflex.naming import QUEUED_RESOURCE

#: For what a renewal replaces the slice: its run is over or about to be
#: (:func:`tpuflex.provider.diff.due`), and each has an id of its own.
_RENEWAL = frozenset({"expireTime", "lifecycle", "queuedResourceId"})

#: What an update shows that only goes on with what an earlier run of the engine began: the request
#: waits, or what it asked for does not serve yet, or a deletion was stopped that had asked it to
#: drain (:mod:`tpuflex.provider.diff`).
_GOES_ON = frozenset({"drainsUntil", "lifecycle", "requests", "takesOverFrom"})


@dataclass(frozen=True, slots=True)
class Approval:
    """What may run.

    Attributes:
        digest: the digest of the only plan that may; empty for any.
        renewal_only: whether only a plan may that starts the next run, and changes nothing else.
    """

    digest: str = ""
    renewal_only: bool = False

    def require(self, plan: EnginePlan) -> None:
        """Check that ``plan`` may run; one without changes may, unless another was approved.

        Raises:
            PlanChangedError: it may not.
            NotFoundError: there is nothing to renew.
        """
        if self.renewal_only:
            _require_renewal(plan)
        found = plan.digest
        if self.digest and found != self.digest:
            raise PlanChangedError(
                "The plan is not the one that was approved, and nothing was changed: its digest is"
                f" {found}, and {self.digest} was expected.",
                hint=Advice(
                    "The stack file, tpuflex, the weights, or what is in the cloud has changed"
                    " since. Run `{preview}` for the plan as it is now, and have that approved."
                ),
            )


def _require_renewal(plan: EnginePlan) -> None:
    if any(step.type == QUEUED_RESOURCE and step.operation == "create" for step in plan.steps):
        raise nothing_to_renew()
    for step in plan.changes:
        if not step.custom:
            continue  # a component makes nothing: its inputs stand in the state alone
        if not _renews(step):
            word = "delete" if step.operation == "same" else step.operation
            raise PlanChangedError(
                f"The plan is more than a renewal, and nothing was changed: {word} of"
                f" {step.name} ({step.type}).",
                hint="Deploy what has changed, with whatever approval that takes; the next renewal"
                " comes after it.",
            )


def nothing_to_renew() -> NotFoundError:
    """The error for a renewal where there is no slice."""
    return NotFoundError(
        "There is no slice to renew, and nothing was changed.", hint=Advice("Run: {up}")
    )


def _renews(step: Step) -> bool:
    """Whether ``step`` starts the next run, or goes on with one that was started, and no more."""
    if step.type != QUEUED_RESOURCE:
        return False
    if step.operation == "replace":
        reasons, changed = _RENEWAL.issuperset(step.replaced_for), _RENEWAL | _GOES_ON
        return reasons and changed.issuperset(step.changed)
    if step.operation == "update":
        return bool(step.changed) and _GOES_ON.issuperset(step.changed)
    # What a renewal has replaced, and did not come to delete, and no more.
    return step.operation == "same" and step.ends_replaced
