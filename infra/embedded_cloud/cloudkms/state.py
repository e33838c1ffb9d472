"""Key rings, keys and their versions. No HTTP.

Google deletes no key ring and no key; only a version's material is destroyed, 30 days after it was
asked for (https://cloud.google.com/kms/docs/destroy-restore).
"""

from __future__ import annotations

import re

from embedded_cloud.clock import Clock, parse_duration, rfc3339
from embedded_cloud.errors import (
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.store import Store

RINGS = "cloudkms/keyRings"
KEYS = "cloudkms/cryptoKeys"
#: They belong to their key: no items of the inventory.
VERSIONS = "_cloudkms/cryptoKeyVersions"

_ID = re.compile(r"[a-zA-Z0-9_-]{1,63}")
_ALGORITHM = "GOOGLE_SYMMETRIC_ENCRYPTION"
_DESTROYED_AFTER = "2592000s"
_SHORTEST_ROTATION_S = 86_400


class Keys:
    """The key rings and keys of all projects, by full name."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def ring(self, name: str) -> JsonObject:
        """The key ring with that name. Raises CloudError 404."""
        return self._require(RINGS, name, "KeyRing")

    def key(self, name: str) -> JsonObject:
        """The key with that name, its primary version in it. Raises CloudError 404."""
        key = self._require(KEYS, name, "CryptoKey")
        primary = self._store.get(VERSIONS, f"{name}/cryptoKeyVersions/1")
        return {**key, "primary": primary} if primary is not None else key

    def version(self, name: str) -> JsonObject:
        """The version with that name. Raises CloudError 404."""
        return self._require(VERSIONS, name, "CryptoKeyVersion")

    def rings(self, parent: str) -> list[JsonObject]:
        """The key rings of a location."""
        return [value for _, value in self._store.list(RINGS, f"{parent}/keyRings/")]

    def keys(self, ring: str) -> list[JsonObject]:
        """The keys of a ring."""
        return [self.key(name) for name, _ in self._store.list(KEYS, f"{ring}/cryptoKeys/")]

    def versions(self, key: str) -> list[JsonObject]:
        """The versions of a key."""
        return [value for _, value in self._store.list(VERSIONS, f"{key}/cryptoKeyVersions/")]

    def create_ring(self, parent: str, id_: str) -> JsonObject:
        """A new key ring. Raises CloudError 400 or 409."""
        name = f"{parent}/keyRings/{_checked(id_, 'key_ring_id')}"
        if self._store.get(RINGS, name) is not None:
            raise already_exists(f"KeyRing {name} already exists.")
        made: JsonObject = {"name": name, "createTime": rfc3339(self._clock.now())}
        self._store.put(RINGS, name, made)
        return made

    def create(self, ring: str, id_: str, asked: JsonObject, *, version: bool) -> JsonObject:
        """A new symmetric key in ``ring``, with its first version unless told otherwise.

        Raises:
            CloudError: 400, a field is not allowed; 404, there is no ring; 409, the name is taken.
        """
        self.ring(ring)
        name = f"{ring}/cryptoKeys/{_checked(id_, 'crypto_key_id')}"
        if self._store.get(KEYS, name) is not None:
            raise already_exists(f"CryptoKey {name} already exists.")
        if text(asked, "purpose") != "ENCRYPT_DECRYPT":
            raise invalid_argument("CryptoKey.purpose: only ENCRYPT_DECRYPT is emulated.")
        self._check_rotation(asked)
        now = rfc3339(self._clock.now())
        made: JsonObject = {
            "versionTemplate": {"protectionLevel": "SOFTWARE", "algorithm": _ALGORITHM},
            "destroyScheduledDuration": _DESTROYED_AFTER,
            **asked,
            "name": name,
            "createTime": now,
        }
        self._store.put(KEYS, name, made)
        if version:
            first: JsonObject = {
                "name": f"{name}/cryptoKeyVersions/1",
                "state": "ENABLED",
                "protectionLevel": "SOFTWARE",
                "algorithm": _ALGORITHM,
                "createTime": now,
                "generateTime": now,
            }
            self._store.put(VERSIONS, text(first, "name"), first)
        return self.key(name)

    def amend(self, name: str, changes: JsonObject) -> JsonObject:
        """The key with ``changes``; a null clears a field. Raises CloudError 400 or 404."""
        before = self._require(KEYS, name, "CryptoKey")
        merged: JsonObject = {**before, **changes}
        after: JsonObject = {key: value for key, value in merged.items() if value is not None}
        self._check_rotation(after)
        self._store.put(KEYS, name, after)
        return self.key(name)

    def destroy(self, name: str) -> JsonObject:
        """Schedule a version's destruction. Raises CloudError 400 or 404."""
        version = self.version(name)
        if text(version, "state") != "ENABLED":
            raise failed_precondition(f"{name} is not enabled or disabled.")
        key = self._require(KEYS, name.partition("/cryptoKeyVersions/")[0], "CryptoKey")
        wait = parse_duration(text(key, "destroyScheduledDuration"))
        after: JsonObject = {
            **version,
            "state": "DESTROY_SCHEDULED",
            "destroyTime": rfc3339(self._clock.now() + wait),
        }
        self._store.put(VERSIONS, name, after)
        return after

    def _check_rotation(self, asked: JsonObject) -> None:
        period = text(asked, "rotationPeriod")
        if period and parse_duration(period) < _SHORTEST_ROTATION_S:
            raise invalid_argument("CryptoKey.rotation_period: must be at least 24 hours.")
        if bool(period) != bool(text(asked, "nextRotationTime")):
            raise invalid_argument(
                "CryptoKey.rotation_period and CryptoKey.next_rotation_time must both be set, or "
                "neither."
            )

    def _require(self, collection: str, name: str, kind: str) -> JsonObject:
        found = self._store.get(collection, name)
        if found is None:
            raise not_found(f"{kind} {name} not found.")
        return found


def _checked(id_: str, field: str) -> str:
    if not _ID.fullmatch(id_):
        raise invalid_argument(f"{field}: {id_!r} does not match [a-zA-Z0-9_-]{{1,63}}.")
    return id_
