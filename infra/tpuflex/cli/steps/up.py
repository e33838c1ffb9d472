"""The steps of `tpuflex up`: plan, consent, resources, wait for the host, result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from tpuflex import gcloud_commands
from tpuflex.cli.host_progress import HostProgress
from tpuflex.cli.output import for_stack
from tpuflex.cli.plan import number, price_text
from tpuflex.cli.prepare import BUCKET, weights_directory
from tpuflex.cli.stack_run import StackRun
from tpuflex.cli.steps.first_up import require_free_names
from tpuflex.cli.steps.own_containers import require_own_containers
from tpuflex.cli.steps.status import moment_text
from tpuflex.errors import BootError, CapacityError, InterruptedByUser, NotFoundError
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.host import HostReport, await_ready
from tpuflex.operate.slice import SliceStatus
from tpuflex.operate.status import observe_host, slice_status
from tpuflex.request.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.plan import StackPlan


def run_up(invocation: Invocation, cloud: Cloud, accepted_weights: str | None = None) -> None:
    """Bring the stack of ``cloud`` up and show the endpoint.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        accepted_weights: the hash of the weights that the user accepts by name.

    Raises:
        TpuflexError: any step failed; what was done so far is kept.
    """
    output = invocation.output
    stack_run = StackRun(invocation, cloud)
    stack_run.preparation.accepted = accepted_weights
    plan = stack_run.plan()
    if not plan.plan.changes and not slice_exists(cloud):
        output.progress("The slice is in the stack's state but not in the cloud: refreshing …")
        stack_run.refresh()
        plan = stack_run.plan()
    require_free_names(cloud, stack_run, plan.plan)
    if plan.plan.changes:
        require_own_containers(cloud, stack_run)
    plan.show(output)
    if plan.plan.changes:
        stack_run.preparation.check()
        if not invocation.yes:
            output.confirm("Go ahead?")
        _fetch(invocation, cloud, plan)
        stack_run.up(len(plan.plan.resources))
    else:
        output.progress("No changes: everything is as the stack file says.")
    status = wait_ready(invocation, cloud)
    show_result(invocation, cloud, plan, status)


def slice_exists(cloud: Cloud) -> bool:
    """Whether the stack's slice exists in the cloud, in any state."""
    try:
        status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    except NotFoundError:
        return False
    return status.lifecycle is not Lifecycle.LOST


def wait_ready(invocation: Invocation, cloud: Cloud) -> SliceStatus:
    """Wait until the host has served a completion, showing its phases.

    Raises:
        CapacityError: the request is still waiting.
        BootError: the host failed, took longer than ``timeouts.ready``, or its run is over.
    """
    stack = cloud.stack
    status = slice_status(stack.settings, stack.names, cloud.tpu)
    if status.ready:
        return status
    require_active(status)
    with HostProgress(invocation.output) as progress:

        def observe() -> HostReport | None:
            progress.tick()
            return observe_host(status.node, cloud.tpu)

        try:
            await_ready(
                observe,
                timeout=stack.settings.slice.timeouts.ready.total_seconds(),
                now=cloud.timing.monotonic,
                sleep=cloud.sleep,
                changed=progress.changed,
                log=host_log(cloud, status),
            )
        except KeyboardInterrupt as error:
            raise InterruptedByUser(
                "Stopped waiting; the slice is running and its host goes on booting.",
                hint="`tpuflex up` goes on waiting, `tpuflex status` shows the state, `tpuflex "
                "down` ends it.",
            ) from error
    return slice_status(stack.settings, stack.names, cloud.tpu)


def require_active(status: SliceStatus) -> None:
    """Check that there are hosts to wait for.

    Raises:
        CapacityError: the request is still waiting.
        BootError: there are no hosts, and somebody has to act.
    """
    text = f"{status.queued_resource} in {status.zone} is {status.state}: {status.sentence}."
    advice = f"{status.advice[:1].upper()}{status.advice[1:]}."
    if status.lifecycle in (Lifecycle.WAITING, Lifecycle.PROVISIONING):
        raise CapacityError(text, hint=advice)
    if status.lifecycle is not Lifecycle.ACTIVE:
        raise BootError(text, hint=advice)


def host_log(cloud: Cloud, status: SliceStatus) -> str:
    """Where to read the host's log: a file, or the command that shows it."""
    if cloud.stack.embedded:
        return str(emulated_log(cloud, status.node))
    command = gcloud_commands.host_log(status.node, lines=50)
    return for_stack(f"`tpuflex logs`, or {command} {command.hint}", cloud.stack.name)


def emulated_log(cloud: Cloud, node: str) -> Path:
    """The serial log of the first emulated host of ``node`` (full name)."""
    name = node.rpartition("/")[2]
    return cloud.stack.project.home / "emulator" / "hosts" / name / "serial.log"


def show_result(invocation: Invocation, cloud: Cloud, plan: StackPlan, status: SliceStatus) -> None:
    """Print the endpoint and the commands to use it with."""
    stack, output = cloud.stack, invocation.output
    endpoint = stack.settings.url(status.address)
    timeline = status.host.seconds_by_phase() if status.host else {}
    output.document(
        {
            "endpoint": endpoint,
            "model": stack.settings.model.name,
            "usd_per_hour": number(plan.cost.per_hour),
            "boot_seconds": timeline,
            "slice": status.to_json(),
        }
    )
    output.result()
    output.heading("READY: a completion was served")
    output.facts(
        (
            ("endpoint", endpoint),
            ("model", stack.settings.model.name),
            ("expires", moment_text(status.expires, invocation.now())),
            ("price", price_text(plan.cost)),
            ("boot", _wrapped(f"{phase} {seconds} s" for phase, seconds in timeline.items())),
        )
    )
    output.result()
    commands = 'Next: tpuflex ask "your question"\n      tpuflex status\n      tpuflex down'
    output.result(for_stack(commands, stack.name))


def _wrapped(words: Iterable[str]) -> str:
    """``words`` with commas, wrapped to fit an 80-column terminal beside a fact's name."""
    text = ", ".join(word.replace(" ", "\0") for word in words)
    return "\n".join(wrap(text, 66)).replace("\0", " ")


def _fetch(invocation: Invocation, cloud: Cloud, plan: StackPlan) -> None:
    """Fetch what the resources will need before the first of them is created, so that a failed
    download costs nothing and leaves nothing behind."""
    changed = {step.type for step in plan.plan.changes}
    stack, say = cloud.stack, invocation.output.progress
    if stack.embedded and QUEUED_RESOURCE in changed:
        from embedded_cloud.images import ensure_image

        ensure_image(stack.settings.serving.image, stack.project.home, say)
    source = stack.settings.model.weights.source
    if source is not None and BUCKET in changed:
        weights_directory(stack, source, say)
