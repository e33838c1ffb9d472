"""Rules about the hosts' identity: what only an account of yours can have."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.settings.model import Draft, StackSettings

_KEY = "tpuflex:identity"


def identity_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the hosts' identity from being what the settings say."""
    identity = draft.identity
    if identity is not None and identity.brought is None and not identity.manage_grants:
        yield Finding(
            f"{_KEY}.manage_grants",
            "false is for an account of yours: nobody grants anything to one of the endpoint's own",
            f"Remove it, or name your account in {_KEY}.service_account.",
        )


def identity_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What an account of another project may lack."""
    brought = settings.identity.brought
    if brought is not None and brought.project != settings.project:
        yield Finding(
            f"{_KEY}.service_account",
            f"it is of {brought.project}, and hosts of {settings.project} run as it only where that"
            " project allows its accounts to be used by others",
            "What has to be allowed says https://cloud.google.com/iam/docs/attach-service-accounts"
            " (a different project); it was not tried with TPUs.",
        )
