"""Diff: what changes, and does it replace? Pure."""

from __future__ import annotations

from collections.abc import Collection

from embedded_cloud.gcp_plugin import labels
from embedded_cloud.gcp_plugin.fields import Fields, Group, Property, unchanged
from embedded_cloud.gcp_plugin.resource_type import ResourceType
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from embedded_cloud.gcp_plugin.types import TextMap
from pulumi_plugin.changes import Change, ChangeKind, Diff, entry_path
from pulumi_plugin.values import UNKNOWN, Properties, Value


def diff(
    row: ResourceType,
    state: Properties,
    news: Properties,
    settings: ProviderSettings,
    ignored: Collection[str] = (),
    defaults: Collection[str] = (),
) -> Diff:
    """What ``news`` changes about a resource whose state is ``state``.

    A value that is not known yet counts as a change, and as a replacement where a change
    would replace: that is what may happen, and a preview must not hide it.

    Args:
        row: the type.
        state: its outputs.
        news: checked inputs.
        settings: the provider's.
        ignored: property paths that the program told the engine to ignore.
        defaults: the inputs that the check has filled in, a generated name among them.
    """
    target = row.scoped(news, settings)
    maps = {managed.name for managed in row.maps}
    changes: dict[str, Change] = {}
    for item in row.inputs:
        old, new = state.get(item.name), target.get(item.name)
        if item.name in maps:
            changes |= _innermost(item, old, new, item.name, replaces=False)
        elif not unchanged(item, old, new):
            changes |= _innermost(item, old, new, item.name, _replaces(row, item, old, new))
    changes |= _default_labels(row, state, news, settings, Diff(changes).changed)
    kept = {path: change for path, change in changes.items() if not _is_ignored(path, ignored)}
    # The published plugin deletes first whenever the program gives a name that could be generated,
    # also where the new name is another one (pulumi-terraform-bridge, ``pkg/tfbridge/schema.go``,
    # ``nameRequiresDeleteBeforeReplace``).
    named = row.autonamed in news and row.autonamed not in defaults
    shares_id = row.identify(target) == row.identify(state)
    return Diff(kept, delete_before_replace=(named or shares_id) and Diff(kept).replaces)


def _replaces(row: ResourceType, item: Property, old: Value, new: Value) -> bool:
    condition = row.replaces_when.get(item.name)
    if condition is not None and new is not UNKNOWN:
        return condition(old, new)
    return item.immutable


def _innermost(
    item: Property, old: Value, new: Value, path: str, replaces: bool
) -> dict[str, Change]:
    """The innermost changes between ``old`` and ``new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        if isinstance(item.type, Group):
            return _in_group(item.type.fields, old, new, path, replaces)
        if isinstance(item.type, TextMap):
            return {
                entry_path(path, key): Change(
                    ChangeKind.between(old.get(key), new.get(key)), replaces
                )
                for key in sorted({*old, *new})
                if old.get(key) != new.get(key)
            }
    if item.type.same(old, new):
        return {}
    return {path: Change(ChangeKind.between(old, new), replaces)}


def _in_group(
    fields: Fields, old: Properties, new: Properties, path: str, replaces: bool
) -> dict[str, Change]:
    changes: dict[str, Change] = {}
    for item in fields:
        before, after = old.get(item.name), new.get(item.name)
        if not unchanged(item, before, after):
            changes |= _innermost(item, before, after, f"{path}.{item.name}", replaces)
    return changes


def _default_labels(
    row: ResourceType,
    state: Properties,
    news: Properties,
    settings: ProviderSettings,
    changed: Collection[str],
) -> dict[str, Change]:
    """Changes that only the provider's default labels make."""
    return {
        managed.combined: Change(ChangeKind.UPDATE, replaces=False)
        for managed in row.maps
        if managed.combined
        and managed.name not in changed
        and labels.merged(managed, news, settings, state) != (state.get(managed.combined) or {})
    }


def _is_ignored(path: str, ignored: Collection[str]) -> bool:
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in ignored)
