"""Secrets and their versions as the store keeps them.

https://cloud.google.com/secret-manager/docs/cmek
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from embedded_cloud.core.errors import failed_precondition, invalid_argument
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    flag,
    number,
    string_map,
    text,
)
from embedded_cloud.services.cloudkms import DECRYPT, ENCRYPT, KeyUse, location_of, secrets_agent


class VersionState(StrEnum):
    """States of a secret version."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret: a name with settings. Payloads belong to its versions.

    Attributes:
        project: the project's number, as Google's names carry it.
        settings: the fields of the Secret resource that a caller sets (labels,
            replication, topics…), without ttl and expireTime.
        created, expires: epoch seconds; ``expires`` is None for one that stays.
        last_version: number of the newest version ever added; 0 before the first.
    """

    project: str
    secret_id: str
    created: float
    settings: JsonObject = field(default_factory=dict)
    expires: float | None = None
    last_version: int = 0
    revision: int = 1

    @property
    def name(self) -> str:
        """Full resource name."""
        return f"projects/{self.project}/secrets/{self.secret_id}"

    def to_json(self) -> JsonObject:
        """For the store."""
        return {
            "project": self.project,
            "secretId": self.secret_id,
            "created": self.created,
            "labels": child(self.settings, "labels"),
            "settings": self.settings,
            "expires": self.expires,
            "lastVersion": self.last_version,
            "revision": self.revision,
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Secret:
        """From the store."""
        return cls(
            project=text(value, "project"),
            secret_id=text(value, "secretId"),
            created=number(value, "created"),
            settings=child(value, "settings"),
            expires=number(value, "expires") or None,
            last_version=int(number(value, "lastVersion")),
            revision=int(number(value, "revision")),
        )


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a secret. Its payload is kept apart and is not part of this.

    Attributes:
        destroyed: epoch seconds of the destruction.
        checksummed: the caller sent the payload's CRC32C with it.
        keys: by location the version of a key of the user's that has encrypted it.
    """

    secret: str
    number: int
    created: float
    state: VersionState = VersionState.ENABLED
    destroyed: float | None = None
    checksummed: bool = False
    revision: int = 1
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Full resource name."""
        return f"{self.secret}/versions/{self.number}"

    @property
    def key(self) -> str:
        """The name with a number that sorts as text."""
        return f"{self.secret}/versions/{self.number:09d}"

    def to_json(self) -> JsonObject:
        """For the store."""
        return {
            "secret": self.secret,
            "number": self.number,
            "created": self.created,
            "state": self.state.value,
            "destroyed": self.destroyed,
            "checksummed": self.checksummed,
            "revision": self.revision,
            **({"keys": dict(self.keys)} if self.keys else {}),
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Version:
        """From the store."""
        return cls(
            secret=text(value, "secret"),
            number=int(number(value, "number")),
            created=number(value, "created"),
            state=VersionState(text(value, "state")),
            destroyed=number(value, "destroyed") or None,
            checksummed=flag(value, "checksummed"),
            revision=int(number(value, "revision")),
            keys=string_map(value, "keys"),
        )


_GLOBAL = "global"


def without_keys(replication: JsonObject) -> JsonObject:
    """``replication`` without the keys in it, which alone can be changed."""
    if "automatic" in replication:
        return {"automatic": {}}
    replicas = [text(each, "location") for each in _replicas(replication)]
    return {"userManaged": {"replicas": list[JsonValue](replicas)}}


def keys_of(replication: JsonObject) -> dict[str, str]:
    """By location its key, where there is one."""
    return {place: key for place, key in _places(replication) if key}


class SecretKeys:
    """The keys of secrets."""

    def __init__(self, use: KeyUse) -> None:
        self._use = use

    def check_settings(self, project_number: str, replication: JsonObject) -> None:
        """Check the keys that a secret is to get.

        Raises:
            CloudError: 400, one is elsewhere, or the service agent may not use it.
        """
        for place, key in keys_of(replication).items():
            if location_of(key) != place:
                # Seen of the first: GoogleCloudPlatform/terraform-google-secret-manager#74 on
                # GitHub.
                policy = "Automatic" if place == _GLOBAL else "User-managed"
                raise invalid_argument(
                    f"{policy} replication policy can only be configured with Cloud KMS keys in"
                    f" location [{place}]. Requested: [{key}]"
                )
            self._check(project_number, key, ENCRYPT)

    def encrypting(self, secret: Secret) -> dict[str, str]:
        """By location the version of a key that encrypts a new version of ``secret``.

        Raises:
            CloudError: 400, the service agent cannot use one.
        """
        keys = keys_of(child(secret.settings, "replication"))
        for key in keys.values():
            self._check(secret.project, key, ENCRYPT)
        return {place: self._use.version(key) for place, key in keys.items()}

    def check_readable(self, secret: Secret, version: Version) -> None:
        """Check that ``version`` can be decrypted.

        Raises:
            CloudError: 400, the service agent cannot use its key.
        """
        for key in version.keys.values():
            self._check(secret.project, key.partition("/cryptoKeyVersions/")[0], DECRYPT)

    def _check(self, project_number: str, key: str, permission: str) -> None:
        """The words are those of Cloud KMS: no public log shows those of Secret Manager."""
        why = self._use.refusal(key, secrets_agent(project_number), permission)
        if why:
            raise failed_precondition(why)


def _places(replication: JsonObject) -> Iterator[tuple[str, str]]:
    places = [(text(each, "location"), each) for each in _replicas(replication)]
    if "automatic" in replication:
        places.append((_GLOBAL, child(replication, "automatic")))
    for place, each in places:
        yield place, text(child(each, "customerManagedEncryption"), "kmsKeyName")


def _replicas(replication: JsonObject) -> list[JsonObject]:
    return children(child(replication, "userManaged"), "replicas")
