"""What changes between two versions of a resource. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pulumi_plugin.values import Value


class ChangeKind(Enum):
    """How one property changes."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"

    @classmethod
    def between(cls, old: Value, new: Value) -> ChangeKind:
        """The kind of the change from ``old`` to ``new``; None is no value."""
        if old is None:
            return cls.ADD
        return cls.DELETE if new is None else cls.UPDATE


@dataclass(frozen=True, slots=True)
class Change:
    """One changed property.

    Attributes:
        kind: added, deleted or updated.
        replaces: whether the resource must be replaced for it.
        is_input: whether it is an input; else it is the state of the resource itself.
    """

    kind: ChangeKind
    replaces: bool
    is_input: bool = True


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes of a resource.

    Attributes:
        changes: change by property path, such as ``labels.env``.
        delete_before_replace: whether the old one must go first: because both have one name, or
            because it serves nobody.
    """

    changes: Mapping[str, Change]
    delete_before_replace: bool = False

    @property
    def changed(self) -> tuple[str, ...]:
        """The top-level properties that change."""
        return tuple(sorted(set(map(_top, self.changes))))

    @property
    def replacing(self) -> tuple[str, ...]:
        """The top-level properties that force a replacement."""
        return tuple(sorted({_top(p) for p, change in self.changes.items() if change.replaces}))

    @property
    def replaces(self) -> bool:
        """Whether anything needs a replacement."""
        return any(change.replaces for change in self.changes.values())


def entry_path(path: str, key: str) -> str:
    """The path of the entry ``key`` of the map at ``path``."""
    return f"{path}.{key}" if key.isidentifier() else f'{path}["{key}"]'


def _top(path: str) -> str:
    return path.split(".", 1)[0].split("[", 1)[0]
