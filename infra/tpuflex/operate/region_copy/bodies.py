"""What is asked for: a network without a way in, an account, and the machine. Pure.

https://cloud.google.com/compute/docs/reference/rest/v1/instances
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuflex.copier.__main__ import JOB_KEY
from tpuflex.copier.job import Job
from tpuflex.gcp.transport import JsonObject
from tpuflex.naming import COPY_ROLE, Names, account_email
from tpuflex.operate.region_copy.bundle import startup_script
from tpuflex.planning.copy_machine import DISK_GB, MACHINE_TYPE

#: Debian 12 has Python 3.11 (https://packages.debian.org/bookworm/python3).
IMAGE = "projects/debian-cloud/global/images/family/debian-12"
#: The machine is alone in its network.
_RANGE = "10.0.0.0/29"


@dataclass(frozen=True, slots=True)
class Place:
    """Whose machine it is, and where.

    Attributes:
        names: the endpoint's names.
        project: Google Cloud project id.
        region: the bucket's region.
        state_id: id of the stack's state.
        labels: labels of the user's.
        kms_key: key of the user's that encrypts the disk; empty for Google's own.
    """

    names: Names
    project: str
    region: str
    state_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    kms_key: str = ""

    @property
    def name(self) -> str:
        """Name of machine, network and subnetwork."""
        return self.names.compute(COPY_ROLE)

    @property
    def account(self) -> str:
        """Email of the machine's service account."""
        return account_email(self.names.service_account_id(COPY_ROLE), self.project)

    @property
    def description(self) -> str:
        """Marks what has no labels."""
        return self.names.description(self.state_id)


def network(place: Place) -> JsonObject:
    """A network with no rule: it lets everything out and nothing in
    (https://cloud.google.com/firewall/docs/firewalls#default_firewall_rules)."""
    return {
        "name": place.name,
        "description": place.description,
        "autoCreateSubnetworks": False,
        "routingConfig": {"routingMode": "REGIONAL"},
    }


def subnetwork(place: Place) -> JsonObject:
    """Its one subnetwork, in the bucket's region."""
    return {
        "name": place.name,
        "description": place.description,
        "network": f"projects/{place.project}/global/networks/{place.name}",
        "ipCidrRange": _RANGE,
    }


def account(place: Place) -> JsonObject:
    """The machine's service account. It has no role on the project."""
    about: JsonObject = {
        "displayName": "tpuflex: copies weights",
        "description": place.description,
    }
    return {"accountId": place.names.service_account_id(COPY_ROLE), "serviceAccount": about}


def machine(place: Place, zone: str, job: Job, limit_seconds: int) -> JsonObject:
    """The machine, which Google deletes after ``limit_seconds``. Its metadata holds the program and
    the job, and no secret; nobody can log in, because nothing reaches it."""
    labels: JsonObject = {**place.labels, **place.names.labels(place.state_id)}
    disk: JsonObject = {
        "sourceImage": IMAGE,
        "diskSizeGb": str(DISK_GB),
        "diskType": f"zones/{zone}/diskTypes/pd-standard",
        "labels": labels,
    }
    metadata = {
        "startup-script": startup_script(),
        JOB_KEY: job.to_json(),
        "enable-guest-attributes": "TRUE",
        "block-project-ssh-keys": "TRUE",
    }
    return {
        "name": place.name,
        "description": place.description,
        "labels": labels,
        "machineType": f"zones/{zone}/machineTypes/{MACHINE_TYPE}",
        "disks": [
            {"boot": True, "autoDelete": True, "initializeParams": disk, **_encrypted(place)}
        ],
        "networkInterfaces": [
            {
                "subnetwork": (
                    f"projects/{place.project}/regions/{place.region}/subnetworks/{place.name}"
                ),
                # An address of its own, to reach what it copies; it is given back with it.
                "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}],
            }
        ],
        "serviceAccounts": [
            {
                "email": place.account,
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }
        ],
        "scheduling": {
            "maxRunDuration": {"seconds": str(limit_seconds)},
            "instanceTerminationAction": "DELETE",
            "automaticRestart": False,
            "onHostMaintenance": "MIGRATE",
            "provisioningModel": "STANDARD",
        },
        "shieldedInstanceConfig": {
            "enableSecureBoot": True,
            "enableVtpm": True,
            "enableIntegrityMonitoring": True,
        },
        "metadata": {"items": [{"key": key, "value": value} for key, value in metadata.items()]},
    }


def _encrypted(place: Place) -> JsonObject:
    return {"diskEncryptionKey": {"kmsKeyName": place.kms_key}} if place.kms_key else {}
