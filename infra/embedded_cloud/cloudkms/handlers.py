"""HTTP calls on key rings and keys turned into calls on the state."""

from __future__ import annotations

from embedded_cloud.cloudkms.state import Keys
from embedded_cloud.errors import invalid_argument
from embedded_cloud.iam.policies import Policies
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.paging import Paging
from embedded_cloud.resourcemanager.state import require
from embedded_cloud.routing import Call, Reply

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
