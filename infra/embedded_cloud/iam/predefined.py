"""Google's predefined roles, as far as they are known here: the data beside this module."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from embedded_cloud.json_types import JsonObject, as_object, text, texts

_FILE = "data/predefined_roles.yaml"


@dataclass(frozen=True, slots=True)
class PredefinedRole:
    """One role of Google's.

    Attributes:
        name: such as ``roles/viewer``.
        title: what the console shows.
        includes: names of permissions, where ``*`` stands for any text.
        excludes: what these name is not in the role.
    """

    name: str
    title: str
    includes: tuple[str, ...]
    excludes: tuple[str, ...] = ()

    def holds(self, permission: str) -> bool:
        """Whether ``permission`` is in the role."""
        return _matches(permission, self.includes) and not _matches(permission, self.excludes)


@cache
def predefined_roles() -> Mapping[str, PredefinedRole]:
    """The roles that are known, by name."""
    # Here: an embedded cloud that does not enforce IAM needs none of it.
    import yaml

    document = yaml.safe_load(pkgutil.get_data("embedded_cloud.iam", _FILE) or b"")
    return {name: _role(name, as_object(row)) for name, row in document.items()}


def _role(name: str, row: JsonObject) -> PredefinedRole:
    return PredefinedRole(
        name, text(row, "title"), tuple(texts(row, "permissions")), tuple(texts(row, "except"))
    )


def _matches(permission: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(permission, pattern) for pattern in patterns)
