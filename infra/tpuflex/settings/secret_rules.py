"""Rules about secrets: of the stack's own, or there already, and never both for one purpose."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.naming import HOST_SECRET_ROLES
from tpuflex.settings.model import StackSettings
from tpuflex.settings.secrets import SecretsSettings, brought_setting, version_setting

_KEY = "tpuflex:secrets"


def secret_findings(secrets: SecretsSettings) -> Iterator[Finding]:
    """What of ``secrets`` would have no effect."""
    fields = SecretsSettings.model_fields
    for role in secrets.brought:
        own = version_setting(role)
        if getattr(secrets, own) != fields[own].default:
            yield Finding(
                f"{_KEY}.{own}",
                f"it would have no effect: {brought_setting(role)} names a secret of yours",
                "Remove one of the two.",
            )
    if not secrets.manage_grants and not secrets.brought:
        yield Finding(
            f"{_KEY}.manage_grants",
            "it would have no effect: no secret is yours",
            "Remove it, or name one, such as api_key: projects/PROJECT/secrets/NAME/versions/1.",
        )
    named: dict[str, str] = {}
    for role, brought in secrets.brought.items():
        key = brought_setting(role)
        if (other := named.setdefault(brought.version, key)) != key:
            yield Finding(
                f"{_KEY}.{key}",
                f"it names the same version as {other}",
                "Write a secret of its own: each is for another purpose.",
            )


def secret_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What is likely to keep hosts from reading secrets that are there already."""
    secrets = settings.secrets
    read = any(role in secrets.brought for role in HOST_SECRET_ROLES)
    if read and not secrets.manage_grants and settings.identity.brought is None:
        yield Finding(
            f"{_KEY}.manage_grants",
            "the hosts' account is made by `up`, so nobody can have let it read the secret before",
            "Name an account of yours in tpuflex:identity.service_account, or let the stack grant"
            " it.",
        )
