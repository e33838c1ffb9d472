"""The plan of a stack, as `up` and `preview` show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.deploy.plan import StackPlan, image_grant, may_stay, replaced_secret_texts
from tpuflex.duration import format_duration
from tpuflex.inventory.kinds import BUCKET
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.planning.figure import gib
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.rules import warnings
from tpuflex.terminal.money import price_text
from tpuflex.weights.known_files import planned_by

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan
    from tpuflex.planning.memory import MemoryPlan
    from tpuflex.policy.violations import PolicyReport
    from tpuflex.settings.bucket import ExistingBucket
    from tpuflex.settings.model import StackSettings
    from tpuflex.terminal.output import Output


def show_plan(output: Output, plan: StackPlan) -> None:
    """Print what is not in the cloud as the state has it, and the plan."""
    if plan.plan.drift:
        output.heading("Not in the cloud as the state has it")
        output.facts((each.word, str(each)) for each in plan.plan.drift)
        output.result()
    elif plan.plan.refreshed:
        output.result("In the cloud, all is as the state has it.\n")
    output.heading(f"Stack {plan.stack.name} on {plan.stack.cloud_text}")
    output.facts(_facts(plan))
    if output.verbose:
        output.table(
            ("", "TYPE", "NAME"),
            [
                (f"{step.operation}{', delete' * step.ends_replaced}", step.type, step.name)
                for step in plan.plan.resources
            ],
        )
    output.result()


def _facts(plan: StackPlan) -> Iterator[tuple[str, str]]:
    settings = plan.stack.settings
    chips = "1 chip" if plan.cost.chips == 1 else f"{plan.cost.chips} chips"
    duration = format_duration(settings.slice.max_run_duration)
    yield "model", settings.model.name
    yield "zone", " or ".join(settings.slice.zones)
    yield "slice", f"{settings.slice.accelerator_type} ({chips}), Flex-start"
    if (limit := settings.slice.give_up_after) is not None:
        yield (
            "gives up",
            f"{format_duration(limit)} after it is requested, unless granted before",
        )
    yield "runs", f"at most {duration} from the moment it is granted, then it is deleted"
    yield "price", price_text(plan.cost)
    yield "memory", memory_line(plan_stack(settings))
    if files := planned_by(plan.stack):
        yield "files", files
    if (network := settings.existing_network) is not None:
        yield "network", f"yours, and kept: {network.subnetwork}"
    if (bucket := settings.model.weights.existing) is not None:
        yield "weights", _existing_weights(settings, bucket, plan.plan)
    yield "egress", egress_text(settings.network.egress, plan.plan)
    if (account := settings.identity.existing) is not None:
        granted = "" if settings.identity.manage_grants else "; others grant it what hosts need"
        yield "account", f"yours, and kept: {account.email}{granted}"
    if (key := settings.encryption.kms_key) is not None:
        yield "key", f"yours, and kept: {key}"
    if settings.monitoring.alert_policies:
        yield "alerts", alerts_text(settings.monitoring.notification_channels)
    if grant := image_grant(plan.stack):
        yield (
            "to grant",
            f"{grant['role']} in {grant['project']} to {grant['member']}, "
            "unless everybody may read that image",
        )
    yield "request", plan.request
    if text := _hand_over(plan.plan):
        yield "hand-over", text
    yield "resources", plan.changes
    for text in replaced_secret_texts(plan.stack, plan.plan):
        yield "secret", text
    for name in _deleted_buckets(plan.plan):
        yield "deletes", f"gs://{name} with everything in it"
    for warning in warnings(settings):
        yield "warning", str(warning)
    yield from _policy_facts(plan.policy)


def memory_line(plan: MemoryPlan | NotPlannable) -> str:
    """What one chip holds, in two lines; or why that is not known, in one."""
    if isinstance(plan, NotPlannable):
        return f"not known: {plan.reason}"
    if plan.problems:
        return f"does not fit: {plan.problems[0].what}"
    rest = f", {gib(plan.workspace_bytes)} left for programs" if plan.workspace_bytes else ""
    each = " on each chip" if plan.chips > 1 else ""
    least = "at least " if plan.is_lower_bound else ""
    own = "; by rows of yours" if any(row.own for row in plan.row_sources.values()) else ""
    return (
        f"{gib(plan.weight_bytes)} weights, {gib(plan.kv_bytes)} KV cache{rest}{each};\n"
        f"{least}{plan.cached_tokens:,} tokens cached,"
        f" {plan.full_length_sequences:,.1f} sequences of {plan.request.max_model_len:,}{own}"
    )


def _existing_weights(settings: StackSettings, bucket: ExistingBucket, plan: EnginePlan) -> str:
    """Where weights are in ``bucket``, which is the user's own, and who pays for them there."""
    read = (step for step in plan.steps if step.type == BUCKET.type and step.operation == "read")
    seen = next((step.inputs for step in read), {})
    number = seen.get("projectNumber")
    bill = f", billed to project {int(number)}" if isinstance(number, int | float) else ""
    region = f", in {str(seen['location']).lower()}" if seen.get("location") else ""
    return f"yours, and kept: {bucket.url}/{weights_prefix(settings.model)}{region}{bill}"


def _deleted_buckets(plan: EnginePlan) -> tuple[str, ...]:
    """Names of the buckets that ``plan`` deletes or replaces, with the weights in them: a stack
    that moves to a library or to another region loses one."""
    return tuple(
        str(step.before.get("name") or step.name)
        for step in plan.resources
        if step.type == BUCKET.type and step.operation in ("delete", "replace")
    )


def _policy_facts(report: PolicyReport) -> Iterator[tuple[str, str]]:
    """What the rules of policy find, a line each."""
    for finding in report.findings:
        word = "waived" if finding.waived else "refused" if finding.refuses else "policy"
        yield word, str(finding)
    for text in report.idle:
        yield "policy", text


def alerts_text(channels: Sequence[str]) -> str:
    """Whom Google notifies when an alert policy fires."""
    if not channels:
        return (
            "policies of Cloud Monitoring, which notify nobody:\n"
            "tpuflex:monitoring.notification_channels names no channel"
        )
    return f"policies of Cloud Monitoring, which notify {', '.join(channels)}"


def egress_text(egress: str, plan: EnginePlan) -> str:
    """Where the hosts may connect to, and whether ``plan`` takes away what they have now."""
    if egress == "existing":
        return "what your network lets the hosts reach: nothing is made for it"
    operations = {(step.type, step.operation) for step in plan.steps}
    if egress == "internet":
        opened = ("gcp:dns/managedZone:ManagedZone", "delete") in operations
        return "the hosts may reach the internet, through NAT" + (
            "; until now they reached Google's APIs only" if opened else ""
        )
    closed = ("gcp:compute/routerNat:RouterNat", "delete") in operations
    return "Google's APIs only" + (
        "; NAT, by which the hosts reached the internet until now, is deleted" if closed else ""
    )


def _hand_over(plan: EnginePlan) -> str:
    """What becomes of a slice that serves and is replaced; empty where none is, or where it goes
    first, of which the engine's own notes tell."""
    replaced = [
        step
        for step in plan.steps
        if step.type == QUEUED_RESOURCE and step.operation == "replace" and not step.deleted_first
    ]
    if not replaced:
        return ""
    condition = "if it is replaced, " if all(map(may_stay, replaced)) else ""
    return (
        f"{condition}what serves goes on until the new slice serves; until then both are billed,"
        " and both need quota"
    )
