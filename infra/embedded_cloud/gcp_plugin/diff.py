"""Diff: what changes, and does it replace? Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from embedded_cloud.gcp_plugin import labels
from embedded_cloud.gcp_plugin.fields import Fields, Group, Property, unchanged
from embedded_cloud.gcp_plugin.resource_type import ResourceType
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from embedded_cloud.gcp_plugin.shapes import TextMap
from embedded_cloud.gcp_plugin.values import is_unknown
from embedded_cloud.json_types import JsonObject, JsonValue


class Kind(Enum):
    """What happens to a property."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Difference:
    """One property that changes.

    Attributes:
        path: its path, such as ``labels.env``.
        kind: what happens to it.
        replaces: whether the resource has to be replaced for it.
    """

    path: str
    kind: Kind
    replaces: bool

    @property
    def top(self) -> str:
        """The top-level property that it belongs to."""
        return self.path.partition(".")[0].partition("[")[0]


@dataclass(frozen=True, slots=True)
class Differences:
    """All that changes.

    Attributes:
        entries: the single changes.
        delete_first: a replacement would have the same id, so the old one must go first.
    """

    entries: tuple[Difference, ...]
    delete_first: bool = False

    @property
    def replaces(self) -> tuple[str, ...]:
        """Top-level properties that force a replacement."""
        return tuple(dict.fromkeys(entry.top for entry in self.entries if entry.replaces))

    @property
    def changed(self) -> tuple[str, ...]:
        """Top-level properties that change."""
        return tuple(dict.fromkeys(entry.top for entry in self.entries))


def diff(
    row: ResourceType,
    state: JsonObject,
    news: JsonObject,
    settings: ProviderSettings,
    ignored: Collection[str] = (),
) -> Differences:
    """What ``news`` changes about a resource whose state is ``state``.

    A value that is not known yet counts as a change, and as a replacement where a change
    would replace: that is what may happen, and a preview must not hide it.

    Args:
        row: the type.
        state: its outputs.
        news: checked inputs.
        settings: the provider's.
        ignored: property paths that the program told the engine to ignore.
    """
    wanted = row.scoped(news, settings)
    maps = {managed.name for managed in row.maps}
    entries: list[Difference] = []
    for item in row.inputs:
        old, new = state.get(item.name), wanted.get(item.name)
        if item.name in maps:
            entries += _inside(item, old, new, item.name, replaces=False)
        elif not unchanged(item, old, new):
            entries += _inside(item, old, new, item.name, _replaces(row, item, old, new))
    entries += _provider_labels(row, state, news, settings, {entry.top for entry in entries})
    kept = tuple(entry for entry in entries if not _is_ignored(entry, ignored))
    replaces = any(entry.replaces for entry in kept)
    return Differences(kept, replaces and row.identify(wanted) == row.identify(state))


def _replaces(row: ResourceType, item: Property, old: JsonValue, new: JsonValue) -> bool:
    condition = row.replaces_when.get(item.name)
    if condition is not None and not is_unknown(new):
        return condition(old, new)
    return item.immutable


def _inside(
    item: Property, old: JsonValue, new: JsonValue, path: str, replaces: bool
) -> list[Difference]:
    """The innermost changes between ``old`` and ``new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        if isinstance(item.shape, Group):
            return _inside_group(item.shape.fields, old, new, path, replaces)
        if isinstance(item.shape, TextMap):
            keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
            return [
                Difference(f"{path}{_key(key)}", _kind(old.get(key), new.get(key)), replaces)
                for key in keys
            ]
    if item.shape.same(old, new):
        return []
    return [Difference(path, _kind(old, new), replaces)]


def _inside_group(
    fields: Fields, old: JsonObject, new: JsonObject, path: str, replaces: bool
) -> list[Difference]:
    found: list[Difference] = []
    for item in fields:
        before, after = old.get(item.name), new.get(item.name)
        if not unchanged(item, before, after):
            found += _inside(item, before, after, f"{path}.{item.name}", replaces)
    return found


def _provider_labels(
    row: ResourceType,
    state: JsonObject,
    news: JsonObject,
    settings: ProviderSettings,
    seen: Collection[str],
) -> list[Difference]:
    """A change that only the provider's default labels make."""
    found = []
    for managed in row.maps:
        if managed.combined and managed.name not in seen:
            keys = labels.wanted(managed, news, settings, state)
            if keys != (state.get(managed.combined) or {}):
                found.append(Difference(managed.combined, Kind.UPDATE, replaces=False))
    return found


def _is_ignored(entry: Difference, ignored: Collection[str]) -> bool:
    return any(
        entry.path == path or entry.path.startswith((f"{path}.", f"{path}[")) for path in ignored
    )


def _kind(old: JsonValue, new: JsonValue) -> Kind:
    if old is None:
        return Kind.ADD
    return Kind.DELETE if new is None else Kind.UPDATE


def _key(key: str) -> str:
    return f".{key}" if key.isidentifier() else f'["{key}"]'
