"""Cloud Key Management Service API v1: key rings and symmetric keys. Nothing is encrypted.

Google deletes no key ring and no key; only a version's material is destroyed, 30 days after it was
asked for (https://cloud.google.com/kms/docs/destroy-restore).
"""

from __future__ import annotations

import re

from embedded_cloud.core.clock import Clock, parse_duration, rfc3339
from embedded_cloud.core.errors import (
    CloudError,
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import require
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store
from embedded_cloud.services.iam.policies import Policies

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


_PAGING = Paging(default=100, maximum=1000)
_SETTABLE = frozenset(
    {
        "purpose",
        "labels",
        "rotationPeriod",
        "nextRotationTime",
        "versionTemplate",
        "destroyScheduledDuration",
    }
)
_PATCHABLE = frozenset({"labels", "rotationPeriod", "nextRotationTime", "versionTemplate"})


class KeyHandlers:
    """Handlers of ``projects.locations.keyRings`` and what is in them."""

    def __init__(self, keys: Keys, policies: Policies) -> None:
        self._keys = keys
        self._policies = policies

    def create_ring(self, call: Call) -> Reply:
        """POST …/keyRings."""
        return Reply(body=self._keys.create_ring(_place(call), call.query.get("keyRingId", "")))

    def get_ring(self, call: Call) -> Reply:
        """GET …/keyRings/{keyRing}."""
        return Reply(body=self._keys.ring(_ring(call)))

    def list_rings(self, call: Call) -> Reply:
        """GET …/keyRings."""
        return _PAGING.resources(call, "keyRings", self._keys.rings(_place(call)))

    def get_ring_policy(self, call: Call) -> Reply:
        """GET …/keyRings/{keyRing}:getIamPolicy."""
        return Reply(body=self._policies.get(text(self._keys.ring(_ring(call)), "name")))

    def set_ring_policy(self, call: Call) -> Reply:
        """POST …/keyRings/{keyRing}:setIamPolicy."""
        name = text(self._keys.ring(_ring(call)), "name")
        return Reply(body=self._policies.set(name, child(call.body or {}, "policy"), public=False))

    def create(self, call: Call) -> Reply:
        """POST …/cryptoKeys."""
        asked = {key: value for key, value in (call.body or {}).items() if key in _SETTABLE}
        skipped = call.query.get("skipInitialVersionCreation", "").lower() == "true"
        id_ = call.query.get("cryptoKeyId", "")
        return Reply(body=self._keys.create(_ring(call), id_, asked, version=not skipped))

    def get(self, call: Call) -> Reply:
        """GET …/cryptoKeys/{cryptoKey}."""
        return Reply(body=self._keys.key(_key(call)))

    def list(self, call: Call) -> Reply:
        """GET …/cryptoKeys."""
        return _PAGING.resources(call, "cryptoKeys", self._keys.keys(_ring(call)))

    def patch(self, call: Call) -> Reply:
        """PATCH …/cryptoKeys/{cryptoKey}: only what updateMask names changes."""
        sent = call.body or {}
        mask = [path.partition(".")[0] for path in call.query.get("updateMask", "").split(",")]
        if not _PATCHABLE.issuperset(mask):
            raise invalid_argument(f"update_mask may name {', '.join(sorted(_PATCHABLE))} only.")
        changes: JsonObject = {key: sent.get(key) for key in mask}
        return Reply(body=self._keys.amend(_key(call), changes))

    def get_policy(self, call: Call) -> Reply:
        """GET …:getIamPolicy."""
        return Reply(body=self._policies.get(text(self._keys.key(_key(call)), "name")))

    def set_policy(self, call: Call) -> Reply:
        """POST …:setIamPolicy."""
        name = text(self._keys.key(_key(call)), "name")
        return Reply(body=self._policies.set(name, child(call.body or {}, "policy"), public=False))

    def list_versions(self, call: Call) -> Reply:
        """GET …/cryptoKeyVersions."""
        return _PAGING.resources(call, "cryptoKeyVersions", self._keys.versions(_key(call)))

    def get_version(self, call: Call) -> Reply:
        """GET …/cryptoKeyVersions/{cryptoKeyVersion}."""
        return Reply(body=self._keys.version(_version(call)))

    def destroy_version(self, call: Call) -> Reply:
        """POST …:destroy."""
        return Reply(body=self._keys.destroy(_version(call)))


def _place(call: Call) -> str:
    return f"projects/{require(call.params['project'])}/locations/{call.params['location']}"


def _ring(call: Call) -> str:
    return f"{_place(call)}/keyRings/{call.params['keyRing']}"


def _key(call: Call) -> str:
    return f"{_ring(call)}/cryptoKeys/{call.params['cryptoKey']}"


def _version(call: Call) -> str:
    return f"{_key(call)}/cryptoKeyVersions/{call.params['cryptoKeyVersion']}"


def service(context: Context) -> Service:
    """Cloud KMS: key rings, keys, their versions and their policies."""
    policies = Policies(context.store, context.clock, context.strictness)
    keys = KeyHandlers(Keys(context.store, context.clock), policies)
    rings = "cloudkms.projects.locations.keyRings"
    return Service(
        name="cloudkms",
        version="v1",
        handlers={
            f"{rings}.create": keys.create_ring,
            f"{rings}.list": keys.list_rings,
            f"{rings}.get": keys.get_ring,
            f"{rings}.getIamPolicy": keys.get_ring_policy,
            f"{rings}.setIamPolicy": keys.set_ring_policy,
            f"{rings}.cryptoKeys.create": keys.create,
            f"{rings}.cryptoKeys.list": keys.list,
            f"{rings}.cryptoKeys.get": keys.get,
            f"{rings}.cryptoKeys.patch": keys.patch,
            f"{rings}.cryptoKeys.getIamPolicy": keys.get_policy,
            f"{rings}.cryptoKeys.setIamPolicy": keys.set_policy,
            f"{rings}.cryptoKeys.cryptoKeyVersions.list": keys.list_versions,
            f"{rings}.cryptoKeys.cryptoKeyVersions.get": keys.get_version,
            f"{rings}.cryptoKeys.cryptoKeyVersions.destroy": keys.destroy_version,
        },
    )
