"""What `tpuflex up` does about secrets before it requests chips."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tpuflex.boot.certificate import read_certificate
from tpuflex.errors import NotFoundError
from tpuflex.naming import API_KEY, METRICS_KEY, TLS_CERTIFICATE

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud


def ensure_secrets(cloud: Cloud, say: Callable[[str], None]) -> None:
    """Make sure that every secret version that the host fetches exists.

    Raises:
        NotFoundError, SettingsError: as :func:`check_certificate`.
        TpuflexError: Secret Manager refused.
    """
    pinned = cloud.stack.settings.secrets
    for role, what in {API_KEY: "API key", METRICS_KEY: "metrics key"}.items():
        number = pinned.versions.get(role)
        if number is None:
            continue
        before = {version.number for version in cloud.secrets.list_versions(cloud.secret(role))}
        version = cloud.secrets.ensure_api_key(cloud.secret(role), number)
        if version.number not in before:
            say(f"  created  {what}, version {version.number} of {cloud.stack.names.secret(role)}")
    check_certificate(cloud)


def check_certificate(cloud: Cloud) -> None:
    """Check that the TLS certificate, which only the user can add, is there and usable, if the
    stack file names one.

    Raises:
        NotFoundError: its pinned version does not exist.
        SettingsError: a server could not use it.
        TpuflexError: Secret Manager refused.
    """
    number = cloud.stack.settings.secrets.tls_certificate_version
    if number is None:
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
    read_certificate(cloud.secrets.access(f"{secret}/versions/{number}"), datetime.now(UTC))
