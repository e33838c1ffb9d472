"""The organisation policy that is in force on a project.

Read through Resource Manager v1: the newer Organization Policy API would have to be enabled in the
project first, and only to be read.
https://cloud.google.com/resource-manager/reference/rest/v1/projects/getEffectiveOrgPolicy
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.gcp.paging import entries

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api


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
