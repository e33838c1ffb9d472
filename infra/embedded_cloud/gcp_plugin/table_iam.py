"""Custom roles, workload identity pools, and roles on service accounts. Properties as in pulumi-gcp
10.2.0, places as in iam v1.

What is deleted can be restored: terraform-provider-google,
google/services/resourcemanager/resource_google_project_iam_custom_role.go undeletes a role that it
is to create; google/services/iambeta/resource_iam_workload_identity_pool{,_provider}.go takes a
pool in the state DELETED for gone, and cannot create it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.gcp_plugin.call import CloudCall, serviceusage_operation
from embedded_cloud.gcp_plugin.collection import Collection, Step
from embedded_cloud.gcp_plugin.fields import DELETION_POLICY, PROJECT, Group, Property, Use
from embedded_cloud.gcp_plugin.policies import (
    GET_IAM_POLICY_BY_POST,
    SET_IAM_POLICY,
    IamMember,
    iam_member,
)
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ResourceType
from embedded_cloud.gcp_plugin.states import identified, located, state_of
from embedded_cloud.gcp_plugin.types import Flag, TextMap, Texts
from pulumi_plugin.values import Properties


@dataclass(frozen=True, slots=True)
class RestorableRoles(Collection):
    """Custom roles: one that was deleted is restored where it is to be created."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Create the role, or restore and change it."""
        made = identified(row, located(row, inputs, call.settings), call.settings)
        present = Collection._get(self, row, made, call)
        if present is None or present.get("deleted") is not True:
            return Collection.create(self, row, inputs, call)
        call.request("POST", f"{self._path(row, made)}:undelete", body={})
        restored = Made(made.id, state_of(row, made.id, made.state, present))
        return Made(made.id, self.update(row, restored, inputs, call))

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Delete the role, unless it is deleted already."""
        if self._get(row, made, call) is not None:
            Collection.delete(self, row, made, call)

    def _get(self, row: ResourceType, made: Made, call: CloudCall) -> JsonObject | None:
        found = Collection._get(self, row, made, call)
        return None if found is None or found.get("deleted") is True else found


@dataclass(frozen=True, slots=True)
class Restorable(Collection):
    """Pools and providers: what is in the state DELETED is gone."""

    def _get(self, row: ResourceType, made: Made, call: CloudCall) -> JsonObject | None:
        found = Collection._get(self, row, made, call)
        return None if found is None or found.get("state") == "DELETED" else found


CUSTOM_ROLE = ResourceType(
    token="gcp:projects/iAMCustomRole:IAMCustomRole",  # noqa: S106 - a type token
    title="Custom Project Role",
    properties=(
        Property("roleId", use=Use.CHOSEN, immutable=True, wire=""),
        PROJECT,
        DELETION_POLICY,
        Property("title", use=Use.REQUIRED),
        Property("description"),
        Property("permissions", Texts(), Use.REQUIRED, wire="includedPermissions"),
        Property("stage", default="GA"),
        Property("deleted", Flag(), use=Use.OUTPUT),
        Property("name", use=Use.OUTPUT),
    ),
    identity=Identity("projects/{project}/roles/{roleId}"),
    behaviour=RestorableRoles(
        path="/v1/projects/{project}/roles",
        item="/v1/projects/{project}/roles/{roleId}",
        envelope="role",
        beside={"roleId": "{roleId}"},
        steps=(Step(mask="query", bare=True),),
    ),
    autonamed="roleId",
)

_POOL = "/v1/projects/{project}/locations/global/workloadIdentityPools"
_PROVIDERS = f"{_POOL}/{{workloadIdentityPoolId}}/providers"
#: Properties of pools and of providers.
_OF_BOTH = (
    PROJECT,
    DELETION_POLICY,
    Property("displayName"),
    Property("description"),
    Property("disabled", Flag()),
    Property("name", use=Use.OUTPUT),
    Property("state", use=Use.OUTPUT),
)

POOL = ResourceType(
    token="gcp:iam/workloadIdentityPool:WorkloadIdentityPool",  # noqa: S106
    title="WorkloadIdentityPool",
    properties=(
        Property("workloadIdentityPoolId", use=Use.REQUIRED, immutable=True, wire=""),
        *_OF_BOTH,
    ),
    identity=Identity(
        "projects/{project}/locations/global/workloadIdentityPools/{workloadIdentityPoolId}",
        ("{project}/{workloadIdentityPoolId}", "{workloadIdentityPoolId}"),
    ),
    behaviour=Restorable(
        path=_POOL,
        item=f"{_POOL}/{{workloadIdentityPoolId}}",
        query={"workloadIdentityPoolId": "{workloadIdentityPoolId}"},
        wait=serviceusage_operation,
        steps=(Step(mask="query"),),
    ),
    unserved=("attestationRules", "inlineCertificateIssuanceConfig", "inlineTrustConfig", "mode"),
)

PROVIDER = ResourceType(
    token="gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",  # noqa: S106
    title="WorkloadIdentityPoolProvider",
    properties=(
        Property("workloadIdentityPoolId", use=Use.REQUIRED, immutable=True, wire=""),
        Property("workloadIdentityPoolProviderId", use=Use.REQUIRED, immutable=True, wire=""),
        *_OF_BOTH,
        Property("attributeMapping", TextMap()),
        Property("attributeCondition"),
        Property(
            "oidc",
            Group(
                (
                    Property("issuerUri", use=Use.REQUIRED),
                    Property("allowedAudiences", Texts(ordered=True)),
                    Property("jwksJson"),
                )
            ),
        ),
    ),
    identity=Identity(
        "projects/{project}/locations/global/workloadIdentityPools/{workloadIdentityPoolId}"
        "/providers/{workloadIdentityPoolProviderId}",
        ("{project}/{workloadIdentityPoolId}/{workloadIdentityPoolProviderId}",),
    ),
    behaviour=Restorable(
        path=_PROVIDERS,
        item=f"{_PROVIDERS}/{{workloadIdentityPoolProviderId}}",
        query={"workloadIdentityPoolProviderId": "{workloadIdentityPoolProviderId}"},
        wait=serviceusage_operation,
        steps=(Step(mask="query"),),
    ),
    unserved=("aws", "saml", "x509"),
)

ACCOUNT_IAM_MEMBER = iam_member(
    "gcp:serviceaccount/iAMMember:IAMMember",
    Property("serviceAccountId", use=Use.REQUIRED, immutable=True),
    IamMember(
        target="serviceAccountId",
        prefix="projects/",
        reading=GET_IAM_POLICY_BY_POST,
        writing=SET_IAM_POLICY,
    ),
)

TYPES = (CUSTOM_ROLE, POOL, PROVIDER, ACCOUNT_IAM_MEMBER)
