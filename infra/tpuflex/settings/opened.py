"""A stack's configuration that the engine has opened. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuflex.errors import Finding, SettingsError
from tpuflex.settings.model import NAMESPACE
from tpuflex.settings.plain import SECURE_REMEDY

#: The key of a stack file that names environments of Pulumi ESC.
ENVIRONMENT = "environment"
ONLY_CLOUD = (
    "Only Pulumi Cloud opens environments: log in to it (`pulumi login`), or write what they set"
    " below `config:` and remove this key."
)


#: Keys whose values are text, also where that would be a number in JSON.
_SCALAR_KEYS = ("cloud", "project")


@dataclass(frozen=True, slots=True)
class OpenedConfig:
    """What the engine knows of a stack.

    Attributes:
        values: the values by full key, such as ``tpuflex:slice``: text, or what a section holds.
        secret: the keys whose value is secret, or has a secret in it; their values are not here.
    """

    values: Mapping[str, object]
    secret: frozenset[str]

    @classmethod
    def of(cls, printed: Mapping[str, Mapping[str, Any]]) -> OpenedConfig:
        """What ``pulumi config --json`` printed."""
        return cls(
            values={
                key: entry["objectValue"] if "objectValue" in entry else entry["value"]
                for key, entry in printed.items()
                if not entry.get("secret")
            },
            secret=frozenset(key for key, entry in printed.items() if entry.get("secret")),
        )

    def sections(self, prefix: str = NAMESPACE) -> tuple[dict[str, object], list[Finding]]:
        """What it has below ``prefix``, without that; None, and a finding, for a secret."""
        names = {
            key: key.removeprefix(prefix)
            for key in (*self.values, *sorted(self.secret))
            if key.startswith(prefix)
        }
        findings = [
            Finding(key, "holds an encrypted value", SECURE_REMEDY)
            for key in names
            if key in self.secret
        ]
        sections: dict[str, object] = {}
        for key, name in names.items():
            value = self.values.get(key)
            sections[name] = value if name in _SCALAR_KEYS else _from_json(value)
        return sections, findings

    def all_keys(self) -> dict[str, object]:
        """The values by full key; None for what is secret."""
        return {**self.values, **dict.fromkeys(self.secret)}


def names_environments(document: object) -> bool:
    """Whether the stack file ``document`` has its configuration from environments, too."""
    return isinstance(document, dict) and bool(document.get(ENVIRONMENT))


def refuse_environments(file: str, why: str) -> SettingsError:
    """The error for a stack file with environments where none can be opened.

    Args:
        file: its name.
        why: what keeps them from being opened.
    """
    problem = f"names environments of Pulumi ESC, and {why}"
    return SettingsError(file, (Finding(ENVIRONMENT, problem, ONLY_CLOUD),))


def _from_json(value: object) -> object:
    """Decode a structured value, which the engine passes as JSON; leave other values alone."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
