"""The number of a Google Cloud project.

The names of buckets are taken by whoever comes first, all over the world, and ours can be computed
by everybody. The number of the project that a bucket is in is given by Google and cannot be chosen
(https://cloud.google.com/resource-manager/docs/creating-managing-projects#before_you_begin), so
that a bucket is ours only if it says our project's.
"""

from __future__ import annotations

from tpuflex.errors import AccessError, ApiError
from tpuflex.google.transport import Api


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
        raise AccessError(
            f"The number of project {project}, which tells whether a bucket is yours, cannot be "
            f"read: {error.message}",
            hint="It needs resourcemanager.projects.get, which the role Browser has.",
        ) from error
    number = str(answer.get("projectNumber") or "")
    if not (number.isascii() and number.isdecimal()):
        raise ApiError(f"Resource Manager names no number for project {project}")
    return number
