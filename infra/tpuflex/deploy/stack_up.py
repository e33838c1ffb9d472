"""Bring a stack up: plan, consent, resources, wait for the host."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.approval import Approval, nothing_to_renew
from tpuflex.deploy.before_chips import hand_over_shortage
from tpuflex.deploy.boot import after_failed_boot, slice_before, wait_ready
from tpuflex.deploy.ownership import require_containers_owned, require_free_names
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.policy import require_allowed, require_present_waivers
from tpuflex.deploy.preparation import BUCKET
from tpuflex.deploy.stack_run import SLICE, StackRun, for_new_host
from tpuflex.doctor.channels import CHANNELS
from tpuflex.doctor.check import first_failure
from tpuflex.doctor.examine import cloud_examinations
from tpuflex.doctor.side_by_side import DECISIVE, examine_all
from tpuflex.errors import (
    AccessError,
    ApiError,
    FailedBootError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.inventory.kinds import ALERT_POLICY, SECRET
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.endpoint_status import gone_container
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.planning.cost import RunCost, cost_in, usd
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.weights_source import PackagedModel
from tpuflex.stack.progress import Consent, Progress, Report, require_consent, silent, working
from tpuflex.weights.known_files import planned_by_files
from tpuflex.weights.source import check_source, source_model

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan
    from tpuflex.operate.health import Health
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

#: Takes the progress of an `up`, its plan among it: before the question, and before it refuses.
UpReport = Callable[[Progress | StackPlan], None]

_ANY_PLAN = Approval()
#: The option of `tpuflex up` that goes on without a check.
_SKIP_OPTION = "--skip-check"


@dataclass(frozen=True, slots=True)
class UpResult:
    """What an `up` ends with.

    Attributes:
        stack: the stack.
        slice: the slice that serves; of a run that is over, what is left of it.
        cost: what its chips cost, in the zone that granted them.
        at: when that was, by the cloud's clock.
        run_over: what is said of a run that is over, as ``on_run_end: accept`` has it; else empty.
        health: whether a host that was READY before answers now; None of one that has booted now.
    """

    stack: Stack
    slice: SliceStatus | None
    cost: RunCost
    at: datetime
    run_over: str = ""
    health: Health | None = None

    @property
    def endpoint(self) -> str | None:
        """The address that a client is given; None where nothing serves."""
        if self.slice is None or self.run_over:
            return None
        return self.stack.settings.url(self.slice.address)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex up --json`` prints."""
        host = None if self.slice is None or self.run_over else self.slice.host
        return {
            "endpoint": self.endpoint,
            "model": self.stack.settings.model.name,
            "usd_per_hour": usd(self.cost.per_hour),
            "boot_seconds": {} if host is None else host.seconds_by_phase(),
            "slice": None if self.slice is None else self.slice.to_json(self.stack.name),
            "run_over": self.run_over or None,
            "health": None if self.health is None else self.health.to_json(),
        }


def up(
    cloud: Connection,
    report: UpReport = silent,
    *,
    consent: Consent,
    accepted_weights: str | None = None,
    missing_allowed: bool = False,
    skipped_checks: Collection[str] = (),
    new_host: bool = False,
    approval: Approval = _ANY_PLAN,
    refresh: bool = False,
) -> UpResult:
    """Bring a stack up, and wait until it has served a completion: a host that was READY before is
    asked for one.

    Args:
        cloud: the stack's cloud.
        report: takes the progress, and the plan before the checks and the question.
        consent: answers the questions.
        accepted_weights: the hash of the weights that the user accepts by name.
        missing_allowed: whether chips may be requested before there are weights.
        skipped_checks: names of checks that the user goes on without.
        new_host: whether another slice takes the place of one that has not changed.
        approval: which plans may run.
        refresh: whether all is compared with the cloud before it is planned, and what is not as the
            state has it is brought right.

    Raises:
        PlanChangedError: the plan may not run; nothing was changed.
        InterruptedByUser: there is no consent.
        ConflictError: there is no host yet that a new one could replace.
        TpuflexError: any step failed; what was done so far is kept.
    """
    require_present_waivers(cloud.stack, cloud.now())
    cloud = planned_by_files(cloud)
    if new_host:
        cloud = for_new_host(cloud)
    stack = cloud.stack
    if not missing_allowed:
        require_source(cloud)
    stack_run = StackRun(
        cloud,
        report,
        accepted_weights=accepted_weights,
        weights_awaited=missing_allowed,
    )
    if approval.renewal_only and not stack_run.engine.exists():
        raise nothing_to_renew()  # a plan would leave a state behind
    stack_run.load()
    require_apis(cloud, report, consent)
    plan = stack_run.plan(refresh=refresh)
    if not refresh and not plan.run_over and (gone := _gone(cloud, plan.plan)):
        report(
            f"{gone} is in the stack's state but not in the cloud: comparing all with the cloud …"
        )
        plan = stack_run.plan(refresh=True)
    require_free_names(cloud, stack_run, plan.plan, report)
    if plan.plan.changes:
        require_containers_owned(cloud, stack_run)
    report(plan)
    approval.require(plan.plan)
    if plan.plan.changes:
        require_allowed(plan.policy)
    before = slice_before(cloud)
    if plan.plan.changes:
        if approval.digest:
            stack_run.preparation.require_known_push()
        if asks_for_chips(plan.plan):
            with working(report, "Looking at what `tpuflex doctor` looks at"):
                require_checks(cloud, skipped_checks)
            _warn_of_quota(cloud, plan, report)
        elif tells_channels(plan.plan):
            require_checks(cloud, skipped_checks, only=(CHANNELS,))
        # After it: without rights on buckets, the stack's own looks like another owner's.
        stack_run.preparation.check()
        require_consent(consent, "Go ahead?")
        with working(report, "Fetching what the resources need"):
            _fetch(cloud, plan, report)
        stack_run.up(plan.plan)
    else:
        report("No changes: everything is as the stack file says.")
        if plan.plan.refreshed and plan.plan.drift:
            stack_run.refresh()  # what no program has any more is gone from the cloud, too
        elif plan.run_over:
            stack_run.refresh(SLICE)  # the state must know it when the leftover is gone, too
    if plan.run_over:  # the provider has succeeded, because `on_run_end` is accept
        left = None
        with suppress(NotFoundError):
            left = slice_status(stack.settings, stack.names, cloud.tpu)
        return UpResult(stack, left, plan.cost, cloud.now(), plan.run_over)
    try:
        status, answers = wait_ready(cloud, report)
    except FailedBootError as failure:
        raise after_failed_boot(cloud, stack_run, failure, before) from failure
    cost = cost_in(stack.settings, status.zone)
    return UpResult(stack, status, cost, cloud.now(), health=answers)


def _warn_of_quota(cloud: Connection, plan: StackPlan, report: Report) -> None:
    """Say before the consent if the quota is not enough for two slices and the plan takes two."""
    with suppress(AccessError, ApiError):  # then the request says it
        if short := hand_over_shortage(cloud, plan.plan):
            report(f"  warning  `up` {short}.")


def _gone(cloud: Connection, plan: EnginePlan) -> str:
    """What of the stack, which is there by its state, somebody has deleted so that its host serves
    nobody, or boots no second time; empty for nothing. A refresh sees the rest, too."""
    if not plan.changes and not slice_exists(cloud):
        return "The slice"
    made = {step.type for step in plan.steps if step.operation == "create"}
    return "" if made & {SECRET.type, BUCKET} else gone_container(cloud)


def slice_exists(cloud: Connection) -> bool:
    """Whether the stack's slice exists in the cloud, in any state."""
    try:
        status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    except NotFoundError:
        return False
    return status.lifecycle is not Lifecycle.LOST


def _fetch(cloud: Connection, plan: StackPlan, report: Report) -> None:
    """Fetch what the resources will need before the first of them is created, so that a failed
    download costs nothing and leaves nothing behind."""
    changed = {step.type for step in plan.plan.changes}
    stack = cloud.stack
    if stack.embedded and QUEUED_RESOURCE in changed:
        from embedded_cloud.machines.image_installation import ensure_image

        ensure_image(stack.settings.serving.image, stack.project.home, report)
    source = stack.settings.model.weights.source
    if isinstance(source, PackagedModel) and BUCKET in changed:
        source_model(stack, source, report, lambda: cloud)


def asks_for_chips(plan: EnginePlan) -> bool:
    """Whether ``plan`` requests a slice, a first one or another."""
    return any(
        step.type == QUEUED_RESOURCE and step.operation in ("create", "replace")
        for step in plan.steps
    )


def tells_channels(plan: EnginePlan) -> bool:
    """Whether ``plan`` makes or changes an alert policy, which names channels."""
    return any(
        step.type == ALERT_POLICY.type and step.operation in ("create", "update", "replace")
        for step in plan.steps
    )


def require_source(cloud: Connection) -> None:
    """Refuse a source of weights that is not there, before a project is changed for them.

    Who has a bucket may have the weights in it: whether they are there is looked at later.

    Raises:
        SettingsError: the source is malformed, or holds no checkpoint, and there is no bucket.
        WeightsError: it holds a damaged one, and there is no bucket.
        NotFoundError, AccessError, ApiError: the Hub does not give it, and there is no bucket.
    """
    try:
        check_source(cloud.stack, cloud)
    except TpuflexError:
        if not _may_have_bucket(cloud):
            raise


def _may_have_bucket(cloud: Connection) -> bool:
    try:
        cloud.apis().storage.call("GET", f"/storage/v1/b/{cloud.bucket}", budget=0)
    except (NotFoundError, ServiceDisabledError):
        return False
    except TpuflexError:
        return True  # not told; the next step asks again
    return True


def require_checks(
    cloud: Connection, skipped: Collection[str] = (), *, only: Collection[str] = DECISIVE
) -> None:
    """Refuse what cannot succeed, as far as it can be told; what cannot be read is no obstacle.

    Args:
        cloud: the stack's cloud.
        skipped: names of examinations that the user goes on without.
        only: names of those that count; by default all that are decisive.

    Raises:
        TpuflexError: the first failure, of its kind; the hint names the others.
    """
    asked = [each for each in cloud_examinations(cloud) if each.name in {*only} - {*skipped}]
    found = list(zip(asked, examine_all(asked), strict=True))
    failure = first_failure(check for _, checks in found for check in checks)
    if failure is None:
        return
    failed = [each.name for each, checks in found if first_failure(checks) is not None]
    error = failure.error()
    options = " ".join(f"{_SKIP_OPTION} {name}" for name in failed)
    others = Advice("`{doctor}` shows all that was looked at")
    error.hint = Advice(
        "{hint}\nNothing was made. {others}; `{up} {options}` goes on in spite of it.",
        hint=error.hint,
        others=others,
        options=options,
    )
    raise error
