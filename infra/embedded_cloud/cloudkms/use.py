"""Whether a service can encrypt with a key of the user's: it does so as its service agent, and the
caller's own rights on the key say nothing (https://cloud.google.com/kms/docs/cmek).
"""

from __future__ import annotations

import re

from embedded_cloud.cloudkms.state import Keys
from embedded_cloud.errors import CloudError
from embedded_cloud.json_types import child, text
from embedded_cloud.routing import Context

ENCRYPT = "cloudkms.cryptoKeyVersions.useToEncrypt"
DECRYPT = "cloudkms.cryptoKeyVersions.useToDecrypt"

_NAME = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_HOST = "iam.gserviceaccount.com"


def storage_agent(project_number: str) -> str:
    """Cloud Storage's service agent of a project
    (https://cloud.google.com/iam/docs/service-agents)."""
    return f"service-{project_number}@gs-project-accounts.{_HOST}"


def secrets_agent(project_number: str) -> str:
    """Secret Manager's service agent of a project."""
    return f"service-{project_number}@gcp-sa-secretmanager.{_HOST}"


def compute_agent(project_number: str) -> str:
    """Compute Engine's service agent of a project, which Cloud TPU acts by, too
    (https://cloud.google.com/tpu/docs/cmek-tpu)."""
    return f"service-{project_number}@compute-system.{_HOST}"


def location_of(key: str) -> str:
    """The location of a key by its name; empty for what is no name of a key."""
    found = _NAME.fullmatch(key)
    return found["location"] if found else ""


class KeyUse:
    """Uses of keys by services."""

    def __init__(self, context: Context) -> None:
        self._keys = Keys(context.store, context.clock)
        self._rights = context.rights

    def refusal(self, key: str, agent: str, permission: str = ENCRYPT) -> str:
        """Why Cloud KMS would refuse ``agent`` to use ``key``, in its words; empty if it would not.

        Args:
            key: name of the key.
            agent: address of the service agent.
            permission: what it does with it.
        """
        try:
            found = self._keys.key(key)
        except CloudError:
            found = {}
        if not found or not self._rights.granted_to(agent, permission, key):
            # Seen: hashicorp/terraform-provider-google#5103 on GitHub, and many others.
            return f"Permission '{permission}' denied on resource '{key}' (or it may not exist)."
        primary = child(found, "primary")
        if text(primary, "state") != "ENABLED":
            state = text(primary, "state", "without a primary version")
            return f"{self.version(key)} is not enabled, current state is: {state}."
        return ""

    def version(self, key: str) -> str:
        """Name of the version of ``key`` that encrypts now."""
        # The one that is made with a key; others are not emulated.
        return f"{key}/cryptoKeyVersions/1"


def disk_refusal(use: KeyUse, key: str, region: str, project_number: str) -> str:
    """Why Compute Engine would refuse a disk in ``region`` that ``key`` encrypts, in its words;
    empty if it would not."""
    why = use.refusal(key, compute_agent(project_number))
    if location_of(key) not in (region, "global"):
        # Stricter than Google where multi-regions are concerned; the words are inferred.
        why = f"The key must be in the region of the disk, {region}, or global."
    # The beginning was seen on GitHub, with this reason after it.
    return f"Cloud KMS error when using key {key}: {why}" if why else ""
