"""Secrets, versions and payloads. No HTTP.

A payload lives in its own bookkeeping collection, so that neither an inventory nor a
listing can ever show one; it is deleted when its version is destroyed.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import google_crc32c

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import (
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.store import Store
from embedded_cloud.services.secretmanager.records import (
    Secret,
    SecretKeys,
    Version,
    VersionState,
    keys_of,
    without_keys,
)

SECRETS = "secretmanager/secrets"
VERSIONS = "secretmanager/versions"
_PAYLOADS = "_secretmanager/payloads"

MAX_PAYLOAD_BYTES = 64 * 1024
LATEST = "latest"

_SECRET_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")


class Secrets:
    """All secrets of all projects; projects are named by their number here."""

    def __init__(self, store: Store, clock: Clock, keys: SecretKeys) -> None:
        self._store = store
        self._clock = clock
        self._keys = keys

    def all(self, project: str) -> list[Secret]:
        """The secrets of ``project``, by name."""
        self.settle()
        stored = self._store.list(SECRETS, f"projects/{project}/secrets/")
        return [Secret.from_json(value) for _, value in stored]

    def require(self, project: str, secret_id: str) -> Secret:
        """The secret. Raises CloudError 404."""
        self.settle()
        name = f"projects/{project}/secrets/{secret_id}"
        value = self._store.get(SECRETS, name)
        if value is None:
            raise not_found(f"Secret [{name}] not found.")
        return Secret.from_json(value)

    def create(
        self, project: str, secret_id: str, settings: JsonObject, expires: float | None
    ) -> Secret:
        """A new secret without versions.

        Raises:
            CloudError: 400, the id or a setting is not allowed; 409, the id is taken.
        """
        if not _SECRET_ID.fullmatch(secret_id):
            raise invalid_argument(
                "The provided Secret ID does not match the expected format [[a-zA-Z_0-9-]{1,255}]."
            )
        replication = child(settings, "replication")
        if len({"automatic", "userManaged"} & set(replication)) != 1:
            raise invalid_argument("The secret's replication policy is required.")
        self._keys.check_settings(project, replication)
        secret = Secret(project, secret_id, self._clock.now(), settings, expires)
        self._check(secret)
        self.settle()
        if self._store.get(SECRETS, secret.name):
            raise already_exists(f"Secret [{secret.name}] already exists.")
        self._put(secret)
        return secret

    def amend(self, secret: Secret, settings: JsonObject, expires: float | None) -> Secret:
        """Replace settings and expiry. Raises CloudError 400."""
        before, after = child(secret.settings, "replication"), child(settings, "replication")
        if without_keys(before) != without_keys(after):
            raise invalid_argument("The secret's replication policy cannot be changed.")
        if keys_of(before) != keys_of(after):
            self._keys.check_settings(secret.project, after)
        changed = replace(secret, settings=settings, expires=expires, revision=secret.revision + 1)
        self._check(changed)
        self._put(changed)
        return changed

    def delete(self, secret: Secret) -> None:
        """Delete the secret with all its versions and payloads."""
        for collection in (VERSIONS, _PAYLOADS):
            for key, _ in self._store.list(collection, f"{secret.name}/"):
                self._store.delete(collection, key)
        self._store.delete(SECRETS, secret.name)

    def versions(self, secret: Secret) -> list[Version]:
        """All versions, the newest first."""
        stored = self._store.list(VERSIONS, f"{secret.name}/versions/")
        return [Version.from_json(value) for _, value in reversed(stored)]

    def require_version(self, secret: Secret, wanted: str) -> Version:
        """A version by number, or as ``latest``: the newest, in any state.

        Raises:
            CloudError: 404.
        """
        number = str(secret.last_version) if wanted == LATEST else wanted
        if wanted == LATEST and not secret.last_version:
            raise not_found(f"Secret [{secret.name}] not found or has no versions.")
        if not number.isdecimal():
            raise not_found(f"Secret Version Alias [{secret.name}/versions/{wanted}] not found.")
        value = self._store.get(VERSIONS, f"{secret.name}/versions/{int(number):09d}")
        if value is None:
            raise not_found(f"Secret Version [{secret.name}/versions/{wanted}] not found.")
        return Version.from_json(value)

    def add(self, secret: Secret, payload: bytes, crc32c: int | None) -> Version:
        """A new version, enabled.

        Raises:
            CloudError: 400, the payload is too large or does not match its checksum.
        """
        if not payload:
            raise invalid_argument("The secret payload must not be empty.")
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise invalid_argument(
                f"The secret payload has {len(payload)} bytes; the limit is {MAX_PAYLOAD_BYTES}."
            )
        if crc32c is not None and crc32c != google_crc32c.value(payload):
            raise invalid_argument(
                "The provided CRC32C checksum does not match the secret payload: "
                "it was corrupted on its way."
            )
        number = secret.last_version + 1
        version = Version(
            secret.name,
            number,
            self._clock.now(),
            checksummed=crc32c is not None,
            keys=self._keys.encrypting(secret),
        )
        encoded = base64.b64encode(payload).decode()
        self._store.put(_PAYLOADS, version.key, {"data": encoded})
        self._put_version(version)
        self._put(replace(secret, last_version=number))
        return version

    def access(self, secret: Secret, version: Version) -> bytes:
        """The payload. Raises CloudError 400 FAILED_PRECONDITION unless it is enabled and can be
        decrypted."""
        value = self._store.get(_PAYLOADS, version.key)
        if version.state is not VersionState.ENABLED or value is None:
            raise failed_precondition(
                f"Secret Version [{version.name}] is in {version.state} state."
            )
        self._keys.check_readable(secret, version)
        return base64.b64decode(text(value, "data"))

    def set_enabled(self, version: Version, enabled: bool) -> Version:
        """Enable or disable. Raises CloudError 400 for a destroyed version."""
        _check_not_destroyed(version)
        return self._put_version(
            replace(
                version,
                state=VersionState.ENABLED if enabled else VersionState.DISABLED,
                revision=version.revision + 1,
            )
        )

    def destroy(self, version: Version) -> Version:
        """Destroy irrevocably.

        Raises:
            CloudError: 400, it is destroyed already.
        """
        _check_not_destroyed(version)
        self._store.delete(_PAYLOADS, version.key)
        return self._put_version(
            replace(
                version,
                state=VersionState.DESTROYED,
                destroyed=self._clock.now(),
                revision=version.revision + 1,
            )
        )

    def settle(self) -> None:
        """Delete the secrets that have expired."""
        now = self._clock.now()
        for _, value in self._store.list(SECRETS):
            secret = Secret.from_json(value)
            if secret.expires is not None and secret.expires <= now:
                self.delete(secret)

    def _check(self, secret: Secret) -> None:
        if secret.expires is not None and secret.expires <= self._clock.now():
            raise invalid_argument("The secret's expiration must be in the future.")
        if "rotation" in secret.settings and not secret.settings.get("topics"):
            raise invalid_argument("A secret with a rotation needs at least one topic.")

    def _put(self, secret: Secret) -> None:
        self._store.put(SECRETS, secret.name, secret.to_json())

    def _put_version(self, version: Version) -> Version:
        self._store.put(VERSIONS, version.key, version.to_json())
        return version


def _check_not_destroyed(version: Version) -> None:
    if version.state is VersionState.DESTROYED:
        raise failed_precondition(f"Secret Version [{version.name}] is in DESTROYED state.")
