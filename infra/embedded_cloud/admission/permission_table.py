"""Which permissions each emulated method asks of its caller, with where that was read.

Only what every call of a method needs. What some calls need besides (a label, a condition, a live
object that is replaced, the projection ``full``) is not here. Gathered 2026-11-21 from public
material; nothing was tried on Google Cloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from embedded_cloud.admission.permission_sources import Source


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method asks of its caller.

    Attributes:
        permissions: all of them, in the order in which they are checked; none: anyone who may
            call the API.
        source: where it was read.
    """

    permissions: tuple[str, ...]
    source: Source


def needs_of(method_id: str) -> Needs | None:
    """What the method asks for; None for one that is not in the table."""
    return _TABLE.get(method_id)


def known_permissions() -> frozenset[str]:
    """Every permission that any method asks for."""
    return frozenset(name for needs in _TABLE.values() for name in needs.permissions)


#: Method below the prefix -> permissions below their prefix, separated by spaces. A full name is
#: one with a colon in front.
_Rows = Mapping[str, str]

_ACT_AS = ":iam.serviceAccounts.actAs"

_TPU: _Rows = {
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
}
#: No role holds a permission that would fit.
_TPU_UNKNOWN: _Rows = {
    "operations.delete": "",
    "operations.cancel": "",
    "generateServiceIdentity": "",
}

_STORAGE: _Rows = {
    "buckets.insert": "buckets.create",
    "buckets.list": "buckets.list",
    "buckets.get": "buckets.get",
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
    "objects.update": "objects.update",
    "objects.delete": "objects.delete",
    "objects.compose": "objects.get objects.create",
    "objects.rewrite": "objects.get objects.create",
    "objects.copy": "objects.get objects.create",
}
_STORAGE_INFERRED: _Rows = {"buckets.getStorageLayout": "objects.list"}

_SECRETS: _Rows = {
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

_ACCOUNTS: _Rows = {
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
}
_ACCOUNTS_INFERRED: _Rows = {"testIamPermissions": ""}

_PROJECTS: _Rows = {
    "get": "get",
    "getIamPolicy": "getIamPolicy",
    "setIamPolicy": "setIamPolicy",
    "testIamPermissions": "",
}

_SERVICES: _Rows = {
    "services.enable": "services.enable",
    "services.batchEnable": "services.enable",
    "services.disable": "services.disable",
    "services.get": "services.get",
    "services.batchGet": "services.get",
    "services.list": "services.list",
    "operations.get": "operations.get",
    "services.consumerQuotaMetrics.list": "quotas.get",
    "services.consumerQuotaMetrics.get": "quotas.get",
}

_DNS: _Rows = {
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

_POLICY = "networks.updatePolicy"
_COMPUTE: _Rows = {
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
    "globalAddresses.insert": "globalAddresses.create",
    "globalAddresses.delete": "globalAddresses.delete",
    "globalAddresses.setLabels": "globalAddresses.setLabels",
    "projects.get": "projects.get",
    "globalOperations.wait": "globalOperations.get",
    "regionOperations.wait": "regionOperations.get",
    **{
        f"{kind}.{method}": f"{kind}.{permission}"
        for kind in (
            *("networks", "subnetworks", "routers", "firewalls", "addresses", "globalAddresses"),
            *("regions", "zones", "globalOperations", "regionOperations"),
        )
        for method, permission in (("get", "get"), ("list", "list"), ("aggregatedList", "list"))
    },
}

_REPOSITORIES: _Rows = {name: name for name in ("create", "get", "list", "delete")}


def _rows(
    methods: str, permissions: str, source: Source, rows: _Rows
) -> Iterator[tuple[str, Needs]]:
    for method, names in rows.items():
        full = (
            name.removeprefix(":") if name.startswith(":") else f"{permissions}.{name}"
            for name in names.split()
        )
        yield f"{methods}.{method}", Needs(tuple(full), source)


_TABLE: dict[str, Needs] = dict(
    (
        *_rows("tpu.projects.locations", "tpu", Source.DATA_SET, _TPU),
        *_rows("tpu.projects.locations", "tpu", Source.UNKNOWN, _TPU_UNKNOWN),
        *_rows("storage", "storage", Source.STORAGE, _STORAGE),
        *_rows("storage", "storage", Source.INFERRED, _STORAGE_INFERRED),
        *_rows("secretmanager.projects.secrets", "secretmanager", Source.SECRETS, _SECRETS),
        *_rows("iam.projects.serviceAccounts", "iam.serviceAccounts", Source.IAM, _ACCOUNTS),
        *_rows(
            *("iam.projects.serviceAccounts", "iam.serviceAccounts"),
            *(Source.INFERRED, _ACCOUNTS_INFERRED),
        ),
        *_rows(
            *("iamcredentials.projects.serviceAccounts", "iam.serviceAccounts"),
            *(Source.IAM, {"generateAccessToken": "getAccessToken"}),
        ),
        *_rows(
            *("cloudresourcemanager.projects", "resourcemanager.projects"),
            *(Source.RESOURCE_MANAGER, _PROJECTS),
        ),
        *_rows("serviceusage", "serviceusage", Source.SERVICE_USAGE, _SERVICES),
        *_rows("dns", "dns", Source.DNS, _DNS),
        *_rows("compute", "compute", Source.COMPUTE, _COMPUTE),
        *_rows("logging.entries", "logging.logEntries", Source.LOGGING, {"write": "create"}),
        *_rows("logging.entries", "logging.logEntries", Source.LOGGING, {"list": "list"}),
        *_rows(
            *("cloudbilling.projects", "resourcemanager.projects"),
            *(Source.DISCOVERY, {"getBillingInfo": "get"}),
        ),
        *_rows(
            *("cloudresourcemanager.projects", "orgpolicy.policy"),
            *(Source.ORGANIZATION_POLICY, {"getEffectiveOrgPolicy": "get"}),
        ),
        *_rows(
            *("orgpolicy.projects.policies", "orgpolicy.policy"),
            *(Source.ORGANIZATION_POLICY, {"get": "get", "getEffectivePolicy": "get"}),
        ),
        *_rows(
            *("artifactregistry.projects.locations.repositories", "artifactregistry.repositories"),
            *(Source.ARTIFACT_REGISTRY, _REPOSITORIES),
        ),
        # Everybody may read and change the login that is their own.
        *_rows(
            *("oslogin.users", "oslogin", Source.INFERRED),
            {"importSshPublicKey": "", "getLoginProfile": ""},
        ),
        *_rows(
            *("artifactregistry.projects.locations.operations", "artifactregistry"),
            *(Source.UNKNOWN, {"get": ""}),
        ),
    )
)
