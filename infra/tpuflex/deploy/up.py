"""The steps of `tpuflex up`: plan, consent, resources, wait for the host, result."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.cli.endpoint.status import boot_text, moment_text
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.approval import Approval
from tpuflex.deploy.boot import wait_ready
from tpuflex.deploy.boot_failure import after_failed_boot, slice_before
from tpuflex.deploy.hand_over import short_for_both
from tpuflex.deploy.ownership import require_free_names, require_own_containers
from tpuflex.deploy.plan import number, price_text
from tpuflex.deploy.policy import require_allowed
from tpuflex.deploy.preparation import BUCKET
from tpuflex.deploy.stack_run import SLICE, StackRun
from tpuflex.doctor.check import first_failure
from tpuflex.doctor.examine import cloud_examinations
from tpuflex.doctor.side_by_side import examine_all
from tpuflex.errors import (
    AccessError,
    ApiError,
    FailedBootError,
    NotFoundError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.planning.cost import cost_in
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.settings.rules import warnings
from tpuflex.settings.weights_source import PackagedModel
from tpuflex.stack.progress import require_consent
from tpuflex.weights.source import check_source, weights_origin

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.plan import StackPlan
    from tpuflex.engine.events import EnginePlan
    from tpuflex.stack.connection import Connection


_ANY_PLAN = Approval()


def run_up(
    invocation: Invocation,
    cloud: Connection,
    accepted_weights: str | None = None,
    *,
    missing_allowed: bool = False,
    skipped_checks: Collection[str] = (),
    approval: Approval = _ANY_PLAN,
) -> None:
    """Bring the stack of ``cloud`` up and show the endpoint.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        accepted_weights: the hash of the weights that the user accepts by name.
        missing_allowed: whether chips may be requested before there are weights.
        skipped_checks: names of checks that the user goes on without.
        approval: which plans may run.

    Raises:
        PlanChangedError: the plan may not run; nothing was changed.
        TpuflexError: any step failed; what was done so far is kept.
    """
    output = invocation.output
    if not missing_allowed:
        require_source(cloud)
    stack_run = StackRun(
        cloud,
        invocation.report,
        accepted_weights=accepted_weights,
        weights_awaited=missing_allowed,
    )
    stack_run.load()
    require_apis(cloud, invocation.report, invocation.consent)
    plan = stack_run.plan()
    if not plan.plan.changes and not plan.run_over and not slice_exists(cloud):
        output.progress("The slice is in the stack's state but not in the cloud: refreshing …")
        stack_run.refresh()
        plan = stack_run.plan()
    require_free_names(cloud, stack_run, plan.plan, output.progress)
    if plan.plan.changes:
        require_own_containers(cloud, stack_run)
    plan.show(output)
    if not output.json:  # the plan shows them; the program tells them again
        invocation.report.shown(str(warning) for warning in warnings(cloud.stack.settings))
    approval.require(plan.plan)
    if plan.plan.changes:
        require_allowed(plan.policy)
    before = slice_before(cloud)
    if plan.plan.changes:
        if approval.digest:
            stack_run.preparation.require_known_push()
        if asks_for_chips(plan.plan):
            require_ready(cloud, skipped_checks)
            _warn_of_quota(invocation, cloud, plan)
        # After it: without rights on buckets, the stack's own looks like somebody else's.
        stack_run.preparation.check()
        require_consent(invocation.consent, "Go ahead?")
        _fetch(invocation, cloud, plan)
        stack_run.up(plan.plan)
    else:
        output.progress("No changes: everything is as the stack file says.")
        if plan.run_over:
            stack_run.refresh(SLICE)  # the state must know it when the leftover is gone, too
    if plan.run_over:  # the provider has succeeded, because `on_run_end` is accept
        show_accepted_end(invocation, cloud, plan)
        return
    try:
        status = wait_ready(cloud, invocation.report)
    except FailedBootError as failure:
        raise after_failed_boot(cloud, stack_run, failure, before) from failure
    show_result(invocation, cloud, status)


def _warn_of_quota(invocation: Invocation, cloud: Connection, plan: StackPlan) -> None:
    """Say before the consent if the quota is not enough for two slices and the plan takes two."""
    with suppress(AccessError, ApiError):  # then the request says it
        if short := short_for_both(cloud, plan.plan):
            invocation.output.progress(f"  warning  `up` {short}.")


def slice_exists(cloud: Connection) -> bool:
    """Whether the stack's slice exists in the cloud, in any state."""
    try:
        status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    except NotFoundError:
        return False
    return status.lifecycle is not Lifecycle.LOST


def show_result(invocation: Invocation, cloud: Connection, status: SliceStatus) -> None:
    """Print the endpoint and the commands to use it with."""
    stack, output, now = cloud.stack, invocation.output, cloud.now()
    endpoint = stack.settings.url(status.address)
    cost = cost_in(stack.settings, status.zone)
    output.document(
        {
            "endpoint": endpoint,
            "model": stack.settings.model.name,
            "usd_per_hour": number(cost.per_hour),
            "boot_seconds": status.host.seconds_by_phase() if status.host else {},
            "slice": status.to_json(),
            "run_over": None,
        }
    )
    output.result()
    rehearsed = "rehearsal: " if stack.rehearsed else ""
    output.heading(f"{rehearsed}READY: a completion was served")
    output.facts(
        (
            ("endpoint", endpoint),
            ("model", stack.settings.model.name),
            ("expires", moment_text(status.expires, now)),
            ("price", price_text(cost)),
            ("boot", boot_text(status, now, plain=output.ascii_only)),
        )
    )
    output.result()
    commands = Advice('Next: {ask} "your question"\n      {status}\n      {down}')
    output.result(commands.for_stack(stack.name, invocation.environ))


def show_accepted_end(invocation: Invocation, cloud: Connection, plan: StackPlan) -> None:
    """Print that nothing serves any more, as `on_run_end` has it, and what would change that."""
    stack, output = cloud.stack, invocation.output
    left = None
    with suppress(NotFoundError):
        left = slice_status(stack.settings, stack.names, cloud.tpu)
    output.document(
        {
            "endpoint": None,
            "model": stack.settings.model.name,
            "usd_per_hour": number(plan.cost.per_hour),
            "boot_seconds": {},
            "slice": left and left.to_json(),
            "run_over": plan.run_over,
        }
    )
    output.progress(f"warning: {plan.run_over}.")
    output.result()
    output.heading("Nothing serves: the run is over")
    commands = Advice("For a new run: change tpuflex:slice.rerun, then {up}\nTo clean up: {down}")
    output.result(commands.for_stack(stack.name, invocation.environ))


def _fetch(invocation: Invocation, cloud: Connection, plan: StackPlan) -> None:
    """Fetch what the resources will need before the first of them is created, so that a failed
    download costs nothing and leaves nothing behind."""
    changed = {step.type for step in plan.plan.changes}
    stack, say = cloud.stack, invocation.output.progress
    if stack.embedded and QUEUED_RESOURCE in changed:
        from embedded_cloud.machines.image_installation import ensure_image

        ensure_image(stack.settings.serving.image, stack.project.home, say)
    source = stack.settings.model.weights.source
    if isinstance(source, PackagedModel) and BUCKET in changed:
        weights_origin(stack, source, say, lambda: cloud)


SKIP_OPTION = "--skip-check"


def asks_for_chips(plan: EnginePlan) -> bool:
    """Whether ``plan`` requests a slice, a first one or another."""
    return any(
        step.type == QUEUED_RESOURCE and step.operation in ("create", "replace")
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


def require_ready(cloud: Connection, skipped: Collection[str] = ()) -> None:
    """Refuse what cannot succeed, as far as it can be told; what cannot be read is no obstacle.

    Args:
        cloud: the stack's cloud.
        skipped: names of examinations that the user goes on without.

    Raises:
        TpuflexError: the first failure, of its kind; the hint names the others.
    """
    asked = [
        each for each in cloud_examinations(cloud) if each.decisive and each.name not in skipped
    ]
    found = list(zip(asked, examine_all(asked), strict=True))
    failure = first_failure(check for _, checks in found for check in checks)
    if failure is None:
        return
    failed = [each.name for each, checks in found if first_failure(checks) is not None]
    error = failure.error()
    options = " ".join(f"{SKIP_OPTION} {name}" for name in failed)
    others = Advice("`{doctor}` shows all that was looked at")
    error.hint = Advice(
        "{hint}\nNothing was made. {others}; `{up} {options}` goes on in spite of it.",
        hint=error.hint,
        others=others,
        options=options,
    )
    raise error
