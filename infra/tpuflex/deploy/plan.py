"""What an operation would do and cost, as text for people and as a document for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.deploy.new_secrets import anew_texts, made_anew
from tpuflex.duration import format_duration
from tpuflex.inventory.kinds import BUCKET
from tpuflex.naming import QUEUED_RESOURCE, account_email
from tpuflex.planning.stack import plan_stack, planned_memory
from tpuflex.policy.finding import NOTHING_FOUND, Report
from tpuflex.queued_resource.outcomes import PREVIEWS
from tpuflex.settings.rules import warnings
from tpuflex.terminal.memory_text import memory_line
from tpuflex.terminal.output import Output
from tpuflex.weights.known_files import planned_by

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan, Step
    from tpuflex.planning.cost import RunCost
    from tpuflex.settings.bucket import ExistingBucket
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.stack import Stack

_PREVIEWS = {plan.value: text for plan, text in PREVIEWS.items()}
_WORDS = {"create": "to create", "update": "to change", "delete": "to delete"}
#: Said of a slice with which a state goes on, while it still has the one that was replaced.
ENDS_REPLACED = (
    "the slice that it replaces, which is billed until then, is deleted as soon as this one serves"
)


@dataclass(frozen=True, slots=True)
class StackPlan:
    """A plan of the engine with what it means in chips, time and money.

    Attributes:
        run_over: what is said of a run that is over, where `up` asks for nothing; else empty.
        policy: what the rules of policy find.
    """

    stack: Stack
    plan: EnginePlan
    cost: RunCost
    run_over: str = ""
    policy: Report = NOTHING_FOUND

    @property
    def request(self) -> str:
        """What happens to the request for the slice."""
        return self.run_over or slice_plan(self.plan)

    @property
    def changes(self) -> str:
        """How many resources will be created, changed, replaced and deleted, in words."""
        steps = self.plan.resources
        counts = Counter(step.operation for step in steps if step.operation != "same")
        counts["delete"] += sum(step.ends_replaced for step in steps)
        words = [f"{n} {_WORDS.get(op, f'to {op}')}" for op, n in counts.most_common() if n]
        return ", ".join(words) or "none"

    def show(self, output: Output) -> None:
        """Print the plan."""
        output.heading(f"Stack {self.stack.name} on {self.stack.cloud_text}")
        output.facts(self._facts())
        if output.verbose:
            output.table(
                ("", "TYPE", "NAME"),
                [
                    (f"{step.operation}{', delete' * step.ends_replaced}", step.type, step.name)
                    for step in self.plan.resources
                ],
            )
        output.result()

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex preview --json`` prints."""
        settings = self.stack.settings
        give_up = settings.slice.give_up_after
        network = settings.existing_network
        bucket = settings.model.weights.existing
        return {
            "stack": self.stack.name,
            "cloud": settings.cloud,
            "project": settings.project,
            "model": settings.model.name,
            "zones": list(settings.slice.zones),
            "accelerator_type": settings.slice.accelerator_type,
            "chips": self.cost.chips,
            "max_run_duration": format_duration(settings.slice.max_run_duration),
            "give_up_after": None if give_up is None else format_duration(give_up),
            "usd_per_hour": number(self.cost.per_hour),
            "usd_maximum": number(self.cost.maximum),
            "memory": planned_memory(settings),
            "files": None if (found := settings.catalog.checkpoint) is None else found.where,
            "network": network and {"network": network.network, "subnetwork": network.subnetwork},
            "bucket": bucket and bucket.url,
            "egress": settings.network.egress,
            "service_account": settings.identity.service_account,
            "kms_key": settings.encryption.kms_key,
            "to_grant": image_grant(self.stack),
            "request": self.request,
            "secrets_made_anew": list(made_anew(self.stack, self.plan)),
            "policy": self.policy.to_json(),
            "warnings": [warning.to_json() for warning in warnings(settings)],
            "changes": [
                {
                    "operation": step.operation,
                    "type": step.type,
                    "name": step.name,
                    "properties": list(step.changed),
                    "replaced_for": list(step.replaced_for),
                    "ends_replaced": step.ends_replaced,
                }
                for step in self.plan.resources
            ],
        }

    def _facts(self) -> Iterator[tuple[str, str]]:
        settings = self.stack.settings
        chips = "1 chip" if self.cost.chips == 1 else f"{self.cost.chips} chips"
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
        yield "price", price_text(self.cost)
        yield "memory", memory_line(plan_stack(settings))
        if files := planned_by(self.stack):
            yield "files", files
        if (network := settings.existing_network) is not None:
            yield "network", f"yours, and kept: {network.subnetwork}"
        if (bucket := settings.model.weights.existing) is not None:
            yield "weights", existing_weights(settings, bucket, self.plan)
        yield "egress", egress_text(settings.network.egress, self.plan)
        if (account := settings.identity.existing) is not None:
            granted = "" if settings.identity.manage_grants else "; others grant it what hosts need"
            yield "account", f"yours, and kept: {account.email}{granted}"
        if (key := settings.encryption.kms_key) is not None:
            yield "key", f"yours, and kept: {key}"
        if grant := image_grant(self.stack):
            yield (
                "to grant",
                f"{grant['role']} in {grant['project']} to {grant['member']}, "
                "unless everybody may read that image",
            )
        yield "request", self.request
        if text := hand_over_text(self.plan):
            yield "hand-over", text
        yield "resources", self.changes
        for text in anew_texts(self.stack, self.plan):
            yield "secret", text
        for name in deleted_buckets(self.plan):
            yield "deletes", f"gs://{name} with everything in it"
        for warning in warnings(settings):
            yield "warning", str(warning)
        yield from policy_facts(self.policy)


def existing_weights(settings: StackSettings, bucket: ExistingBucket, plan: EnginePlan) -> str:
    """Where weights are in ``bucket``, which is the user's own, and who pays for them there."""
    read = (step for step in plan.steps if step.type == BUCKET.type and step.operation == "read")
    seen = next((step.inputs for step in read), {})
    number = seen.get("projectNumber")
    bill = f", billed to project {int(number)}" if isinstance(number, int | float) else ""
    region = f", in {str(seen['location']).lower()}" if seen.get("location") else ""
    return f"yours, and kept: {bucket.url}/{weights_prefix(settings.model)}{region}{bill}"


def deleted_buckets(plan: EnginePlan) -> tuple[str, ...]:
    """Names of the buckets that ``plan`` deletes or replaces, with the weights in them: a stack
    that moves to a library or to another region loses one."""
    return tuple(
        str(step.before.get("name") or step.name)
        for step in plan.resources
        if step.type == BUCKET.type and step.operation in ("delete", "replace")
    )


def policy_facts(report: Report) -> Iterator[tuple[str, str]]:
    """What the rules of policy find, a line each."""
    for finding in report.findings:
        word = "waived" if finding.waived else "refused" if finding.refuses else "policy"
        yield word, str(finding)
    for text in report.idle:
        yield "policy", text


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


def image_grant(stack: Stack) -> dict[str, str] | None:
    """The role that somebody else has to grant before the hosts can pull the image: it is in a
    registry of another project, whose policies are not ours to change. None if there is none."""
    settings = stack.settings
    project = settings.image_project
    if settings.cloud == "embedded" or project in (None, settings.project):
        return None
    own = account_email(stack.names.service_account_id(), settings.project)
    email = settings.identity.service_account or own
    return {
        "project": str(project),
        "role": "roles/artifactregistry.reader",
        "member": f"serviceAccount:{email}",
    }


def hand_over_text(plan: EnginePlan) -> str:
    """What becomes of a slice that serves and is replaced; empty where none is, or where it goes
    first, of which the engine's own notes tell."""
    replaced = any(
        step.type == QUEUED_RESOURCE and step.operation == "replace" and not step.deleted_first
        for step in plan.steps
    )
    if not replaced:
        return ""
    return (
        "what serves goes on until the new slice serves; until then both are billed, and both need"
        " quota"
    )


def slice_plan(plan: EnginePlan) -> str:
    """What happens to the request for the slice, in the words of the table of outcomes, and for
    which inputs it is replaced; empty when ``plan`` does not touch one."""
    step = next((step for step in plan.steps if step.type == QUEUED_RESOURCE), None)
    if step is None:
        return ""
    # Each replacement has an id of its own: that is no reason for it.
    causes = [name for name in step.replaced_for if name != "queuedResourceId"]
    reasons = f" (changed: {', '.join(causes)})" if causes else ""
    ends = f"; {ENDS_REPLACED}" if goes_on(step) else ""
    return f"{_PREVIEWS.get(step.operation, '')}{reasons}{ends}"


def goes_on(step: Step) -> bool:
    """Whether the state goes on with what ``step`` is about, and lets go of what it replaces."""
    return step.ends_replaced and step.operation in {"create", "same", "update"}


def price_text(cost: RunCost) -> str:
    """The price in a sentence, with what it does not include."""
    if cost.per_hour is None or cost.maximum is None:
        return "unknown for this region: see https://cloud.google.com/tpu/pricing"
    if not cost.per_hour:
        return "free: nothing leaves this machine"
    read = ""
    if cost.price is not None:
        own = " by a row of yours" if cost.price.source.own else ""
        read = f", as of {cost.price.source.date}{own}"
    return (
        f"${cost.per_hour} per hour, at most ${cost.maximum} for the whole run{read} "
        "(chips only: storage, DNS zones or NAT, and traffic come on top)"
    )


def number(amount: Decimal | None) -> float | None:
    """An amount of money in a JSON document."""
    return None if amount is None else float(amount)
