"""The state of the emulated Cloud Storage, for its handlers.

https://cloud.google.com/storage/docs/encryption/customer-managed-keys
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.routing import Context, Rights
from embedded_cloud.core.store import Store
from embedded_cloud.services.cloudkms import DECRYPT, ENCRYPT, KeyUse, location_of, storage_agent
from embedded_cloud.services.iam.policies import Policies
from embedded_cloud.services.storage.buckets import Bucket, Buckets
from embedded_cloud.services.storage.content import ContentFiles
from embedded_cloud.services.storage.errors import invalid, key_denied
from embedded_cloud.services.storage.objects import Objects, StoredObject
from embedded_cloud.services.storage.uploads import Uploads
from embedded_cloud.services.storage.wire import object_resource


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """The keys of buckets.

    Attributes:
        use: uses of keys.
    """

    use: KeyUse

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
        agent = storage_agent(project_number(project))
        why = self.use.refusal(key, agent, permission)
        if why.startswith("Permission"):
            raise key_denied()
        if why:
            raise invalid(why)  # the words are those of Cloud KMS: none were seen


_MARKS = "_storage/marks"


@dataclass(frozen=True, slots=True)
class StorageState:
    """Buckets, objects, uploads, policies and the files that hold their bytes.

    Attributes:
        base_url: the emulator's address, for links in answers.
        keys: keys of the users' own.
    """

    store: Store
    files: ContentFiles
    buckets: Buckets
    objects: Objects
    uploads: Uploads
    policies: Policies
    rights: Rights
    base_url: Callable[[], str]
    keys: BucketKeys

    @classmethod
    def of(cls, context: Context) -> StorageState:
        """The state kept in ``context``."""
        files = ContentFiles(context.objects_dir)
        return cls(
            store=context.store,
            files=files,
            buckets=Buckets(context.store, context.clock),
            objects=Objects(context.store, context.clock, files),
            uploads=Uploads(context.store, files),
            policies=Policies(context.store, context.clock, context.strictness),
            rights=context.rights,
            base_url=context.base_url,
            keys=BucketKeys(KeyUse(context)),
        )

    def resource(self, stored: StoredObject) -> JsonObject:
        """The Object resource of ``stored``."""
        until = self.objects.kept_until(stored)
        return object_resource(stored, base_url=self.base_url(), kept_until=until)

    def sweep_once(self) -> None:
        """Delete files that no record refers to, once until the store is cleared.

        A reset clears the mark too, so it also frees the disk.
        """
        if self.store.get(_MARKS, "swept") is None:
            self.files.sweep(self.objects.contents(), self.uploads.open_ids())
            self.store.put(_MARKS, "swept", {"done": True})


def policy_resource(bucket: str) -> str:
    """A bucket's full resource name, as its policy carries it."""
    return f"projects/_/buckets/{bucket}"


def initial_bindings(project: str) -> list[JsonObject]:
    """The bindings of a new bucket of ``project``: its owners, editors and viewers."""
    owners = [f"projectEditor:{project}", f"projectOwner:{project}"]
    viewers = [f"projectViewer:{project}"]
    return [
        {"role": "roles/storage.legacyBucketOwner", "members": [*owners]},
        {"role": "roles/storage.legacyBucketReader", "members": [*viewers]},
        {"role": "roles/storage.legacyObjectOwner", "members": [*owners]},
        {"role": "roles/storage.legacyObjectReader", "members": [*viewers]},
    ]
