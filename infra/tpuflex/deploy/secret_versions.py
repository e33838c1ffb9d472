"""The secret versions that a host fetches: made, or checked, before chips are requested."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tpuflex.boot.certificate import read_certificate
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.google.existing_secret import require_enabled
from tpuflex.naming import API_KEY, METRICS_KEY, PROGRAMS_KEY, TLS_CERTIFICATE

if TYPE_CHECKING:
    from tpuflex.naming import SecretRole
    from tpuflex.stack.connection import Connection


#: The secrets whose values are made here.
_MADE: dict[SecretRole, str] = {
    API_KEY: "API key",
    METRICS_KEY: "metrics key",
    PROGRAMS_KEY: "key for compiled programs",
}


def ensure_versions(cloud: Connection, say: Callable[[str], None]) -> None:
    """Make sure that every secret version that the host fetches exists.

    Raises:
        NotFoundError, SettingsError: as :func:`check_certificate`.
        TpuflexError: Secret Manager refused.
    """
    pinned = cloud.stack.settings.secrets
    check_existing_secrets(cloud)
    for role, what in _MADE.items():
        number = pinned.versions.get(role)
        if number is None:
            continue
        before = {version.number for version in cloud.secrets.list_versions(cloud.secret(role))}
        version = cloud.secrets.ensure_version(cloud.secret(role), number)
        if version.number not in before:
            say(f"  created  {what}, version {version.number} of {cloud.stack.names.secret(role)}")
    check_certificate(cloud)


def check_existing_secrets(cloud: Connection) -> None:
    """Check that the versions of secrets of the user's own are there and enabled.

    Raises:
        NotFoundError, ConflictError: one is not.
        TpuflexError: Secret Manager refused.
    """
    for role, existing in cloud.stack.settings.secrets.existing.items():
        require_enabled(cloud.secrets, role, existing)


def check_certificate(cloud: Connection) -> None:
    """Check that the TLS certificate, which only the user can add, is there and usable, if the
    stack file names one.

    Raises:
        NotFoundError: its pinned version does not exist.
        SettingsError: a server could not use it.
        TpuflexError: Secret Manager refused.
    """
    settings = cloud.stack.settings
    if TLS_CERTIFICATE in settings.secrets.existing:
        # Who may not read the value may bring it up; a host that cannot use it says so.
        with suppress(AccessError):
            read_certificate(cloud.secrets.access(cloud.secret_version(TLS_CERTIFICATE)), _now())
        return
    number = settings.secrets.tls_certificate_version
    if number is None:
        return
    require_certificate(cloud)
    secret = cloud.secret(TLS_CERTIFICATE)
    read_certificate(cloud.secrets.access(f"{secret}/versions/{number}"), _now())


def require_certificate(cloud: Connection) -> None:
    """Check that the pinned version of the stack's own TLS certificate is there, if the stack file
    names one; its value is not read.

    Raises:
        NotFoundError: it is not.
        TpuflexError: Secret Manager refused.
    """
    number = cloud.stack.settings.secrets.tls_certificate_version
    if number is None or TLS_CERTIFICATE in cloud.stack.settings.secrets.existing:
        return
    secret = cloud.secret(TLS_CERTIFICATE)
    try:
        versions = {version.number for version in cloud.secrets.list_versions(secret)}
    except NotFoundError:
        versions = set()
    if number not in versions:
        raise NotFoundError(
            f"Version {number} of the TLS certificate does not exist.",
            hint=f"Add it: tpuflex secrets put {TLS_CERTIFICATE} --stack {cloud.stack.name} < FILE",
        )


def _now() -> datetime:
    return datetime.now(UTC)
