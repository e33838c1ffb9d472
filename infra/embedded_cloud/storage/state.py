"""The state of the emulated Cloud Storage, for its handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.cloudkms import KeyUse
from embedded_cloud.iam.policies import Policies
from embedded_cloud.json_types import JsonObject
from embedded_cloud.routing import Context, Rights
from embedded_cloud.storage.buckets import Buckets
from embedded_cloud.storage.content import ContentFiles
from embedded_cloud.storage.keys import BucketKeys
from embedded_cloud.storage.objects import Objects
from embedded_cloud.storage.uploads import Uploads
from embedded_cloud.store import Store

_MARKS = "_storage/marks"


@dataclass(frozen=True, slots=True)
class StorageState:
    """Buckets, objects, uploads, policies and the files that hold their bytes.

    Attributes:
        base_url: the emulator's address, for links in answers.
        project_number: project id -> number.
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
    project_number: Callable[[str], str]
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
            project_number=context.project_number,
            keys=BucketKeys(KeyUse(context), context.project_number),
        )

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
