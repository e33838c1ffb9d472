"""Which key of the user's encrypts the objects of a bucket, and whether Cloud Storage may use it.

https://cloud.google.com/storage/docs/encryption/customer-managed-keys
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.cloudkms import DECRYPT, ENCRYPT, KeyUse, location_of, storage_agent
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.storage.buckets import Bucket
from embedded_cloud.storage.errors import invalid, key_denied


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """The keys of buckets.

    Attributes:
        use: uses of keys.
        number_of: project id -> number.
    """

    use: KeyUse
    number_of: Callable[[str], str]

    def check_settings(self, project: str, location: str, body: JsonObject) -> None:
        """Check the default key that a bucket is to get, if any.

        Raises:
            CloudError: 400, it is no key, or is elsewhere; 403, the service agent may not use it.
        """
        key = text(child(body, "encryption"), "defaultKmsKeyName")
        if not key:
            return
        there = location_of(key)
        if not there:
            raise invalid(f"Malformed Cloud KMS crypto key: {key}")
        if there.upper() != location.upper():
            # Seen: googleapis/google-cloud-go#1787 on GitHub.
            raise invalid(
                f"Cloud KMS region '{there}' not available for use with GCS region"
                f" '{location.upper()}'."
            )
        self._check(project, key, ENCRYPT)

    def encrypting(self, bucket: Bucket) -> str:
        """The version of the default key of ``bucket`` that encrypts a new object; empty without
        one.

        Raises:
            CloudError: 400 or 403, the service agent cannot use it.
        """
        key = text(child(bucket.settings, "encryption"), "defaultKmsKeyName")
        if not key:
            return ""
        self._check(bucket.project, key, ENCRYPT)
        return self.use.version(key)

    def check_readable(self, bucket: Bucket, version: str) -> None:
        """Check that an object can be decrypted which ``version`` of a key has encrypted, if any
        has.

        Raises:
            CloudError: 400 or 403, the service agent cannot use it.
        """
        if version:
            self._check(bucket.project, version.partition("/cryptoKeyVersions/")[0], DECRYPT)

    def _check(self, project: str, key: str, permission: str) -> None:
        agent = storage_agent(self.number_of(project))
        why = self.use.refusal(key, agent, permission)
        if why.startswith("Permission"):
            raise key_denied()
        if why:
            raise invalid(why)  # the words are those of Cloud KMS: none were seen
