"""Whether hosts can run as a service account of the user's, and may read what they need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.gcloud_commands import (
    enable_account,
    grant,
    grant_on_account,
    grant_on_bucket,
    grant_on_secret,
)
from tpuflex.google.held_permissions import HeldPermissions, held_permissions
from tpuflex.google.paging import entries, objects
from tpuflex.google.project import POLICY
from tpuflex.google.reading import Unread, attempt, attempt_if_there
from tpuflex.inventory.kinds import IMAGES_ROLE, METRICS_ROLE, PROJECT_ROLES
from tpuflex.naming import PROGRAMS_KEY, programs_key

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud
    from tpuflex.google.apis import Apis
    from tpuflex.google.transport import JsonObject
    from tpuflex.stack.connection import Connection

ACT_AS = "iam.serviceAccounts.actAs"
ACCOUNT = Subject(Group.PERMISSIONS, "hosts' account")
_USER_ROLE = "roles/iam.serviceAccountUser"
_OBJECT_VIEWER = "roles/storage.objectViewer"
_OBJECT_CREATOR = "roles/storage.objectCreator"
_ACCESSOR = "roles/secretmanager.secretAccessor"
_OBJECT_WRITERS = ("roles/storage.objectUser", "roles/storage.objectAdmin", "roles/storage.admin")
_PRIMITIVE = ("roles/editor", "roles/owner")
#: Roles that hold what another one is granted for (https://cloud.google.com/iam/docs/roles-overview).
_AS_GOOD: Mapping[str, tuple[str, ...]] = {
    "roles/logging.logWriter": ("roles/logging.admin", *_PRIMITIVE),
    "roles/monitoring.metricWriter": (
        "roles/monitoring.editor",
        "roles/monitoring.admin",
        *_PRIMITIVE,
    ),
    "roles/artifactregistry.reader": (
        "roles/artifactregistry.writer",
        "roles/artifactregistry.repoAdmin",
        "roles/artifactregistry.admin",
        "roles/viewer",
        *_PRIMITIVE,
    ),
    _OBJECT_VIEWER: _OBJECT_WRITERS,
    _OBJECT_CREATOR: _OBJECT_WRITERS,
    _ACCESSOR: ("roles/secretmanager.admin", "roles/owner"),
}


@dataclass(frozen=True, slots=True)
class Needed:
    """A role that the hosts need.

    Attributes:
        role: the narrowest predefined one.
        why: what they do by it.
        resource: ``bucket NAME``, ``secret NAME`` (``secret projects/P/secrets/NAME`` for one of
            the user's own), or empty for the project.
        vital: whether nothing is served without it.
    """

    role: str
    why: str
    resource: str = ""
    vital: bool = True


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the hosts' account."""
    return [Examination(Group.PERMISSIONS, "account", partial(account_checks, cloud))]


def account_checks(cloud: ExaminedCloud) -> list[Check]:
    """How the hosts' account stands, and what it is granted, where that is the user's."""
    existing = cloud.settings.identity.existing
    if existing is None:
        return []
    apis = cloud.apis
    found = attempt_if_there(lambda: apis.iam.call("GET", f"/v1/{existing.path}"))
    acts = attempt(lambda: held_permissions(apis.iam, f"/v1/{existing.path}", [ACT_AS]))
    needed = tuple(_needed(cloud.connection))
    policies = {
        resource: _policy(apis, cloud.project, resource)
        for resource in {"", *(each.resource for each in needed)}
    }
    return [
        account_check(existing.email, existing.project, found, acts),
        *grant_checks(cloud.project, existing.member, needed, policies),
    ]


def _needed(cloud: Connection) -> Iterator[Needed]:
    """What nobody but the user grants the account: roles on the project never, others if so set."""
    settings = cloud.stack.settings
    yield Needed(PROJECT_ROLES["logs"], "write logs", vital=False)
    if settings.monitoring.export_metrics:
        yield Needed(METRICS_ROLE["metrics"], "write metrics", vital=False)
    if settings.pulls_own_image:
        yield Needed(IMAGES_ROLE["images"], "pull the image")
    secrets = settings.secrets
    if not (settings.identity.manage_grants and secrets.manage_grants):
        for role, existing in secrets.existing.items():
            if role in secrets.host_roles:
                vital = role != PROGRAMS_KEY
                yield Needed(_ACCESSOR, f"read {role}", f"secret {existing.secret}", vital=vital)
    if settings.identity.manage_grants:
        return
    for region, bucket in cloud.buckets.items():
        there = f" in {region}" if len(cloud.buckets) > 1 else ""
        yield Needed(_OBJECT_VIEWER, f"read the weights{there}", f"bucket {bucket}")
        if settings.programs_in_library:
            yield Needed(_OBJECT_CREATOR, f"keep programs{there}", f"bucket {bucket}", vital=False)
    if settings.programs_in_library:
        key = programs_key(settings.project)
        yield Needed(_ACCESSOR, "sign programs", f"secret {key}", vital=False)
    elif settings.serving.kept_programs == "bucket":
        yield Needed(_OBJECT_CREATOR, "keep programs", f"bucket {cloud.made_bucket}", vital=False)
    for role in secrets.versions:
        if role in secrets.host_roles:
            own = cloud.stack.names.secret(role)
            yield Needed(_ACCESSOR, f"read {role}", f"secret {own}", vital=role != PROGRAMS_KEY)


def _policy(apis: Apis, project: str, resource: str) -> JsonObject | Unread | None:
    """The policy of a resource, as in :class:`Needed`; None if that is not there."""
    kind, _, name = resource.partition(" ")
    secret = name if "/" in name else f"projects/{project}/secrets/{name}"
    reads: dict[str, Callable[[], JsonObject]] = {
        "": lambda: apis.resourcemanager.call(
            "POST", f"/v1/projects/{project}:getIamPolicy", body=POLICY
        ),
        "bucket": lambda: apis.storage.call(
            "GET", f"/storage/v1/b/{name}/iam", query={"optionsRequestedPolicyVersion": "3"}
        ),
        "secret": lambda: apis.secretmanager.call(
            "GET",
            f"/v1/{secret}:getIamPolicy",
            query={"options.requestedPolicyVersion": "3"},
        ),
    }
    return attempt_if_there(reads[kind])


def account_check(
    email: str, project: str, found: JsonObject | Unread | None, acts: HeldPermissions | Unread
) -> Check:
    """Whether hosts can be given the account.

    Args:
        email: its address.
        project: the project that has it.
        found: it as the API has it; None if it is not there.
        acts: whether the caller may act as it.
    """
    if found is None:
        return ACCOUNT.failed(
            NotFoundError,
            f"{email} is not there",
            "Write one that is there to tpuflex:identity.service_account.",
        )
    if isinstance(found, Unread):
        return ACCOUNT.unknown(found)
    if found.get("disabled") is True:
        text = f"{email} is disabled, so hosts get no token of it"
        return ACCOUNT.failed(AccessError, text, str(enable_account(project, email)))
    if isinstance(acts, Unread):
        return ACCOUNT.unknown(acts)
    if ACT_AS not in acts.permissions:
        let = grant_on_account(project, email, _USER_ROLE, "MEMBER")
        return ACCOUNT.failed(
            AccessError,
            f"missing: {ACT_AS} on {email}, to give it to hosts",
            f"{let}\nwhere MEMBER is you, such as user:you@example.com",
        )
    return ACCOUNT.ok(f"{email}, which you may act as")


def grant_checks(
    project: str,
    member: str,
    needed: Collection[Needed],
    policies: Mapping[str, JsonObject | Unread | None],
) -> Iterator[Check]:
    """Whether the policies that can be read grant ``member`` what hosts need.

    A folder, an organisation or a group may grant it, too, and no policy that is read here says so.

    Args:
        project: Google Cloud project id of the stack.
        member: the account as a policy spells it.
        needed: what is needed.
        policies: by resource, as in :class:`Needed`, its policy; None for one that is not made yet.
    """
    for each in needed:
        where = each.resource or f"project {project}"
        subject = Subject(Group.PERMISSIONS, f"hosts: {each.why}")
        asked = [policies.get(""), *([policies.get(each.resource)] if each.resource else [])]
        read = [policy for policy in asked if policy is not None and not isinstance(policy, Unread)]
        unread = [policy for policy in asked if isinstance(policy, Unread)]
        roles = [role for policy in read for role in roles_of(policy, member)]
        remedy = _remedy(project, member, each)
        if not {each.role, *_AS_GOOD[each.role]}.isdisjoint(roles):
            yield subject.ok("granted")
        elif unread:
            yield subject.unknown(replace(unread[0], remedy=remedy))
        elif any(not role.startswith("roles/") for role in roles):
            why = "a custom role, or one on a condition, may hold it"
            yield subject.unknown(Unread(f"{why}: {', '.join(dict.fromkeys(roles))}", remedy))
        else:
            unmade = " (which is not made yet)" if policies.get(each.resource) is None else ""
            text = f"{each.role} on {where}{unmade} is not granted to {member}"
            if each.vital:
                yield subject.failed(AccessError, text, remedy)
            else:
                yield subject.warning(text, remedy)


def roles_of(policy: JsonObject, member: str) -> Iterator[str]:
    """What ``policy`` grants ``member``; a role on a condition by a name that no role has."""
    for binding in objects(policy, "bindings"):
        if member in entries(binding, "members"):
            condition = " on a condition" if binding.get("condition") else ""
            role = str(binding.get("role"))
            yield f"conditional {role}" if condition else role


def _remedy(project: str, member: str, needed: Needed) -> str:
    kind, _, name = needed.resource.partition(" ")
    match kind:
        case "bucket":
            return str(grant_on_bucket(f"gs://{name}", needed.role, member))
        case "secret":
            home = name.split("/")[1] if "/" in name else project
            return str(grant_on_secret(home, name.rpartition("/")[2], needed.role, member))
        case _:
            return str(grant(project, needed.role, member))
