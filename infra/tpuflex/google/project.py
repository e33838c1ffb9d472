"""A Google Cloud project: its number, and its IAM policy.

Bucket names are global, and anyone can compute and take the name of a stack's bucket. A project
number is assigned by Google and cannot be chosen
(https://cloud.google.com/resource-manager/docs/creating-managing-projects#before_you_begin), so
only a bucket that reports the stack's project number belongs to the stack.

https://cloud.google.com/iam/docs/policies
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, ApiError
from tpuflex.google.paging import entries, objects

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tpuflex.google.transport import Api, JsonObject

#: Body that asks for a policy; version 3 shows conditions, and keeps them.
POLICY: JsonObject = {"options": {"requestedPolicyVersion": 3}}

_ACCOUNT = "serviceAccount:"
_DELETED = f"deleted:{_ACCOUNT}"


def project_number(resourcemanager: Api, project: str) -> str:
    """The number of ``project``, in decimal digits.

    https://cloud.google.com/resource-manager/reference/rest/v1/projects/get

    Args:
        resourcemanager: client of the Resource Manager API.
        project: project id.

    Raises:
        AccessError: the caller may not read the project, or there is none.
        ApiError: the answer names no number.
    """
    try:
        answer = resourcemanager.call("GET", f"/v1/projects/{project}")
    except AccessError as error:
        unread = (
            f"The number of project {project}, which tells whether a bucket is yours, cannot be"
            " read"
        )
        raise AccessError(
            f"{unread}: {error.message}",
            brief=f"{unread}: {error.brief}",
            hint="It needs resourcemanager.projects.get, which the role Browser has.",
        ) from error
    number = str(answer.get("projectNumber") or "")
    if not (number.isascii() and number.isdecimal()):
        raise ApiError(f"Resource Manager names no number for project {project}")
    return number


def account_of(member: str) -> str:
    """Email of the service account that ``member`` names; empty if it names something else. The
    roles of a deleted account stay, as ``deleted:serviceAccount:EMAIL?uid=…``, and grant nothing
    to a new account of the same name."""
    if deleted_account(member):
        return member.removeprefix(_DELETED).partition("?uid=")[0]
    return member.removeprefix(_ACCOUNT) if member.startswith(_ACCOUNT) else ""


def deleted_account(member: str) -> bool:
    """Whether ``member`` names a service account that was deleted."""
    return member.startswith(_DELETED)


def without(policy: JsonObject, role: str, member: str) -> JsonObject:
    """``policy`` with ``member`` taken out of ``role``; its etag stays, so that the API refuses it
    once the policy has changed meanwhile. Bindings on a condition stay as they are."""
    bindings: list[JsonValue] = []
    for binding in objects(policy, "bindings"):
        left = entries(binding, "members")
        if _grants(binding, role, member):
            left = [each for each in left if each != member]
        if left:
            bindings.append({**binding, "members": left})
    return {**policy, "bindings": bindings}


def grants(policy: JsonObject, role: str, member: str) -> bool:
    """Whether ``policy`` gives ``member`` the ``role`` without a condition."""
    return any(_grants(binding, role, member) for binding in objects(policy, "bindings"))


def _grants(binding: JsonObject, role: str, member: str) -> bool:
    if binding.get("condition"):
        return False
    return binding.get("role") == role and member in entries(binding, "members")
