"""What `tpuflex doctor` reads of a service account of the user's, and of what it is granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tpuflex.doctor.host_account import (
    ACT_AS,
    Needed,
    account_check,
    grant_checks,
)
from tpuflex.google.held_permissions import held
from tpuflex.google.project_policy import POLICY
from tpuflex.google.reading import Unread, attempt, attempt_if_there
from tpuflex.inventory.kinds import IMAGES_ROLE, PROJECT_ROLES
from tpuflex.naming import PROGRAMS_KEY, programs_key

if TYPE_CHECKING:
    from tpuflex.doctor.check import Check
    from tpuflex.google.apis import Apis
    from tpuflex.google.transport import JsonObject
    from tpuflex.stack.connection import Connection

_OBJECT_VIEWER = "roles/storage.objectViewer"
_OBJECT_CREATOR = "roles/storage.objectCreator"
_ACCESSOR = "roles/secretmanager.secretAccessor"


def account_checks(cloud: Connection, apis: Apis) -> list[Check]:
    """How the hosts' account stands, and what it is granted, where that is the user's.

    Args:
        cloud: the stack's cloud.
        apis: clients that keep nobody waiting.
    """
    settings = cloud.stack.settings
    existing = settings.identity.existing
    if existing is None:
        return []

    found = attempt_if_there(lambda: apis.iam.call("GET", f"/v1/{existing.path}"))
    acts = attempt(lambda: held(apis.iam, f"/v1/{existing.path}", [ACT_AS]))
    needed = tuple(_needed(cloud))
    policies = {
        resource: _policy(apis, settings.project, resource)
        for resource in {"", *(each.resource for each in needed)}
    }
    return [
        account_check(existing.email, existing.project, found, acts),
        *grant_checks(settings.project, existing.member, needed, policies),
    ]


def _needed(cloud: Connection) -> Iterator[Needed]:
    """What nobody but the user grants the account: roles on the project never, others if so set."""
    settings = cloud.stack.settings
    yield Needed(PROJECT_ROLES["logs"], "write logs", vital=False)
    yield Needed(PROJECT_ROLES["metrics"], "write metrics", vital=False)
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
