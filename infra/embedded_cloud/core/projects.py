"""Projects: every well-formed id is a project with an owner and a policy. No HTTP."""

from __future__ import annotations

import hashlib
import re

from embedded_cloud.core.access import USER_ACCOUNT
from embedded_cloud.core.errors import permission_denied
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.core.store import Store

#: Who owns the embedded cloud's projects.
OWNER = "user:owner@example.com"

#: When every embedded project was made.
CREATED = "2026-01-01T00:00:00.000Z"

# https://cloud.google.com/resource-manager/docs/creating-managing-projects#before_you_begin
_PROJECT_ID = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")


def project_number(project: str) -> str:
    """The twelve-digit number of ``project``: a pure function of its id."""
    digest = hashlib.sha256(project.encode()).digest()
    return str(100_000_000_000 + int.from_bytes(digest[:8]) % 900_000_000_000)


def require(project: str) -> str:
    """``project`` if its id is well formed.

    Raises:
        CloudError: 403, as Google answers for a project that the caller may not see.
    """
    if not _PROJECT_ID.fullmatch(project):
        raise permission_denied(
            f"The caller does not have permission on project '{project}' (or it may not exist)."
        )
    return project


def number_of(project: str) -> str:
    """The number of ``project``, which may be its number already.

    Raises:
        CloudError: 403, as :func:`require`.
    """
    return project if project.isdecimal() else project_number(require(project))


def default_service_account(project_number: str) -> str:
    """Compute Engine's account, as which hosts run when none is named."""
    return f"{project_number}-compute@developer.gserviceaccount.com"


def named(project: str, store: Store) -> str:
    """The id of ``project``, which may be its number.

    Every well-formed id is a project, so a number is looked up among the projects that have a
    resource.

    Raises:
        CloudError: 403, as :func:`require`.
    """
    if project.isdigit():
        owners = {_owner(*each) for name in store.collections() for each in store.list(name)}
        project = next((each for each in owners if project_number(each) == project), project)
    return require(project)


def _owner(key: str, resource: JsonObject) -> str:
    """The project of a resource; a bucket's name does not say it."""
    parts = key.split("/")
    return parts[1] if parts[0] == "projects" and len(parts) > 1 else text(resource, "project")


def initial_bindings() -> list[JsonObject]:
    """The bindings of a project whose policy was never set: the embedded cloud's owner, and the
    user who has logged in."""
    return [{"role": "roles/owner", "members": [f"user:{USER_ACCOUNT}", OWNER]}]


def policy_resource(project: str) -> str:
    """A project's full resource name."""
    return f"projects/{project}"
