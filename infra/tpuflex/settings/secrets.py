"""The section ``tpuflex:secrets``: which versions in Secret Manager hold keys and certificate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tpuflex.naming import HOST_SECRET_ROLES, SECRET_ROLES, SecretRole
from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.settings.base import Frozen, Remedy

#: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets/create
_VERSION = (
    rf"projects/(?P<project>{PROJECT_PATTERN})/secrets/(?P<secret>[A-Za-z0-9_-]{{1,255}})"
    r"/versions/(?P<number>[1-9][0-9]{0,9})"
)
_EXISTING = re.compile(_VERSION)
#: The same for pydantic, which takes no names of groups twice in a schema.
VERSION_PATTERN = f"^{re.sub(r'[?]P<[a-z]+>', '?:', _VERSION)}$"
SecretVersionName = Annotated[
    Annotated[str, Field(pattern=VERSION_PATTERN)] | None,
    Remedy("Write a version with its number: projects/PROJECT/secrets/NAME/versions/1."),
]


@dataclass(frozen=True, slots=True)
class ExistingSecret:
    """One version of a secret that was there before the endpoint, and stays.

    Attributes:
        project: the project that has it.
        secret_id: its id there.
        number: the version.
    """

    project: str
    secret_id: str
    number: int

    @property
    def secret(self) -> str:
        """``projects/P/secrets/S``."""
        return f"projects/{self.project}/secrets/{self.secret_id}"

    @property
    def version(self) -> str:
        """``projects/P/secrets/S/versions/N``."""
        return f"{self.secret}/versions/{self.number}"


def existing_secret(text: str) -> ExistingSecret:
    """The version that ``text`` names."""
    found = _EXISTING.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not the name of a version")
    return ExistingSecret(found["project"], found["secret"], int(found["number"]))


def existing_secret_setting(role: SecretRole) -> str:
    """Name of the setting with a version of a secret of the user's own for ``role``."""
    return role.replace("-", "_")


def version_setting(role: SecretRole) -> str:
    """Name of the setting that pins the version of the stack's own secret for ``role``."""
    return f"{existing_secret_setting(role)}_version"


class SecretsSettings(Frozen):
    """Pinned Secret Manager versions; the values never pass through Pulumi."""

    api_key_version: int = Field(default=1, ge=1)
    """Version of the serving API key. To rotate the key, run `tpuflex secrets rotate api-key` and
    raise this number. Its value may hold several keys, one per line, for clients that have a key
    each."""

    tls_certificate_version: int | None = Field(default=None, ge=1)
    """Version of the certificate, with its key, with which the server speaks TLS. Without it,
    keys, questions and answers cross the network in clear."""

    metrics_key_version: int | None = Field(default=None, ge=1)
    """Version of a key that reads `/metrics` and nothing else, for collectors; none by default."""

    programs_key_version: int | None = Field(default=None, ge=1)
    """Version of the key with which hosts sign the compiled programs that they keep; 1 by default
    where they keep any outside of the library, which has a key of its own. With another one, what
    was kept before is not used any more."""

    hf_token_version: int | None = Field(default=None, ge=1)
    """Version of a token of the Hugging Face Hub with which `up` and `weights push` fetch a gated
    model, where HF_TOKEN is not set. Hosts cannot read it."""

    api_key: SecretVersionName = None
    """A version of a secret of yours, `projects/PROJECT/secrets/NAME/versions/NUMBER`, in the place
    of the stack's own secret for the API key. It is neither made, changed nor deleted."""

    tls_certificate: SecretVersionName = None
    """The same for the certificate with its key."""

    metrics_key: SecretVersionName = None
    """The same for the key that reads `/metrics`."""

    programs_key: SecretVersionName = None
    """The same for the key that signs compiled programs."""

    hf_token: SecretVersionName = None
    """The same for the token of the Hub."""

    manage_grants: bool = True
    """Whether the hosts' account gets the right to read those versions of secrets of yours that
    hosts need. With false, hosts have to have it."""

    @property
    def existing(self) -> dict[SecretRole, ExistingSecret]:
        """The versions of secrets that are there already, by role."""
        named = {role: getattr(self, existing_secret_setting(role)) for role in SECRET_ROLES}
        return {role: existing_secret(text) for role, text in named.items() if text is not None}

    def signing(self) -> SecretsSettings:
        """These, with a key that signs compiled programs: the stack's own, if none is named."""
        if self.programs_key is not None or self.programs_key_version is not None:
            return self
        return self.model_copy(update={"programs_key_version": 1})

    @property
    def versions(self) -> dict[SecretRole, int]:
        """The pinned version of each secret of the stack's own, by its role."""
        pinned = {role: getattr(self, version_setting(role)) for role in SECRET_ROLES}
        own = (
            role for role in SECRET_ROLES if getattr(self, existing_secret_setting(role)) is None
        )
        return {role: pinned[role] for role in own if pinned[role] is not None}

    @property
    def roles(self) -> tuple[SecretRole, ...]:
        """What the stack has a secret for, its own or one that is there already."""
        used = {*self.versions, *self.existing}
        return tuple(role for role in SECRET_ROLES if role in used)

    @property
    def host_roles(self) -> tuple[SecretRole, ...]:
        """Those of :attr:`roles` whose secrets the hosts fetch."""
        return tuple(role for role in self.roles if role in HOST_SECRET_ROLES)
