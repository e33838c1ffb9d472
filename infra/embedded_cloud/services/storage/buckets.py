"""Buckets: names, settings and their rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from embedded_cloud.core.clock import Clock, parse_rfc3339, rfc3339_millis
from embedded_cloud.core.json_types import JsonObject, child, flag, merge, number, text
from embedded_cloud.core.store import Store
from embedded_cloud.services.compute.paths import REGIONS
from embedded_cloud.services.storage.errors import (
    Preconditions,
    bucket_not_found,
    conflict,
    held,
    invalid,
    retained,
)

COLLECTION = "storage/buckets"

#: Fields of the Bucket resource that a caller sets after creation.
SETTABLE = (
    "autoclass",
    "billing",
    "cors",
    "defaultEventBasedHold",
    "encryption",
    "iamConfiguration",
    "labels",
    "lifecycle",
    "logging",
    "retentionPolicy",
    "rpo",
    "softDeletePolicy",
    "storageClass",
    "versioning",
    "website",
)
#: Fields that the emulator cannot honour and so refuses.
REFUSED = (
    "acl",
    "defaultObjectAcl",
    "hierarchicalNamespace",
    "ipFilter",
    "objectRetention",
)
MULTI_REGIONS = ("ASIA", "EU", "US")
DUAL_REGIONS = ("ASIA1", "EUR4", "EUR5", "EUR7", "EUR8", "NAM4")
DEFAULT_SOFT_DELETE_S = 604_800
#: 100 years (https://docs.cloud.google.com/storage/docs/bucket-lock).
_LONGEST_RETENTION_S = 3_155_760_000

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket.

    Attributes:
        project: id of the project it belongs to.
        settings: the fields of ``SETTABLE``, complete with defaults.
        created, updated: epoch seconds.
    """

    name: str
    project: str
    location: str
    created: float
    updated: float
    generation: int
    metageneration: int = 1
    settings: JsonObject = field(default_factory=dict)

    @property
    def versioned(self) -> bool:
        """Overwritten and deleted objects stay as noncurrent generations."""
        return flag(child(self.settings, "versioning"), "enabled")

    @property
    def public_access_prevented(self) -> bool:
        """Bindings for allUsers and allAuthenticatedUsers are refused."""
        iam = child(self.settings, "iamConfiguration")
        return text(iam, "publicAccessPrevention") == "enforced"

    @property
    def retention_s(self) -> int:
        """Seconds for which an object can be neither deleted nor replaced; 0 without a policy."""
        return int(number(child(self.settings, "retentionPolicy"), "retentionPeriod"))

    def to_json(self) -> JsonObject:
        """For the store."""
        return {
            "name": self.name,
            "project": self.project,
            "location": self.location,
            "created": rfc3339_millis(self.created),
            "updated": rfc3339_millis(self.updated),
            "generation": str(self.generation),
            "metageneration": self.metageneration,
            "spec": self.settings,
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Bucket:
        """From the store."""
        return cls(
            name=text(value, "name"),
            project=text(value, "project"),
            location=text(value, "location"),
            created=parse_rfc3339(text(value, "created")),
            updated=parse_rfc3339(text(value, "updated")),
            generation=int(text(value, "generation")),
            metageneration=int(number(value, "metageneration")),
            settings=child(value, "spec"),
        )


class Buckets:
    """All buckets of all projects: one namespace, as on Google."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def all(self, project: str, prefix: str = "") -> list[Bucket]:
        """The buckets of ``project`` whose name starts with ``prefix``, by name."""
        every = (Bucket.from_json(value) for _, value in self._store.list(COLLECTION, prefix))
        return [each for each in every if each.project == project]

    def exists(self, name: str) -> bool:
        """Whether there is a bucket ``name``."""
        return self._store.get(COLLECTION, name) is not None

    def require(
        self, name: str, conditions: Preconditions | None = None, *, read: bool = True
    ) -> Bucket:
        """The bucket ``name``.

        Raises:
            CloudError: 404; 412, a metageneration condition does not hold.
            NotModified: a read's not-match condition holds.
        """
        value = self._store.get(COLLECTION, name)
        if value is None:
            raise bucket_not_found()
        bucket = Bucket.from_json(value)
        if conditions is not None:
            conditions.check(bucket.generation, bucket.metageneration, read=read)
        return bucket

    def create(self, project: str, body: JsonObject, generation: int) -> Bucket:
        """A new bucket from an insert's body.

        Raises:
            CloudError: 400, a value is not allowed; 409, the name is taken.
        """
        name = text(body, "name")
        check_name(name)
        if taken := self._store.get(COLLECTION, name):
            if text(taken, "project") == project:
                raise conflict(
                    "Your previous request to create the named bucket succeeded and you "
                    "already own it."
                )
            raise conflict(
                "The requested bucket name is not available. The bucket namespace is shared "
                "by all users of the system. Please select a different name and try again."
            )
        location = text(body, "location", "US").upper()
        location_type(location)
        now = self._clock.now()
        created = Bucket(name, project, location, now, now, generation)
        created = replace(created, settings=self._settings(created, body, {}))
        self._store.put(COLLECTION, name, created.to_json())
        return created

    def patch(self, bucket: Bucket, body: JsonObject) -> Bucket:
        """Merge ``body`` into the settings: null removes, objects merge field by field."""
        settings = merge({key: bucket.settings.get(key) for key in SETTABLE}, body)
        return self._change(bucket, settings, body)

    def update(self, bucket: Bucket, body: JsonObject) -> Bucket:
        """Replace all settings with those of ``body``; what is absent goes to its default."""
        return self._change(bucket, body, body)

    def lock_retention(self, bucket: Bucket) -> Bucket:
        """Lock the retention policy of ``bucket``, for good. Raises CloudError 400 without one."""
        policy = child(bucket.settings, "retentionPolicy")
        if not policy:
            raise invalid(f"Bucket '{bucket.name}' does not have a Retention Policy.")
        locked: JsonObject = {**bucket.settings, "retentionPolicy": {**policy, "isLocked": True}}
        return self._changed(bucket, locked)

    def delete(self, bucket: Bucket, *, empty: bool) -> None:
        """Delete ``bucket``. Raises CloudError 409 when it is not ``empty``."""
        if not empty:
            raise conflict("The bucket you tried to delete is not empty.")
        self._store.delete(COLLECTION, bucket.name)

    def _change(self, bucket: Bucket, settings: JsonObject, body: JsonObject) -> Bucket:
        if text(body, "location", bucket.location).upper() != bucket.location:
            raise invalid("The location of a bucket cannot be changed after it is created.")
        if text(body, "name", bucket.name) != bucket.name:
            raise invalid("The name of a bucket cannot be changed.")
        return self._changed(bucket, self._settings(bucket, settings, bucket.settings))

    def _changed(self, bucket: Bucket, settings: JsonObject) -> Bucket:
        changed = replace(
            bucket,
            settings=settings,
            metageneration=bucket.metageneration + 1,
            updated=self._clock.now(),
        )
        self._store.put(COLLECTION, bucket.name, changed.to_json())
        return changed

    def _settings(self, bucket: Bucket, body: JsonObject, before: JsonObject) -> JsonObject:
        """The settings that ``body`` asks for, with Google's defaults filled in."""
        now = rfc3339_millis(self._clock.now())
        kept: JsonObject = {key: value for key, value in body.items() if key in SETTABLE and value}
        kept["storageClass"] = text(body, "storageClass", "STANDARD")
        if location_type(bucket.location) != "region":
            kept["rpo"] = text(body, "rpo", "DEFAULT")
        else:
            kept.pop("rpo", None)
        kept["iamConfiguration"] = _iam_configuration(child(body, "iamConfiguration"), bucket)
        soft = child(body, "softDeletePolicy")
        seconds = int(number(soft, "retentionDurationSeconds", DEFAULT_SOFT_DELETE_S))
        if seconds and not 604_800 <= seconds <= 7_776_000:
            raise invalid("The soft delete retention duration must be 0 or between 7 and 90 days.")
        old = child(before, "softDeletePolicy")
        same = old.get("retentionDurationSeconds") == str(seconds)
        kept["softDeletePolicy"] = {
            "retentionDurationSeconds": str(seconds),
            "effectiveTime": old["effectiveTime"] if same else now,
        }
        kept.pop("retentionPolicy", None)
        old_policy, new_policy = (child(each, "retentionPolicy") for each in (before, body))
        if policy := _retention_policy(bucket.name, old_policy, new_policy, now):
            kept["retentionPolicy"] = policy
        return kept


def _retention_policy(name: str, old: JsonObject, new: JsonObject, now: str) -> JsonObject:
    """The retention policy of the bucket ``name`` after a change of the ``old`` one; empty for
    none.

    Raises:
        CloudError: 400, no such period; 403, it is locked and would be shortened or removed. The
            words are those that the tests of gsutil and of a client in public expect.
    """
    locked = flag(old, "isLocked")
    if not new:
        if locked:
            raise retained(
                f"Bucket '{name}' has a locked Retention Policy which cannot be removed."
            )
        return {}
    seconds = int(number(new, "retentionPeriod"))
    if not 0 < seconds <= _LONGEST_RETENTION_S:
        raise invalid("The retention period must be between 1 second and 100 years.")
    if locked and seconds < int(number(old, "retentionPeriod")):
        raise held(
            f"Cannot reduce retention duration of a locked Retention Policy for bucket '{name}'."
        )
    same = old.get("retentionPeriod") == str(seconds)
    policy: JsonObject = {
        "retentionPeriod": str(seconds),
        "effectiveTime": old["effectiveTime"] if same else now,
    }
    return {**policy, "isLocked": True} if locked else policy


def _iam_configuration(sent: JsonObject, bucket: Bucket) -> JsonObject:
    uniform_field = child(sent, "uniformBucketLevelAccess") or child(sent, "bucketPolicyOnly")
    uniform: JsonObject = {"enabled": flag(uniform_field, "enabled")}
    if uniform["enabled"]:
        # After 90 days uniform access can no longer be turned off.
        uniform["lockedTime"] = rfc3339_millis(bucket.created + 90 * 86_400)
    prevention = text(sent, "publicAccessPrevention", "inherited")
    if prevention not in ("inherited", "enforced", "unspecified"):
        raise invalid(f"Invalid value for publicAccessPrevention: {prevention}")
    return {
        "bucketPolicyOnly": dict(uniform),
        "uniformBucketLevelAccess": uniform,
        "publicAccessPrevention": "inherited" if prevention == "unspecified" else prevention,
    }


def location_type(location: str) -> str:
    """``region``, ``dual-region`` or ``multi-region``. Raises CloudError 400 for others."""
    if location in MULTI_REGIONS:
        return "multi-region"
    if location in DUAL_REGIONS:
        return "dual-region"
    if location.lower() in REGIONS:
        return "region"
    raise invalid("The specified location constraint is not valid.")


def check_name(name: str) -> None:
    """Cloud Storage's rules for bucket names. Raises CloudError 400.

    https://cloud.google.com/storage/docs/buckets#naming
    """
    limit = 222 if "." in name else 63
    wrong = (
        not 3 <= len(name) <= limit
        or not _NAME.fullmatch(name)
        or any(not part or len(part) > 63 for part in name.split("."))
        or re.fullmatch(r"\d+\.\d+\.\d+\.\d+", name)
        or name.startswith("goog")
        or "google" in name
    )
    if wrong:
        raise invalid(f"Invalid bucket name: '{name}'")
