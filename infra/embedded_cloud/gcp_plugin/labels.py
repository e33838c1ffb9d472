"""Labels and annotations: maps that a program shares with others.

The program's own keys are the property; the provider adds its default labels and the mark
that Pulumi provisioned the resource (``goog-pulumi-provisioned``, as the published plugin
does, on creation only); everything else on the resource belongs to others and is kept.
"""

from __future__ import annotations

from embedded_cloud.gcp_plugin.resource_type import ManagedMap
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from embedded_cloud.gcp_plugin.values import UNKNOWN, is_unknown
from embedded_cloud.json_types import JsonObject, JsonValue

ATTRIBUTION = "goog-pulumi-provisioned"


def wanted(
    managed: ManagedMap, inputs: JsonObject, settings: ProviderSettings, before: JsonObject | None
) -> JsonValue:
    """The keys that program and provider want on a resource, or ``UNKNOWN``.

    Args:
        managed: which map.
        inputs: the program's properties.
        settings: the provider's.
        before: the state of the resource; ``None`` when it is being created.
    """
    own = inputs.get(managed.name) or {}
    if is_unknown(own):
        return UNKNOWN
    keys: JsonObject = {}
    if managed.combined:
        keys.update(settings.default_labels)
        marked = before is None or ATTRIBUTION in _map(before.get(managed.combined))
        if settings.attribution and marked:
            keys[ATTRIBUTION] = "true"
    return keys | _map(own)


def outputs(managed: ManagedMap, on_resource: JsonValue, known: JsonObject) -> JsonObject:
    """The outputs that belong to the map.

    Args:
        managed: which map.
        on_resource: the map as the API answers it.
        known: the state so far; without the map's outputs the resource is being imported, and
            everything on it but the attribution counts as the program's.
    """
    actual = _map(on_resource)
    imported = managed.effective not in known
    own = set(actual) - {ATTRIBUTION} if imported else set(_map(known.get(managed.name)))
    found: JsonObject = {
        managed.name: {key: actual[key] for key in actual if key in own},
        managed.effective: actual,
    }
    if managed.combined:
        both = set(actual) if imported else set(_map(known.get(managed.combined)))
        found[managed.combined] = {key: actual[key] for key in actual if key in both}
    return found


def changed(
    managed: ManagedMap, on_resource: JsonValue, before: JsonObject, keys: JsonObject
) -> JsonObject:
    """What to send so that ``keys`` replaces what was managed ``before`` and the rest stays."""
    managed_before = set(_map(before.get(managed.combined or managed.name)))
    foreign = {k: v for k, v in _map(on_resource).items() if k not in managed_before}
    removed: JsonObject = {}
    if managed.removes_by_null:
        removed = dict.fromkeys(sorted(managed_before - set(keys)))
    return foreign | removed | keys


def _map(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
