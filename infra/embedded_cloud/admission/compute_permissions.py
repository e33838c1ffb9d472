"""Which permissions the methods of Compute Engine ask of their caller.

Gathered 2026-11 from the public pages named beside the rows; nothing was tried on Google Cloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from embedded_cloud.json_types import JsonObject, child, children, flag

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
    "globalAddresses.insert": "globalAddresses.create",
    "globalAddresses.delete": "globalAddresses.delete",
    "globalAddresses.setLabels": "globalAddresses.setLabels",
    # https://docs.cloud.google.com/compute/docs/reference/rest/v1/instances/insert; what some calls
    # need besides is below.
    "instances.insert": "instances.create disks.create subnetworks.use",
    "instances.delete": "instances.delete",
    "instances.getGuestAttributes": "instances.getGuestAttributes",
    "instances.setDeletionProtection": "instances.setDeletionProtection",
    "projects.get": "projects.get",
    "globalOperations.wait": "globalOperations.get",
    "regionOperations.wait": "regionOperations.get",
    "zoneOperations.wait": "zoneOperations.get",
    **{
        f"{kind}.{method}": f"{kind}.{permission}"
        for kind in (
            *("networks", "subnetworks", "routers", "firewalls", "addresses", "globalAddresses"),
            *("instances", "regions", "zones"),
            *("globalOperations", "regionOperations", "zoneOperations"),
        )
        for method, permission in (("get", "get"), ("list", "list"), ("aggregatedList", "list"))
    },
}


def of_new_instance(body: JsonObject) -> Iterator[str]:
    """What the body of ``instances.insert`` asks for besides, without the right to act as its
    service account (https://docs.cloud.google.com/compute/docs/reference/rest/v1/instances/insert).
    """
    interfaces = children(body, "networkInterfaces")
    if any(each.get("accessConfigs") for each in interfaces):
        yield "compute.subnetworks.useExternalIp"
    for field, permission in (
        ("metadata", "setMetadata"),
        ("tags", "setTags"),
        ("labels", "setLabels"),
    ):
        if child(body, field):
            yield f"compute.instances.{permission}"
    if children(body, "serviceAccounts"):
        yield "compute.instances.setServiceAccount"
    if flag(body, "deletionProtection"):
        yield "compute.instances.setDeletionProtection"
