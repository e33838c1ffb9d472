"""Organization policy constraints that touch what tpuflex makes, and what holds without a policy.

Names and kinds as of 2026-11:
https://docs.cloud.google.com/resource-manager/docs/organization-policy/org-policy-constraints
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, TypeAlias

from embedded_cloud.core.json_types import JsonObject, JsonValue

#: Enforced or not; of a list constraint: all values are allowed, none, or these.
ConstraintValue: TypeAlias = bool | Literal["allow_all", "deny_all"] | tuple[str, ...]


class Kind(Enum):
    """What a constraint says."""

    #: Enforced or not; not enforced unless a policy says so.
    BOOLEAN = "true or false"
    #: Which values are allowed; all unless a policy says otherwise.
    LIST = '"allow_all", "deny_all" or a list of allowed values'


CONSTRAINTS: dict[str, Kind] = {
    "compute.disableGuestAttributesAccess": Kind.BOOLEAN,
    "compute.requireOsLogin": Kind.BOOLEAN,
    "compute.requireShieldedVm": Kind.BOOLEAN,
    "compute.restrictCloudNATUsage": Kind.LIST,
    "compute.skipDefaultNetworkCreation": Kind.BOOLEAN,
    "compute.vmExternalIpAccess": Kind.LIST,
    "gcp.resourceLocations": Kind.LIST,
    "gcp.restrictServiceUsage": Kind.LIST,
    "iam.allowedPolicyMemberDomains": Kind.LIST,
    "iam.disableServiceAccountCreation": Kind.BOOLEAN,
    "iam.disableServiceAccountKeyCreation": Kind.BOOLEAN,
    "storage.publicAccessPrevention": Kind.BOOLEAN,
    "storage.uniformBucketLevelAccess": Kind.BOOLEAN,
}


def check_constraints(constraints: Mapping[str, ConstraintValue]) -> None:
    """Check that all ``constraints`` exist and their values are of their kinds.

    Raises:
        ValueError: says which is not.
    """
    for name, value in constraints.items():
        kind = CONSTRAINTS.get(name)
        if kind is None:
            raise ValueError(f"{name} is not known; known: {', '.join(CONSTRAINTS)}")
        if isinstance(value, bool) != (kind is Kind.BOOLEAN):
            raise ValueError(f"{name} must be {kind.value}")


def rule(name: str, value: ConstraintValue | None) -> JsonObject:
    """The rule of the effective policy of the constraint ``name``; None is no policy at all."""
    if value is None:
        return {"enforce": False} if CONSTRAINTS[name] is Kind.BOOLEAN else {"allowAll": True}
    if isinstance(value, bool):
        return {"enforce": value}
    if isinstance(value, str):
        return {"allowAll": True} if value == "allow_all" else {"denyAll": True}
    return {"values": {"allowedValues": list[JsonValue](value)}}


def rule_v1(name: str, value: ConstraintValue | None) -> JsonObject:
    """The same in the words of Resource Manager v1, which leaves out what is false
    (https://cloud.google.com/resource-manager/reference/rest/v1/Policy)."""
    if CONSTRAINTS[name] is Kind.BOOLEAN:
        return {"booleanPolicy": {"enforced": True} if value else {}}
    if isinstance(value, tuple):
        return {"listPolicy": {"allowedValues": list[JsonValue](value)}}
    return {"listPolicy": {"allValues": "DENY" if value == "deny_all" else "ALLOW"}}
