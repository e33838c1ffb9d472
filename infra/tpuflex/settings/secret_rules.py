"""Rules about secrets: of the stack's own, or there already, and never both for one purpose."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
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
