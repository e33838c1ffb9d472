"""The record of how strict the cloud is now, in its store, and the presets that a user names.

What there is to be strict about: :mod:`embedded_cloud.core.strictness`.
"""

from __future__ import annotations

import dataclasses

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import (
    LENIENT,
    Apis,
    Compute,
    GuestAttributes,
    Hosts,
    Network,
    Registry,
    ServiceAccounts,
    Strictness,
    Tokens,
)
from embedded_cloud.machines import namespace

#: As Google was seen to be, or says that it is, in every area. Those that are not named take away
#: what a usual project has, so they stay as they are: billing, permissions, policies, docker; and
#: `iam`, which lets only owners in until a role is granted.
STRICT = Strictness(
    apis=Apis(enforced=True, bare_projects=True, answers_after_s=60),
    compute=Compute(operation_s=4),
    guest_attributes=GuestAttributes(
        empty_values=False,
        unknown_answers_404=True,
        queries_per_minute=10,
        queries_per_second=3,
    ),
    hosts=Hosts(own_mounts=True, shm_bytes=88_000_000_000, secure_boot_boots=False),
    network=Network(private_addresses=True),
    # 100 in six hours from one address (https://docs.docker.com/docker-hub/usage/).
    registry=Registry(token_required=True, anonymous_pulls_per_hour=16),
    service_accounts=ServiceAccounts(known_after_s=5, nodes_know_after_s=60),
    tokens=Tokens(quota_project_required=True, credentials="user"),
)

#: The presets by the name that a user types.
PRESETS = {"lenient": LENIENT, "strict": STRICT}

_COLLECTION = "_emulator"
_KEY = "strictness"


class StrictnessBook:
    """The strictness in force, and the preset that a reset returns to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[JsonObject, Strictness] = ({}, LENIENT)

    def current(self) -> Strictness:
        """What is in force."""
        stored = self._store.get(_COLLECTION, _KEY)
        if stored is None:
            return LENIENT
        # Read at every call and hardly ever set: parsed again only when it has changed.
        previous, strictness = self._read
        if stored != previous:
            strictness = Strictness.from_json(child(stored, "rules"))
            self._read = (stored, strictness)
        return strictness

    @property
    def preset(self) -> str:
        """The preset that a reset of the cloud returns to."""
        return text(self._store.get(_COLLECTION, _KEY) or {}, "preset", "lenient")

    def change(self, change: JsonObject) -> Strictness:
        """Apply a JSON merge patch to what is in force.

        Raises:
            CloudError: 400 naming what is not understood, or what this machine cannot do; nothing
                has changed then.
        """
        changed = self.current().merged(change)
        if changed.hosts.own_mounts and (reason := namespace.refusal()):
            raise invalid_argument(
                f"strictness: hosts.own_mounts: this machine gives its user none ({reason})"
            )
        self._put(self.preset, changed)
        return changed

    def use(self, preset: str) -> Strictness:
        """Put one of :data:`PRESETS` in force, as far as this machine can do it."""
        used = PRESETS[preset]
        if used.hosts.own_mounts and namespace.refusal():
            used = dataclasses.replace(
                used, hosts=dataclasses.replace(used.hosts, own_mounts=False)
            )
        self._put(preset, used)
        return used

    def _put(self, preset: str, strictness: Strictness) -> None:
        self._store.put(_COLLECTION, _KEY, {"preset": preset, "rules": strictness.to_json()})
