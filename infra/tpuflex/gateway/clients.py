"""Who may ask: clients by their keys, of which only digests are stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml
from pydantic import TypeAdapter, ValidationError

from tpuflex.errors import UsageError
from tpuflex.settings.gateway import ClientLimits, ClientSettings, Name

#: What a key begins with, so that one that got into a repository or a log is recognised.
KEY_PREFIX = "tpuflex-"
#: Random bytes of a key: enough that its digest needs no salt.
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody with a key.

    Attributes:
        name: its name in the configuration.
        request_class: class of its requests.
        models: the models that it may ask for; None for all.
        limits: what it may use.
    """

    name: str
    request_class: str
    models: frozenset[str] | None = None
    limits: ClientLimits = field(default_factory=ClientLimits)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made, and is kept nowhere.

    Attributes:
        client: name of the client that it is for.
        key: the key.
    """

    client: str
    key: str

    @property
    def digest(self) -> str:
        """Its SHA-256, which is what the configuration has of it."""
        return digest(self.key.encode())

    @property
    def configuration(self) -> str:
        """The client's lines of a gateway's configuration."""
        return yaml.safe_dump({"clients": {self.client: {"key_sha256": self.digest}}})

    def to_json(self) -> dict[str, object]:
        """The document of `gateway key --json`."""
        return {"client": self.client, "key": self.key, "key_sha256": self.digest}


class Clients:
    """The clients, by their keys.

    Args:
        settings: by name.
    """

    def __init__(self, settings: Mapping[str, ClientSettings]) -> None:
        self._secret = secrets.token_bytes(32)
        self._by_tag = {
            self._tag(each.key_sha256): Client(
                name,
                each.request_class,
                None if each.models is None else frozenset(each.models),
                each.limits,
            )
            for name, each in settings.items()
        }

    def find(self, key: bytes) -> Client | None:
        """The client with ``key``; None if it is nobody's.

        It takes the same time for every key and any number of clients. Digests are looked up under
        a secret of this process: timing tells nothing about how one begins.
        """
        return self._by_tag.get(self._tag(digest(key)))

    def _tag(self, key_sha256: str) -> bytes:
        return hmac.digest(self._secret, key_sha256.encode(), "sha256")


def digest(key: bytes) -> str:
    """The SHA-256 of a key, in hex."""
    return hashlib.sha256(key).hexdigest()


def new_key(client: str) -> NewKey:
    """Make a key for a client.

    Raises:
        UsageError: no client can have that name.
    """
    try:
        TypeAdapter(Name).validate_python(client)
    except ValidationError:
        raise UsageError(
            f"{client!r} is no name of a client: write at most 40 lower-case letters, digits, -"
            " and _."
        ) from None
    return NewKey(client, KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES))
