"""What an operation would do and cost, as text for people and as a document for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulumi_plugin.values import UNKNOWN_SENTINELS
from tpuflex.duration import format_duration
from tpuflex.errors import ConflictError, Finding, SettingsError
from tpuflex.inventory.kinds import SECRET
from tpuflex.naming import API_KEY, METRICS_KEY, PROGRAMS_KEY, QUEUED_RESOURCE, account_email
from tpuflex.planning.cost import usd
from tpuflex.planning.stack import planned_memory
from tpuflex.policy.violations import NOTHING_FOUND, PolicyReport
from tpuflex.queued_resource.outcomes import PREVIEWS
from tpuflex.settings.rules import warnings
from tpuflex.settings.secrets import version_setting

if TYPE_CHECKING:
    from tpuflex.engine.events import EnginePlan, Step
    from tpuflex.naming import SecretRole
    from tpuflex.planning.cost import RunCost
    from tpuflex.stack.stack import Stack

_PREVIEWS = {plan.value: text for plan, text in PREVIEWS.items()}
_WORDS = {"create": "to create", "update": "to change", "delete": "to delete"}
#: Said of one that is replaced only if what is unknown turns out to be something else.
_MAY_STAY = (
    "is kept, unless what is not known before the update turns out to be another than now: {}"
)
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
    policy: PolicyReport = NOTHING_FOUND

    def __str__(self) -> str:
        return f"Stack {self.stack.name} on {self.stack.cloud_text}: {self.changes}"

    @property
    def request(self) -> str:
        """What happens to the request for the slice."""
        return self.run_over or slice_plan(self.plan)

    @property
    def changes(self) -> str:
        """How many resources will be created, changed, replaced and deleted, in words."""
        steps = self.plan.resources
        counts = Counter(
            "keep or replace" if may_stay(step) else step.operation
            for step in steps
            if step.operation != "same"
        )
        counts["delete"] += sum(step.ends_replaced for step in steps)
        words = [f"{n} {_WORDS.get(op, f'to {op}')}" for op, n in counts.most_common() if n]
        return ", ".join(words) or "none"

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
            "usd_per_hour": usd(self.cost.per_hour),
            "usd_maximum": usd(self.cost.maximum),
            "memory": planned_memory(settings),
            "files": None if (found := settings.checkpoint) is None else found.where,
            "network": network and {"network": network.network, "subnetwork": network.subnetwork},
            "bucket": bucket and bucket.url,
            "egress": settings.network.egress,
            "service_account": settings.identity.service_account,
            "kms_key": settings.encryption.kms_key,
            "to_grant": image_grant(self.stack),
            "request": self.request,
            "secrets_made_anew": list(replaced_secrets(self.stack, self.plan)),
            "policy": self.policy.to_json(),
            "warnings": [warning.to_json() for warning in warnings(settings)],
            "refreshed": self.plan.refreshed,
            "drift": [each.to_json() for each in self.plan.drift],
            "changes": [
                {
                    "operation": step.operation,
                    "type": step.type,
                    "name": step.name,
                    "properties": list(step.changed),
                    "replaced_for": list(step.replaced_for),
                    "may_stay": may_stay(step),
                    "ends_replaced": step.ends_replaced,
                }
                for step in self.plan.resources
            ],
        }


def image_grant(stack: Stack) -> dict[str, str] | None:
    """The role that another project's owner has to grant before the hosts can pull the image: it is
    in a registry of another project, whose policies are not ours to change. None if there is
    none."""
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


def slice_step(plan: EnginePlan) -> Step | None:
    """What ``plan`` does with the slice; None if it does not touch one."""
    return next((step for step in plan.steps if step.type == QUEUED_RESOURCE), None)


def slice_plan(plan: EnginePlan) -> str:
    """What happens to the request for the slice, in the words of the table of outcomes, and for
    which inputs it is replaced; empty when ``plan`` does not touch one."""
    step = slice_step(plan)
    if step is None:
        return ""
    causes = _causes(step)
    if may_stay(step):
        return _MAY_STAY.format(", ".join(causes))
    reasons = f" (changed: {', '.join(causes)})" if causes else ""
    ends = f"; {ENDS_REPLACED}" if is_continued(step) else ""
    return f"{_PREVIEWS.get(step.operation, '')}{reasons}{ends}"


def may_stay(step: Step) -> bool:
    """Whether ``step`` replaces a slice that serves for nothing but values that are not known
    before the update, and that may turn out to be what they are: then the update keeps it."""
    causes = _causes(step)
    return (
        step.operation == "replace"
        and not step.deleted_first
        and bool(causes)
        and all(_may_equal(step.before.get(name), step.inputs.get(name)) for name in causes)
    )


def _causes(step: Step) -> list[str]:
    """Why a slice is replaced. Each replacement has an id of its own: that is no reason for it."""
    return [name for name in step.replaced_for if name != "queuedResourceId"]


def _may_equal(before: object, after: object) -> bool:
    """Whether ``after``, as far as it is known, is what was there ``before``."""
    if isinstance(after, str) and after in UNKNOWN_SENTINELS:
        return before is not None
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(
            _may_equal(before[name], after[name]) for name in before
        )
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_may_equal, before, after))
    return before is not None and before == after


def is_continued(step: Step) -> bool:
    """Whether the state goes on with what ``step`` is about, and lets go of what it replaces."""
    return step.ends_replaced and step.operation in {"create", "same", "update"}


_NEW_VALUES: dict[SecretRole, str] = {
    API_KEY: "with a new key: the one that clients have is gone with it, so give them the new one",
    METRICS_KEY: "with a new key: give it to what collects the metrics",
    PROGRAMS_KEY: "with a new key: all programs are compiled once more",
}


def replaced_secrets(stack: Stack, plan: EnginePlan) -> tuple[SecretRole, ...]:
    """The roles of the secrets of ``stack`` that ``plan`` replaces."""
    steps = (each for each in plan.resources if each.operation == "replace")
    return _roles(stack, steps)


def deleted_secrets(stack: Stack, plan: EnginePlan) -> tuple[SecretRole, ...]:
    """The roles of the secrets of ``stack`` that somebody has deleted, and ``plan`` makes again."""
    gone = {(each.type, each.name) for each in plan.drift if not each.properties}
    steps = (each for each in plan.resources if each.operation == "create")
    return _roles(stack, (each for each in steps if (each.type, each.name) in gone))


def _roles(stack: Stack, steps: Iterable[Step]) -> tuple[SecretRole, ...]:
    """The roles of the secrets among ``steps``."""
    names = {str(step.inputs.get("secretId")) for step in steps if step.type == SECRET.type}
    own = stack.settings.secrets.versions
    return tuple(role for role in own if stack.names.secret(role) in names)


def replaced_secret_texts(stack: Stack, plan: EnginePlan) -> Iterator[str]:
    """What the user has to know before agreeing to ``plan``: a sentence each."""
    for role in replaced_secrets(stack, plan):
        made = f"{stack.names.secret(role)} is made anew in {stack.settings.region}"
        if value := _NEW_VALUES.get(role):
            yield f"{made}, {value}"
        else:
            yield (
                f"{made}, and is empty then: have its value at hand, which is deleted, and put it"
                f" again with `tpuflex secrets put {role} --stack {stack.name}`"
            )
    for role in deleted_secrets(stack, plan):
        made = f"{stack.names.secret(role)} was deleted, and is made again"
        if value := _NEW_VALUES.get(role):
            yield f"{made} {value}. A host that serves knows the old one, until it boots again"
        else:
            yield (
                f"{made}, empty: put its value with"
                f" `tpuflex secrets put {role} --stack {stack.name}`"
            )


def require_no_secret_replaced(stack: Stack, plan: EnginePlan) -> None:
    """Refuse to add a secret of ``stack`` where ``plan`` recreates others: the engine would delete
    those with their values, while the slice still serves with them, and nobody was asked.

    Raises:
        ConflictError: it does.
    """
    anew = replaced_secrets(stack, plan)
    if not anew:
        return
    names = ", ".join(stack.names.secret(role) for role in anew)
    raise ConflictError(
        f"The stack file moves the secrets' home to {stack.settings.region}: {names} would be made"
        " anew there, and what is stored would be deleted. Nothing was changed.",
        hint="Add the secret with the zones and tpuflex:network.subnetwork_cidrs as they were. Or"
        " take it out of tpuflex:secrets until the home has moved, which this does after a"
        f" question: tpuflex up --stack {stack.name}",
    )


def require_first_versions(stack: Stack, plan: EnginePlan) -> None:
    """Refuse a plan that recreates a secret of which ``stack`` pins another version than the
    first: it would fail when the old secret, and the slice that served, are deleted already.

    Raises:
        SettingsError: it does.
    """
    pinned = stack.settings.secrets.versions
    findings = tuple(
        Finding(
            f"tpuflex:secrets.{version_setting(role)}",
            f"{pinned[role]}, but {stack.names.secret(role)} is made anew in"
            f" {stack.settings.region}, and its versions begin with 1",
            "Write 1. Nothing was changed.",
        )
        for role in replaced_secrets(stack, plan)
        if pinned[role] != 1
    )
    if findings:
        raise SettingsError(f"the stack {stack.name}", findings)
