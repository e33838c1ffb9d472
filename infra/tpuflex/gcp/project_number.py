"""The number of a Google Cloud project.

The names of buckets are taken by whoever comes first, all over the world, and ours can be computed
by everybody. The number of the project that a bucket is in is given by Google and cannot be chosen
(https://cloud.google.com/resource-manager/docs/creating-managing-projects#before_you_begin), so
that a bucket is ours only if it says our project's.
"""

from __future__ import annotations

from tpuflex.errors import ApiError
from tpuflex.gcp.transport import Api


def project_number(resourcemanager: Api, project: str) -> str:
    """The number of ``project``, in decimal digits.

    Args:
        resourcemanager: client of the Resource Manager API.
        project: project id.

    Raises:
        NotFoundError, AccessError: there is no such project, or the caller may not read it
            (``resourcemanager.projects.get``).
        ApiError: the answer names no number.
    """
    answer = resourcemanager.call("GET", f"/v1/projects/{project}")
    number = str(answer.get("projectNumber") or "")
    if not (number.isascii() and number.isdecimal()):
        raise ApiError(f"Resource Manager names no number for project {project}")
    return number
