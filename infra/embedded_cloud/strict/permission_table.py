"""The table: which permissions each emulated method asks of its caller.

Only what every call of a method needs. What some calls need besides (a label, a condition, a live
object that is replaced, the projection ``full``) is not here;
:mod:`embedded_cloud.strict.required_permissions` has what the body decides. Gathered 2026-11 from
the public material that is named beside each section; nothing was tried on Google Cloud.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Method below the prefix -> permissions below their prefix, separated by spaces. A full name is
#: one with a colon in front.
Rows = Mapping[str, str]

# https://docs.cloud.google.com/vpc/docs/audit-logging and
# https://docs.cloud.google.com/nat/docs/audit-logging
_POLICY = "networks.updatePolicy"
COMPUTE: Rows = {
    "networks.insert": "networks.create",
    "networks.patch": "networks.get networks.update",
    "networks.delete": "networks.delete",
    "subnetworks.insert": f"subnetworks.create {_POLICY}",
    "subnetworks.patch": "subnetworks.get subnetworks.update",
    "subnetworks.delete": "subnetworks.delete",
    "subnetworks.setPrivateIpGoogleAccess": "subnetworks.setPrivateIpGoogleAccess",
    "subnetworks.expandIpCidrRange": "subnetworks.expandIpCidrRange",
    "routers.insert": f"routers.create {_POLICY}",
    "routers.patch": f"routers.update {_POLICY}",
    "routers.update": f"routers.update {_POLICY}",
    "routers.delete": "routers.delete",
    "firewalls.insert": f"firewalls.create {_POLICY}",
    "firewalls.patch": f"firewalls.get firewalls.update {_POLICY}",
    "firewalls.update": f"firewalls.update {_POLICY}",
    "firewalls.delete": f"firewalls.delete {_POLICY}",
    "addresses.insert": "addresses.create",
    "addresses.delete": "addresses.delete",
    "addresses.setLabels": "addresses.setLabels",
    "projects.get": "projects.get",
    "globalOperations.wait": "globalOperations.get",
    "regionOperations.wait": "regionOperations.get",
    **{
        f"{kind}.{method}": f"{kind}.{permission}"
        for kind in (
            *("networks", "subnetworks", "routers", "firewalls", "addresses"),
            *("globalOperations", "regionOperations"),
        )
        for method, permission in (("get", "get"), ("list", "list"), ("aggregatedList", "list"))
    },
}


def needs_of(method_id: str) -> tuple[str, ...] | None:
    """The permissions that the method asks for, in the order in which they are checked.

    None of them where anyone may call it who may call the API; None for a method that is not in the
    table.
    """
    return _TABLE.get(method_id)


_ACT_AS = ":iam.serviceAccounts.actAs"

# https://github.com/iann0036/iam-dataset gcp/map.json, commit 2073fa5
_TPU: Rows = {
    # Queued resources have no permissions of their own.
    "queuedResources.create": f"nodes.create {_ACT_AS}",
    "queuedResources.list": "nodes.list",
    "queuedResources.get": "nodes.get",
    "queuedResources.delete": "nodes.delete",
    "queuedResources.reset": "nodes.reset",
    "nodes.create": f"nodes.create {_ACT_AS}",
    "nodes.list": "nodes.list",
    "nodes.get": "nodes.get",
    "nodes.delete": "nodes.delete",
    "nodes.patch": "nodes.update",
    "nodes.stop": "nodes.stop",
    "nodes.start": "nodes.start",
    "nodes.reimage": "nodes.reimage",
    "nodes.getGuestAttributes": "nodes.get",
    "operations.list": "operations.list",
    "operations.get": "operations.get",
    "acceleratorTypes.list": "acceleratortypes.list",
    "acceleratorTypes.get": "acceleratortypes.get",
    "runtimeVersions.list": "runtimeversions.list",
    "runtimeVersions.get": "runtimeversions.get",
    "tensorflowVersions.list": "tensorflowversions.list",
    "tensorflowVersions.get": "tensorflowversions.get",
    "list": "locations.list",
    "get": "locations.get",
    # Unknown: no role holds a permission that would fit, so nobody is refused.
    "generateServiceIdentity": "",
}

# https://docs.cloud.google.com/storage/docs/access-control/iam-json
_STORAGE: Rows = {
    "buckets.insert": "buckets.create",
    "buckets.list": "buckets.list",
    "buckets.get": "buckets.get",
    "buckets.lockRetentionPolicy": "buckets.update",
    "buckets.patch": "buckets.update",
    "buckets.update": "buckets.update",
    "buckets.delete": "buckets.delete",
    "buckets.getIamPolicy": "buckets.getIamPolicy",
    "buckets.setIamPolicy": "buckets.setIamPolicy",
    "buckets.testIamPermissions": "",
    "managedFolders.list": "managedFolders.list",
    "projects.serviceAccount.get": ":resourcemanager.projects.get",
    "objects.insert": "objects.create",
    "objects.list": "objects.list",
    "objects.get": "objects.get",
    "objects.patch": "objects.update",
    "objects.delete": "objects.delete",
    "objects.rewrite": "objects.get objects.create",
    # Inferred from the methods beside it.
    "buckets.getStorageLayout": "objects.list",
}

# https://docs.cloud.google.com/secret-manager/docs/audit-logging
_SECRETS: Rows = {
    "create": "secrets.create",
    "list": "secrets.list",
    "get": "secrets.get",
    "patch": "secrets.update",
    "delete": "secrets.delete",
    "addVersion": "versions.add",
    "getIamPolicy": "secrets.getIamPolicy",
    "setIamPolicy": "secrets.setIamPolicy",
    "testIamPermissions": "",
    "versions.list": "versions.list",
    "versions.get": "versions.get",
    "versions.access": "versions.access",
    "versions.enable": "versions.enable",
    "versions.disable": "versions.disable",
    "versions.destroy": "versions.destroy",
}

# https://docs.cloud.google.com/iam/docs/audit-logging
_ACCOUNTS: Rows = {
    "create": "create",
    "list": "list",
    "get": "get",
    "patch": "update",
    "update": "update",
    "delete": "delete",
    "enable": "enable",
    "disable": "disable",
    "getIamPolicy": "getIamPolicy",
    "setIamPolicy": "setIamPolicy",
    # Inferred from the methods beside it.
    "testIamPermissions": "",
}
_TOKENS: Rows = {"generateAccessToken": "getAccessToken"}

# https://docs.cloud.google.com/iam/docs/creating-custom-roles
_ROLES: Rows = {
    "create": "create",
    "list": "list",
    "get": "get",
    "patch": "update",
    "delete": "delete",
    "undelete": "undelete",
}
# Anybody may read what Google's roles hold.
_PREDEFINED_ROLES: Rows = {"get": ""}

# https://docs.cloud.google.com/iam/docs/workload-identity-federation-principal-identifiers, and the
# permissions of roles/iam.workloadIdentityPoolAdmin
_POOL_VERBS = ("create", "list", "get", "delete", "undelete")
_POOLS: Rows = {
    **{verb: verb for verb in _POOL_VERBS},
    "patch": "update",
    "listAttestationRules": "get",  # a guess: Google names no permission for it
}

# https://docs.cloud.google.com/kms/docs/reference/permissions-and-roles
_KEYS: Rows = {
    "create": "keyRings.create",
    "list": "keyRings.list",
    "get": "keyRings.get",
    "getIamPolicy": "keyRings.getIamPolicy",
    "setIamPolicy": "keyRings.setIamPolicy",
    "cryptoKeys.create": "cryptoKeys.create",
    "cryptoKeys.list": "cryptoKeys.list",
    "cryptoKeys.get": "cryptoKeys.get",
    "cryptoKeys.patch": "cryptoKeys.update",
    "cryptoKeys.getIamPolicy": "cryptoKeys.getIamPolicy",
    "cryptoKeys.setIamPolicy": "cryptoKeys.setIamPolicy",
    "cryptoKeys.cryptoKeyVersions.list": "cryptoKeyVersions.list",
    "cryptoKeys.cryptoKeyVersions.get": "cryptoKeyVersions.get",
    "cryptoKeys.cryptoKeyVersions.destroy": "cryptoKeyVersions.destroy",
}

# https://docs.cloud.google.com/resource-manager/reference/rest/v1/projects
_PROJECTS: Rows = {
    "get": "get",
    "getIamPolicy": "getIamPolicy",
    "setIamPolicy": "setIamPolicy",
    "testIamPermissions": "",
}

# https://docs.cloud.google.com/service-usage/docs/audit-logging
_SERVICES: Rows = {
    "services.enable": "services.enable",
    "services.batchEnable": "services.enable",
    "services.disable": "services.disable",
    "services.get": "services.get",
    "services.batchGet": "services.get",
    "services.list": "services.list",
    "operations.get": "operations.get",
    "services.consumerQuotaMetrics.list": "quotas.get",
}

# https://docs.cloud.google.com/dns/docs/access-control
_DNS: Rows = {
    "managedZones.create": "managedZones.create",
    "managedZones.list": "managedZones.list",
    "managedZones.get": "managedZones.get",
    "managedZones.patch": "managedZones.update",
    "managedZones.update": "managedZones.update",
    "managedZones.delete": "managedZones.delete",
    "managedZoneOperations.get": "managedZoneOperations.get",
    "resourceRecordSets.create": "changes.create resourceRecordSets.create",
    "resourceRecordSets.list": "resourceRecordSets.list",
    "resourceRecordSets.get": "resourceRecordSets.get",
    "resourceRecordSets.patch": "changes.create resourceRecordSets.update",
    "resourceRecordSets.delete": "changes.create resourceRecordSets.delete",
    "changes.create": "changes.create",
    "changes.list": "changes.list",
    "changes.get": "changes.get",
}

# https://docs.cloud.google.com/logging/docs/access-control
_LOG_ENTRIES: Rows = {"write": "create", "list": "list"}

# https://docs.cloud.google.com/monitoring/access-control
_MONITORING: Rows = {
    "timeSeries.create": "timeSeries.create",
    "timeSeries.list": "timeSeries.list",
    "notificationChannels.create": "notificationChannels.create",
    "notificationChannels.get": "notificationChannels.get",
    "alertPolicies.create": "alertPolicies.create",
    "alertPolicies.list": "alertPolicies.list",
    "alertPolicies.get": "alertPolicies.get",
    "alertPolicies.patch": "alertPolicies.update",
    "alertPolicies.delete": "alertPolicies.delete",
    "dashboards.create": "dashboards.create",
    "dashboards.list": "dashboards.list",
    "dashboards.get": "dashboards.get",
    "dashboards.patch": "dashboards.update",
    "dashboards.delete": "dashboards.delete",
}

# https://cloud.google.com/billing/docs/how-to/billing-access
_BILLING: Rows = {
    "getBillingInfo": "get",
    "updateBillingInfo": "createBillingAssignment :billing.resourceAssociations.create",
}

# https://docs.cloud.google.com/iam/docs/roles-permissions/orgpolicy
_PROJECT_POLICIES: Rows = {
    "getEffectiveOrgPolicy": "get",
    "getOrgPolicy": "get",
    "setOrgPolicy": "set",
    "clearOrgPolicy": "set",
}
_POLICIES: Rows = {"get": "get", "getEffectivePolicy": "get"}

# https://docs.cloud.google.com/artifact-registry/docs/access-control
_REPOSITORIES: Rows = {name: name for name in ("create", "get", "list", "delete")}
# Unknown: nobody is refused.
_REPOSITORY_OPERATIONS: Rows = {"get": ""}

# Inferred: everybody may read and change the login that is their own.
_LOGINS: Rows = {"importSshPublicKey": "", "getLoginProfile": ""}

#: Prefix of methods, prefix of permissions, rows.
_SECTIONS: tuple[tuple[str, str, Rows], ...] = (
    ("tpu.projects.locations", "tpu", _TPU),
    ("storage", "storage", _STORAGE),
    ("secretmanager.projects.secrets", "secretmanager", _SECRETS),
    ("iam.projects.serviceAccounts", "iam.serviceAccounts", _ACCOUNTS),
    ("iam.projects.roles", "iam.roles", _ROLES),
    ("iam.roles", "", _PREDEFINED_ROLES),
    ("iam.projects.locations.workloadIdentityPools", "iam.workloadIdentityPools", _POOLS),
    (
        "iam.projects.locations.workloadIdentityPools.providers",
        "iam.workloadIdentityPoolProviders",
        _POOLS,
    ),
    ("cloudkms.projects.locations.keyRings", "cloudkms", _KEYS),
    ("iamcredentials.projects.serviceAccounts", "iam.serviceAccounts", _TOKENS),
    ("cloudresourcemanager.projects", "resourcemanager.projects", _PROJECTS),
    ("cloudresourcemanager.projects", "orgpolicy.policy", _PROJECT_POLICIES),
    ("orgpolicy.projects.policies", "orgpolicy.policy", _POLICIES),
    ("cloudbilling.projects", "resourcemanager.projects", _BILLING),
    ("serviceusage", "serviceusage", _SERVICES),
    ("dns", "dns", _DNS),
    ("compute", "compute", COMPUTE),
    ("logging.entries", "logging.logEntries", _LOG_ENTRIES),
    ("monitoring.projects", "monitoring", _MONITORING),
    (
        "artifactregistry.projects.locations.repositories",
        "artifactregistry.repositories",
        _REPOSITORIES,
    ),
    ("artifactregistry.projects.locations.operations", "", _REPOSITORY_OPERATIONS),
    ("oslogin.users", "", _LOGINS),
)


def _full(prefix: str, name: str) -> str:
    return name.removeprefix(":") if name.startswith(":") else f"{prefix}.{name}"


_TABLE: dict[str, tuple[str, ...]] = {
    f"{methods}.{method}": tuple(_full(permissions, name) for name in names.split())
    for methods, permissions, rows in _SECTIONS
    for method, names in rows.items()
}
