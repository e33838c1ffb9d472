"""The permissions that each command needs, and predefined roles that have them. Pure.

The rows follow from the methods that the program's resources and tpuflex's own clients call, by
Google's references of permissions per method, read 2026-11-21:
https://cloud.google.com/tpu/docs/audit-logs, https://cloud.google.com/vpc/docs/audit-logging,
https://cloud.google.com/storage/docs/access-control/iam-json,
https://cloud.google.com/secret-manager/docs/audit-logging,
https://cloud.google.com/iam/docs/audit-logging, https://cloud.google.com/dns/docs/access-control,
https://cloud.google.com/service-usage/docs/audit-logging,
https://cloud.google.com/iap/docs/using-tcp-forwarding. Nobody has tried them on Google.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Command(StrEnum):
    """What somebody wants to do; `up` and `down` begin with a preview."""

    STATUS = "status"
    PREVIEW = "preview"
    UP = "up"
    DOWN = "down"
    WAY_IN = "logs, ssh, tunnel"


class When(StrEnum):
    """The stacks that need a permission."""

    ALWAYS = "always"
    PRIVATE = "egress: google"  #: private DNS zones keep the hosts within Google
    NAT = "egress: internet"
    OWN_IMAGES = "an image in the project's own registry"


@dataclass(frozen=True, slots=True)
class Row:
    """Permissions that go together.

    Attributes:
        prefix: what they begin with.
        names: how they end, with spaces between.
        commands: what they are needed for.
        role: a predefined role that has them all.
        when: the stacks that need them.
    """

    prefix: str
    names: str
    commands: tuple[Command, ...]
    role: str
    when: When = When.ALWAYS

    @property
    def permissions(self) -> tuple[str, ...]:
        """The permissions in full."""
        return tuple(f"{self.prefix}.{name}" for name in self.names.split())


_PREVIEW, _UP, _DOWN = (Command.PREVIEW,), (Command.UP,), (Command.DOWN,)
_CHANGE = (Command.UP, Command.DOWN)
_READ = (Command.PREVIEW, Command.UP, Command.DOWN)
_NETWORK, _SECURITY = "roles/compute.networkAdmin", "roles/compute.securityAdmin"
_TPU, _DNS = "roles/tpu.admin", "roles/dns.admin"

ROWS: tuple[Row, ...] = (
    Row("tpu.nodes", "get list", (Command.STATUS, *_READ, Command.WAY_IN), "roles/tpu.viewer"),
    Row("tpu.nodes", "create", _UP, _TPU),
    Row("tpu.nodes", "delete", _DOWN, _TPU),
    Row("tpu.operations", "get", _CHANGE, _TPU),
    Row("resourcemanager.projects", "get", _READ, "roles/browser"),
    Row("resourcemanager.projects", "getIamPolicy", _READ, "roles/iam.securityReviewer"),
    Row(
        "resourcemanager.projects", "setIamPolicy", _CHANGE, "roles/resourcemanager.projectIamAdmin"
    ),
    Row("serviceusage.services", "get list", _READ, "roles/serviceusage.serviceUsageViewer"),
    Row("serviceusage.services", "enable", _UP, "roles/serviceusage.serviceUsageAdmin"),
    Row("compute.networks", "get", _READ, "roles/compute.viewer"),
    Row("compute.networks", "create updatePolicy", _UP, _NETWORK),
    Row("compute.networks", "delete updatePolicy", _DOWN, _NETWORK),
    Row("compute.subnetworks", "get", _READ, "roles/compute.viewer"),
    Row("compute.subnetworks", "create", _UP, _NETWORK),
    Row("compute.subnetworks", "delete", _DOWN, _NETWORK),
    Row("compute.firewalls", "get", _READ, "roles/compute.viewer"),
    Row("compute.firewalls", "create", _UP, _SECURITY),
    Row("compute.firewalls", "delete", _DOWN, _SECURITY),
    Row("compute.globalOperations", "get", _CHANGE, "roles/compute.viewer"),
    Row("compute.regionOperations", "get", _CHANGE, "roles/compute.viewer"),
    Row("compute.routers", "get", _READ, "roles/compute.viewer", When.NAT),
    Row("compute.routers", "create update", _UP, _NETWORK, When.NAT),
    Row("compute.routers", "update delete", _DOWN, _NETWORK, When.NAT),
    Row("dns.managedZones", "get", _READ, "roles/dns.reader", When.PRIVATE),
    Row("dns.resourceRecordSets", "list", _READ, "roles/dns.reader", When.PRIVATE),
    Row("dns.managedZones", "create", _UP, _DNS, When.PRIVATE),
    Row("dns.networks", "bindPrivateDNSZone", _UP, _DNS, When.PRIVATE),
    Row("dns.resourceRecordSets", "create", _UP, _DNS, When.PRIVATE),
    Row("dns.managedZones", "delete", _DOWN, _DNS, When.PRIVATE),
    Row("dns.resourceRecordSets", "delete", _DOWN, _DNS, When.PRIVATE),
    Row("dns.changes", "create get", _CHANGE, _DNS, When.PRIVATE),
    Row("iam.serviceAccounts", "get", _READ, "roles/iam.serviceAccountViewer"),
    Row("iam.serviceAccounts", "create", _UP, "roles/iam.serviceAccountAdmin"),
    Row("iam.serviceAccounts", "actAs", _UP, "roles/iam.serviceAccountUser"),
    Row("iam.serviceAccounts", "delete", _DOWN, "roles/iam.serviceAccountAdmin"),
    Row("storage.buckets", "get getIamPolicy", _READ, "roles/storage.admin"),
    Row("storage.buckets", "create setIamPolicy", _UP, "roles/storage.admin"),
    Row("storage.objects", "get list create delete", _UP, "roles/storage.admin"),
    Row("storage.buckets", "delete setIamPolicy", _DOWN, "roles/storage.admin"),
    Row("storage.objects", "list delete", _DOWN, "roles/storage.admin"),
    Row("secretmanager.secrets", "get getIamPolicy", _READ, "roles/secretmanager.viewer"),
    Row("secretmanager.versions", "list", _UP, "roles/secretmanager.viewer"),
    Row("secretmanager.secrets", "create setIamPolicy", _UP, "roles/secretmanager.admin"),
    Row("secretmanager.versions", "add access", _UP, "roles/secretmanager.admin"),
    Row("secretmanager.secrets", "delete setIamPolicy", _DOWN, "roles/secretmanager.admin"),
    Row(
        "artifactregistry.repositories",
        "downloadArtifacts",
        _PREVIEW,
        "roles/artifactregistry.reader",
        When.OWN_IMAGES,
    ),
    Row(
        "iap.tunnelInstances",
        "accessViaIAP",
        (Command.WAY_IN,),
        "roles/iap.tunnelResourceAccessor",
    ),
    Row("compute.instances", "osAdminLogin", (Command.WAY_IN,), "roles/compute.osAdminLogin"),
    Row("compute.projects", "get", (Command.WAY_IN,), "roles/compute.viewer"),
)


def needed(command: Command, stacks: Collection[When]) -> dict[str, str]:
    """The permissions that ``command`` needs, each with a predefined role that has it.

    Args:
        command: the command.
        stacks: what holds of the stack beside ``When.ALWAYS``.
    """
    return {
        permission: row.role
        for row in ROWS
        if command in row.commands and (row.when is When.ALWAYS or row.when in stacks)
        for permission in row.permissions
    }
