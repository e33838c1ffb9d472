"""Organisation policies that keep an endpoint from being made, or from being seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AccessError
from tpuflex.gcloud_commands import do_not_enforce, show_policy
from tpuflex.google.paging import entries
from tpuflex.google.reading import RESOURCE_MANAGER, Unread
from tpuflex.settings.model import StackSettings

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.google.transport import Api


@dataclass(frozen=True, slots=True)
class OrgPolicy:
    """What a constraint means on a project.

    Attributes:
        enforced: of a constraint that is on or off, whether it is on.
        allowed: of a list constraint, the values that are allowed; empty where all are that are
            not denied.
        denied: the values that are denied.
        all_denied: whether every value is denied.
    """

    enforced: bool = False
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    all_denied: bool = False


def effective_policy(resourcemanager: Api, project: str, constraint: str) -> OrgPolicy:
    """What ``constraint`` (``compute.requireShieldedVm``) means on ``project``.

    Read through Resource Manager v1: the newer Organization Policy API would have to be enabled in
    the project first, and only to be read.
    https://cloud.google.com/resource-manager/reference/rest/v1/projects/getEffectiveOrgPolicy

    Raises:
        AccessError: the caller lacks orgpolicy.policy.get.
        ApiError: the API does not answer.
    """
    answer = resourcemanager.call(
        "POST",
        f"/v1/projects/{project}:getEffectiveOrgPolicy",
        body={"constraint": f"constraints/{constraint}"},
        budget=0,
    )
    switch, listed = answer.get("booleanPolicy"), answer.get("listPolicy")
    if isinstance(switch, dict):
        return OrgPolicy(enforced=switch.get("enforced") is True)
    if not isinstance(listed, dict):
        return OrgPolicy()
    return OrgPolicy(
        allowed=tuple(map(str, entries(listed, "allowedValues"))),
        denied=tuple(map(str, entries(listed, "deniedValues"))),
        all_denied=listed.get("allValues") == "DENY",
    )


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that matters to some stacks.

    Attributes:
        name: the constraint, without ``constraints/``.
        what: what it forbids, in words.
        matters: whether it matters to a stack.
        instead: what to change in the stack file, so that it does not.
        source: what says so.
    """

    name: str
    what: str
    matters: Callable[[StackSettings], bool] = lambda _settings: True
    instead: str = ""
    source: str = (
        "https://cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints"
    )


def _without_secure_boot(settings: StackSettings) -> bool:
    return not settings.slice.secure_boot


def _with_nat(settings: StackSettings) -> bool:
    return settings.network.egress == "internet"


#: Constraints that are on or off.
SWITCHES = (
    Constraint(
        "compute.disableGuestAttributesAccess",
        "the hosts' reports cannot be read: `up` would wait in vain, with chips running",
        source="the help of gcloud 528 on get-guest-attributes of a TPU VM",
    ),
    Constraint(
        "compute.requireShieldedVm",
        "Cloud TPU refuses hosts without Secure Boot",
        _without_secure_boot,
        "secure_boot: true in tpuflex:slice",
        "https://github.com/google/fully-homomorphic-encryption/issues/103",
    ),
    Constraint(
        "iam.disableServiceAccountCreation",
        "the hosts' service account cannot be made",
    ),
)
#: Constraints that list what is allowed.
NAT = Constraint(
    "compute.restrictCloudNATUsage",
    "Cloud NAT is not allowed",
    _with_nat,
    "egress: google in tpuflex:network",
)
LOCATIONS = Constraint("gcp.resourceLocations", "resources may be in other places only")
ALL = (*SWITCHES, NAT, LOCATIONS)

EXTERNAL = Subject(Group.POLICIES, "compute.vmExternalIpAccess")


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the organisation's policies."""
    return [Examination(Group.POLICIES, "policies", partial(_examine, cloud))]


def _examine(cloud: ExaminedCloud) -> list[Check]:
    manager = cloud.manager
    found = {
        constraint.name: cloud.attempt(
            RESOURCE_MANAGER,
            partial(effective_policy, manager, cloud.project, constraint.name),
            str(show_policy(constraint.name, cloud.project)),
        )
        for constraint in ALL
        if constraint.matters(cloud.settings)
    }
    return list(policy_checks(cloud.settings, found))


def policy_checks(
    settings: StackSettings, policies: Mapping[str, OrgPolicy | Unread]
) -> Iterator[Check]:
    """How the organisation policies stand.

    Args:
        settings: the stack, which decides on those that matter.
        policies: what is in force, by constraint; those that do not matter may be missing.
    """
    yield EXTERNAL.skipped("the hosts have no external address")
    for constraint in ALL:
        subject = Subject(Group.POLICIES, constraint.name)
        if not constraint.matters(settings):
            yield subject.skipped("does not concern this stack")
            continue
        policy = policies[constraint.name]
        if isinstance(policy, Unread):
            yield subject.unknown(policy)
        elif constraint is LOCATIONS:
            yield _location_check(subject, settings, policy)
        elif policy.enforced or policy.all_denied:
            yield subject.failed(
                AccessError, f"in force: {constraint.what}", _remedy(constraint, settings)
            )
        elif constraint is NAT and (policy.allowed or policy.denied):
            values = ", ".join((*policy.allowed, *(f"not {value}" for value in policy.denied)))
            yield subject.warning(f"allows some only: {values}", _remedy(constraint, settings))
        else:
            yield subject.ok("not in force")


def _remedy(constraint: Constraint, settings: StackSettings) -> str:
    if constraint in SWITCHES:
        lift = (
            f"{do_not_enforce(constraint.name, settings.project)}\n"
            "(needs roles/orgpolicy.policyAdmin on the organisation)"
        )
    else:
        lift = f"{show_policy(constraint.name, settings.project)}\n(shows what is allowed)"
    return f"{lift}\nor write {constraint.instead}" if constraint.instead else lift


def _location_check(subject: Subject, settings: StackSettings, policy: OrgPolicy) -> Check:
    """Whether the region is allowed, as far as the names of value groups tell
    (https://cloud.google.com/resource-manager/docs/organization-policy/defining-locations)."""
    if not policy.allowed and not policy.denied and not policy.all_denied:
        return subject.ok("not in force")
    if policy.all_denied:
        return subject.failed(
            AccessError,
            "no location is allowed: nothing can be made in the project",
            f"{show_policy(subject.name, settings.project)}\n"
            "(shows it; have a region allowed: needs roles/orgpolicy.policyAdmin)",
        )
    regions = settings.slice.regions
    refused = [region for region in regions if not _allowed(region, policy)]
    if not refused:
        return subject.ok(f"{' and '.join(regions)} {'is' if len(regions) == 1 else 'are'} allowed")
    listed = ", ".join((*policy.allowed, *(f"not {value}" for value in policy.denied)))
    return subject.warning(
        f"{' and '.join(refused)} {'is' if len(refused) == 1 else 'are'} not among the allowed"
        f" places, as far as their names tell: {listed}",
        f"{show_policy(subject.name, settings.project)}\n"
        "and write zones of an allowed region to tpuflex:slice.zones",
    )


def _allowed(region: str, policy: OrgPolicy) -> bool:
    groups = {region, f"in:{region}-locations", f"in:{region.split('-')[0]}-locations"}
    return not groups & set(policy.denied) and (
        not policy.allowed or bool(groups & set(policy.allowed))
    )
