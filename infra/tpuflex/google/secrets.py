"""Secret Manager: the serving key is made here and goes straight there.

No value passes through Pulumi, a file or a command line. Versions are pinned by number: the
host fetches exactly the version that the stack file names.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass

import google_crc32c

from tpuflex.advice import Advice
from tpuflex.errors import ApiError, ConflictError, Finding, NotFoundError, SettingsError
from tpuflex.google.paging import objects, pages
from tpuflex.google.transport import Api, JsonObject

ENABLED = "ENABLED"


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """One version of a secret.

    Attributes:
        name: resource name, ``projects/P/secrets/S/versions/N``.
        number: N.
        state: ENABLED, DISABLED or DESTROYED.
    """

    name: str
    number: int
    state: str


def new_key() -> str:
    """A key for an API or a signature: 256 random bits in characters that fit an HTTP header."""
    return secrets.token_urlsafe(32)


class SecretClient:
    """Reads and adds versions of secrets.

    ``secret`` is always a resource name, ``projects/P/secrets/S``.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    def access(self, version: str) -> str:
        """The value of ``version``, a resource name with its number.

        Raises:
            NotFoundError: there is no such version.
            AccessError: the caller may not read it.
            ConflictError: it was disabled or destroyed.
            ApiError: the value was damaged on its way, or is not text.
        """
        try:
            payload = self._api.call("GET", f"/v1/{version}:access").get("payload")
        except ConflictError as error:
            secret, _, number = version.partition("/versions/")
            raise ConflictError(
                f"Version {number} of the secret {secret.rpartition('/')[2]} was disabled or"
                f" destroyed: {error.message.rpartition('FAILED_PRECONDITION: ')[2]}",
                hint=Advice(
                    "One that is only disabled can be enabled in Secret Manager. Else write another"
                    " one under tpuflex:secrets in the stack file (of the stack's own secret the"
                    " next number, which {secrets_ensure} adds; of yours the name of a version that"
                    " is there),\nthen: {up}. A host fetches its keys when it boots;"
                    " one that runs keeps what it has, which nobody can read any more."
                ),
            ) from error
        if not isinstance(payload, dict):
            raise ApiError(f"{version} came without a payload")
        value = base64.b64decode(str(payload.get("data", "")))
        checksum = payload.get("dataCrc32c")
        if checksum is not None and int(str(checksum)) != google_crc32c.value(value):
            raise ApiError(f"{version} was damaged on its way")
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ApiError(f"{version} is not text") from error

    def list_versions(self, secret: str) -> tuple[SecretVersion, ...]:
        """The versions of ``secret``, oldest first.

        Raises:
            NotFoundError: there is no such secret.
        """
        answers = pages(self._api, f"/v1/{secret}/versions", {"pageSize": "100"})
        versions = [_version(entry) for page in answers for entry in objects(page, "versions")]
        return tuple(sorted(versions, key=lambda version: version.number))

    def add_version(self, secret: str, value: str) -> SecretVersion:
        """Add a version with ``value``; it gets the next number.

        The call is made once: repeating it after a lost answer would add a second version.

        Raises:
            NotFoundError: there is no such secret.
            ApiError: it was refused, or no answer came.
        """
        data = value.encode()
        payload: JsonObject = {
            "data": base64.b64encode(data).decode(),
            "dataCrc32c": str(google_crc32c.value(data)),
        }
        body: JsonObject = {"payload": payload}
        return _version(self._api.call("POST", f"/v1/{secret}:addVersion", body=body, budget=0))

    def ensure_version(
        self, secret: str, number: int, value: Callable[[], str] = new_key
    ) -> SecretVersion:
        """Version ``number`` of ``secret``; added with ``value()`` if it is the next to come.

        Raises:
            NotFoundError: there is no such secret.
            ConflictError: the version was disabled or destroyed.
            SettingsError: versions before it are missing, so it cannot be added.
        """
        versions = {version.number: version for version in self.list_versions(secret)}
        if number not in versions:
            last = max(versions, default=0)
            if number != last + 1:
                raise SettingsError(
                    f"secret {secret.rpartition('/')[2]}",
                    (
                        Finding(
                            "tpuflex:secrets",
                            f"version {number} cannot be added, the last one is {last}",
                            f"Write {last + 1} to add the next one.",
                        ),
                    ),
                )
            versions[number] = self._add(secret, number, value())
        found = versions[number]
        if found.state != ENABLED:
            raise ConflictError(
                f"{found.name} is {found.state}",
                hint=f"Raise the version in the stack file to {max(versions) + 1}.",
            )
        return found

    def _add(self, secret: str, number: int, value: str) -> SecretVersion:
        try:
            added = self.add_version(secret, value)
        except NotFoundError:
            raise
        except ApiError as error:
            if not error.passing:
                raise
            # The answer was lost, not necessarily the call.
            added = None
        if added is not None and added.number == number:
            return added
        for version in self.list_versions(secret):
            if version.number == number:
                return version
        raise ApiError(f"{secret}: version {number} could not be added; try again")


def _version(entry: JsonObject) -> SecretVersion:
    name = str(entry.get("name", ""))
    number = name.rpartition("/")[2]
    return SecretVersion(
        name, int(number) if number.isdigit() else 0, str(entry.get("state", ENABLED))
    )
