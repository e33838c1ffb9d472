"""Which keys of the user's encrypt the versions of a secret, and whether they can be used.

https://cloud.google.com/secret-manager/docs/cmek
"""

from __future__ import annotations

from collections.abc import Iterator

from embedded_cloud.cloudkms import DECRYPT, ENCRYPT, KeyUse, location_of, secrets_agent
from embedded_cloud.errors import failed_precondition, invalid_argument
from embedded_cloud.json_types import JsonObject, JsonValue, child, children, text
from embedded_cloud.secretmanager.records import Secret, Version

_GLOBAL = "global"


def without_keys(replication: JsonObject) -> JsonObject:
    """``replication`` without the keys in it, which alone can be changed."""
    if "automatic" in replication:
        return {"automatic": {}}
    replicas = [text(each, "location") for each in _replicas(replication)]
    return {"userManaged": {"replicas": list[JsonValue](replicas)}}


def keys_of(replication: JsonObject) -> dict[str, str]:
    """By location its key, where there is one."""
    return {place: key for place, key in _places(replication) if key}


class SecretKeys:
    """The keys of secrets."""

    def __init__(self, use: KeyUse) -> None:
        self._use = use

    def check_settings(self, project_number: str, replication: JsonObject) -> None:
        """Check the keys that a secret is to get.

        Raises:
            CloudError: 400, one is elsewhere, or the service agent may not use it.
        """
        for place, key in keys_of(replication).items():
            if location_of(key) != place:
                # Seen of the first: GoogleCloudPlatform/terraform-google-secret-manager#74 on
                # GitHub.
                policy = "Automatic" if place == _GLOBAL else "User-managed"
                raise invalid_argument(
                    f"{policy} replication policy can only be configured with Cloud KMS keys in"
                    f" location [{place}]. Requested: [{key}]"
                )
            self._check(project_number, key, ENCRYPT)

    def encrypting(self, secret: Secret) -> dict[str, str]:
        """By location the version of a key that encrypts a new version of ``secret``.

        Raises:
            CloudError: 400, the service agent cannot use one.
        """
        keys = keys_of(child(secret.settings, "replication"))
        for key in keys.values():
            self._check(secret.project, key, ENCRYPT)
        return {place: self._use.version(key) for place, key in keys.items()}

    def check_readable(self, secret: Secret, version: Version) -> None:
        """Check that ``version`` can be decrypted.

        Raises:
            CloudError: 400, the service agent cannot use its key.
        """
        for key in version.keys.values():
            self._check(secret.project, key.partition("/cryptoKeyVersions/")[0], DECRYPT)

    def _check(self, project_number: str, key: str, permission: str) -> None:
        """The words are those of Cloud KMS: no public log shows those of Secret Manager."""
        why = self._use.refusal(key, secrets_agent(project_number), permission)
        if why:
            raise failed_precondition(why)


def _places(replication: JsonObject) -> Iterator[tuple[str, str]]:
    places = [(text(each, "location"), each) for each in _replicas(replication)]
    if "automatic" in replication:
        places.append((_GLOBAL, child(replication, "automatic")))
    for place, each in places:
        yield place, text(child(each, "customerManagedEncryption"), "kmsKeyName")


def _replicas(replication: JsonObject) -> list[JsonObject]:
    return children(child(replication, "userManaged"), "replicas")
