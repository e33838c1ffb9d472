"""Whether hosts can run as a service account of the user's, and may read what they need. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.gcloud_commands import (
    enable_account,
    grant,
    grant_on_account,
    grant_on_bucket,
    grant_on_secret,
)
from tpuflex.google.held_permissions import Held
from tpuflex.google.paging import entries, objects
from tpuflex.google.reading import Unread
from tpuflex.google.transport import JsonObject

ACT_AS = "iam.serviceAccounts.actAs"
ACCOUNT = Subject(Group.PERMISSIONS, "hosts' account")
_USER_ROLE = "roles/iam.serviceAccountUser"
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
    "roles/storage.objectViewer": (
        "roles/storage.objectUser",
        "roles/storage.objectAdmin",
        "roles/storage.admin",
    ),
    "roles/storage.objectCreator": (
        "roles/storage.objectUser",
        "roles/storage.objectAdmin",
        "roles/storage.admin",
    ),
    "roles/secretmanager.secretAccessor": ("roles/secretmanager.admin", "roles/owner"),
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


def account_check(
    email: str, project: str, found: JsonObject | Unread | None, acts: Held | Unread
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
            yield subject.unknown(Unread(unread[0].why, remedy))
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
