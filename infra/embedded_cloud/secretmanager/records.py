"""Secrets and their versions as the store keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from embedded_cloud.json_types import JsonObject, child, flag, number, string_map, text


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
        destroyed, destroy_at: epoch seconds of the destruction, done or scheduled.
        checksummed: the caller sent the payload's CRC32C with it.
        keys: by location the version of a key of the user's that has encrypted it.
    """

    secret: str
    number: int
    created: float
    state: VersionState = VersionState.ENABLED
    destroyed: float | None = None
    destroy_at: float | None = None
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
            "destroyAt": self.destroy_at,
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
            destroy_at=number(value, "destroyAt") or None,
            checksummed=flag(value, "checksummed"),
            revision=int(number(value, "revision")),
            keys=string_map(value, "keys"),
        )
