"""Objects: generations, live and noncurrent, and the rules for changing them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from embedded_cloud.core.clock import Clock, parse_rfc3339, rfc3339, rfc3339_millis
from embedded_cloud.core.json_types import JsonObject, child, flag, number, text
from embedded_cloud.core.store import Store
from embedded_cloud.services.storage import buckets
from embedded_cloud.services.storage.buckets import Bucket
from embedded_cloud.services.storage.content import ContentFiles, Digest
from embedded_cloud.services.storage.errors import (
    Preconditions,
    held,
    invalid,
    object_not_found,
    retained,
)

COLLECTION = "storage/objects"
_COUNTERS = "_storage/counters"

#: Fields of the Object resource that a caller sets.
SETTABLE = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "contexts",
    "customTime",
    "eventBasedHold",
    "metadata",
    "storageClass",
    "temporaryHold",
)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One generation of an object.

    Attributes:
        content: name of its bytes in :class:`ContentFiles`.
        settable: the fields a caller set (``SETTABLE``).
        created, updated, deleted: epoch seconds; ``deleted`` is set on a noncurrent one.
        kms_key: name of the version of a key of the user's that has encrypted it; may be empty.
    """

    bucket: str
    name: str
    generation: int
    content: str
    digest: Digest
    created: float
    updated: float
    metageneration: int = 1
    deleted: float | None = None
    settable: JsonObject = field(default_factory=dict)
    kms_key: str = ""

    @property
    def key(self) -> str:
        """Bucket, name and generation in gsutil's spelling."""
        return f"{self.bucket}/{self.name}#{self.generation}"

    @property
    def order(self) -> str:
        """What a list is sorted by: name, then generation."""
        return f"{self.name}\0{self.generation:020d}"

    def to_json(self) -> JsonObject:
        """For the store; with times as text, for people who read the inventory."""
        return {
            "bucket": self.bucket,
            "name": self.name,
            "generation": str(self.generation),
            "metageneration": self.metageneration,
            "content": self.content,
            "size": self.digest.size,
            "crc32c": self.digest.crc32c,
            "md5Hash": self.digest.md5,
            "created": rfc3339_millis(self.created),
            "updated": rfc3339_millis(self.updated),
            "deleted": None if self.deleted is None else rfc3339_millis(self.deleted),
            "settable": self.settable,
            **({"kmsKey": self.kms_key} if self.kms_key else {}),
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> StoredObject:
        """From the store."""
        deleted = text(value, "deleted")
        return cls(
            bucket=text(value, "bucket"),
            name=text(value, "name"),
            generation=int(text(value, "generation")),
            metageneration=int(number(value, "metageneration")),
            content=text(value, "content"),
            digest=Digest(
                int(number(value, "size")), text(value, "crc32c"), text(value, "md5Hash")
            ),
            created=parse_rfc3339(text(value, "created")),
            updated=parse_rfc3339(text(value, "updated")),
            deleted=parse_rfc3339(deleted) if deleted else None,
            settable=child(value, "settable"),
            kms_key=text(value, "kmsKey"),
        )


def live_object(store: Store, bucket: str, name: str) -> StoredObject | None:
    """The object ``name`` as it is now; None if there is none."""
    for _, value in reversed(store.list(COLLECTION, f"{bucket}/{name}#")):
        stored = StoredObject.from_json(value)
        # A name may hold a "#" itself.
        if stored.name == name and stored.deleted is None:
            return stored
    return None


class Objects:
    """All objects of all buckets. The caller checks that the bucket exists."""

    def __init__(self, store: Store, clock: Clock, files: ContentFiles) -> None:
        self._store = store
        self._clock = clock
        self.files = files

    def all(self, bucket: str, *, prefix: str = "", versions: bool = False) -> list[StoredObject]:
        """Objects by name, then generation; noncurrent ones only with ``versions``."""
        objects = [
            StoredObject.from_json(value)
            for _, value in self._store.list(COLLECTION, f"{bucket}/{prefix}")
        ]
        return sorted(
            (each for each in objects if versions or each.deleted is None),
            key=lambda each: each.order,
        )

    def find(self, bucket: str, name: str, generation: int | None = None) -> StoredObject | None:
        """The live object, or exactly the generation asked for."""
        if generation is not None:
            value = self._store.get(COLLECTION, f"{bucket}/{name}#{generation}")
            return StoredObject.from_json(value) if value else None
        return live_object(self._store, bucket, name)

    def require(
        self,
        bucket: str,
        name: str,
        generation: int | None = None,
        conditions: Preconditions | None = None,
        *,
        read: bool = True,
    ) -> StoredObject:
        """The object asked for, in the state the caller expects.

        Raises:
            CloudError: 404; 412.
            NotModified: a read's not-match condition holds.
        """
        stored = self.find(bucket, name, generation)
        if stored is None:
            if conditions is not None and not read:
                conditions.check(0, 0, read=read)
            raise object_not_found(bucket, name)
        if conditions is not None:
            conditions.check(stored.generation, stored.metageneration, read=read)
        return stored

    def check_absent_or(self, bucket: str, name: str, conditions: Preconditions) -> None:
        """Check a write's conditions against the live object. Raises CloudError 412."""
        live = self.find(bucket, name)
        generation = live.generation if live else 0
        conditions.check(generation, live.metageneration if live else 0, read=False)

    def create(
        self,
        bucket: str,
        name: str,
        *,
        content: str,
        digest: Digest,
        settable: JsonObject,
        versioned: bool,
        kms_key: str = "",
    ) -> StoredObject:
        """Make ``content`` the live generation of ``name``. The caller has checked the conditions.

        Raises:
            CloudError: 400, the name is not allowed; 403, the live object is held or retained.
        """
        check_name(name)
        now = self._clock.now()
        live = self.find(bucket, name)
        if live:
            self._check_removable(live)
        created = StoredObject(
            bucket=bucket,
            name=name,
            generation=self.next_generation(),
            content=content,
            digest=digest,
            created=now,
            updated=now,
            settable=settable,
            kms_key=kms_key,
        )
        # New before old: after a crash in between, the name has its new bytes.
        self._put(created)
        if live:
            self.remove(live, versioned=versioned)
        return created

    def remove(self, live: StoredObject, *, versioned: bool) -> None:
        """Delete a live object: for good, or into a noncurrent generation when versioned.

        Raises:
            CloudError: 403, the object is held or retained.
        """
        self._check_removable(live)
        if versioned and live.deleted is None:
            self._put(replace(live, deleted=self._clock.now()))
            return
        self._store.delete(COLLECTION, live.key)
        self.files.remove(live.content)

    def amend(self, stored: StoredObject, settable: JsonObject) -> StoredObject:
        """Replace the settable fields; the metageneration moves on by one."""
        amended = replace(
            stored,
            settable=settable,
            metageneration=stored.metageneration + 1,
            updated=self._clock.now(),
        )
        self._put(amended)
        return amended

    def next_generation(self) -> int:
        """The present time in microseconds, but always above every number given before."""
        last = int(number(self._store.get(_COUNTERS, "generation") or {}, "last"))
        generation = max(last + 1, int(self._clock.now() * 1_000_000))
        self._store.put(_COUNTERS, "generation", {"last": str(generation)})
        return generation

    def contents(self) -> set[str]:
        """Names of the content of all generations."""
        return {text(value, "content") for _, value in self._store.list(COLLECTION)}

    def kept_until(self, stored: StoredObject) -> float | None:
        """When the retention policy of its bucket lets ``stored`` go, in epoch seconds; None where
        there is none, or a hold has put that off."""
        value = self._store.get(buckets.COLLECTION, stored.bucket)
        period = Bucket.from_json(value).retention_s if value else 0
        if not period or flag(stored.settable, "eventBasedHold"):
            return None
        return stored.created + period

    def _check_removable(self, stored: StoredObject) -> None:
        """Check that neither a hold nor the bucket's retention policy keeps ``stored``.

        Raises:
            CloudError: 403, it is kept. The words are as measured on 2026-09-30
                (https://cloud.google.com/storage/docs/bucket-lock,
                https://cloud.google.com/storage/docs/object-holds).
        """
        name = f"Object '{stored.bucket}/{stored.name}'"
        for hold, word in (("temporaryHold", "Temporary"), ("eventBasedHold", "Event-Based")):
            if flag(stored.settable, hold):
                raise held(
                    f"{name} is under active {word} hold and cannot be deleted, overwritten or"
                    " archived until hold is removed."
                )
        until = self.kept_until(stored)
        if until is not None and self._clock.now() < until:
            raise retained(
                f"{name} is subject to bucket's retention policy or object retention and cannot be"
                f" deleted or overwritten until {rfc3339(until)}"
            )

    def _put(self, each: StoredObject) -> None:
        self._store.put(COLLECTION, each.key, each.to_json())


def check_name(name: str) -> None:
    """Cloud Storage's rules for object names. Raises CloudError 400.

    https://cloud.google.com/storage/docs/objects#naming
    """
    if not name:
        raise invalid("Required parameter: name")
    if len(name.encode()) > 1024:
        raise invalid("The specified object name is too long.")
    if name in (".", "..") or name.startswith(".well-known/acme-challenge/"):
        raise invalid(f"Invalid object name: '{name}'")
    if "\r" in name or "\n" in name:
        raise invalid(f"Invalid object name: '{name}'")
