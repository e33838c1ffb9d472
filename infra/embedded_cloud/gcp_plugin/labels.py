"""Labels and annotations: maps that a program shares with other tools.

The program's own keys are the property. The provider adds its default labels and, on creation
only, the label ``goog-pulumi-provisioned``, as the published plugin does. All other keys on the
resource belong to other tools and are kept.
"""

from __future__ import annotations

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.gcp_plugin.resource_type import ManagedMap
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from pulumi_plugin.values import UNKNOWN, Properties, Value

ATTRIBUTION = "goog-pulumi-provisioned"


def merged(
    managed: ManagedMap, inputs: Properties, settings: ProviderSettings, before: Properties | None
) -> Value:
    """The keys that program and provider set on a resource, or ``UNKNOWN``.

    Args:
        managed: which map.
        inputs: the program's properties.
        settings: the provider's.
        before: the state of the resource; ``None`` when it is being created.
    """
    own = inputs.get(managed.name) or {}
    if own is UNKNOWN:
        return UNKNOWN
    keys: Properties = {}
    if managed.combined:
        keys.update(settings.default_labels)
        marked = before is None or ATTRIBUTION in _map(before.get(managed.combined))
        if settings.attribution and marked:
            keys[ATTRIBUTION] = "true"
    return keys | _map(own)


def outputs(managed: ManagedMap, on_resource: object, known: Properties) -> Properties:
    """The outputs that belong to the map.

    Args:
        managed: which map.
        on_resource: the map as the API returns it.
        known: the state so far; without the map's outputs the resource is being imported, and
            nobody knows which of its keys are the program's: none is taken for one
            (terraform-provider-google, ``tpgresource/labels.go``).
    """
    actual = _map(on_resource)
    result: Properties = {managed.effective: actual}
    for name in filter(None, (managed.name, managed.combined)):
        own = _map(known.get(name))
        result[name] = {key: actual[key] for key in actual if key in own}
    return result


def sent(
    managed: ManagedMap, on_resource: object, before: Properties, keys: Properties
) -> JsonObject:
    """The map to send so that ``keys`` replaces what was managed ``before``; the rest stays."""
    managed_before = set(_map(before.get(managed.combined or managed.name)))
    others: JsonObject = {
        k: str(v) for k, v in _map(on_resource).items() if k not in managed_before
    }
    removed: JsonObject = {}
    if managed.removes_by_null:
        removed = dict.fromkeys(sorted(managed_before - set(keys)))
    return others | removed | {key: str(value) for key, value in keys.items()}


def _map(value: object) -> Properties:
    return value if isinstance(value, dict) else {}
