"""What holds a secret: variables by their names, and values by what they look like. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pulumi_plugin.credentials import holds_credential, without_credentials

_NAME = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$", re.IGNORECASE)


def names_secret(variable: str) -> bool:
    """Whether ``variable`` is named as those are that hold a secret."""
    return _NAME.search(variable) is not None


def holds_secret(value: object) -> bool:
    """Whether ``value``, or anything in it, looks like a secret."""
    match value:
        case str():
            return holds_credential(value)
        case Mapping():
            return any(holds_secret(each) for pair in value.items() for each in pair)
        case list() | tuple():
            return any(map(holds_secret, value))
    return False


def masked(text: str) -> str:
    """``text`` without what looks like a secret."""
    return without_credentials(text, "…")
