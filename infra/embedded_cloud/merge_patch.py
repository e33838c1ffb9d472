"""JSON merge patch (RFC 7386), as Storage's and Compute's PATCH methods apply it. Pure."""

from __future__ import annotations

from embedded_cloud.json_types import JsonObject, JsonValue


def merge(before: JsonValue, patch: JsonObject) -> JsonObject:
    """``before`` with ``patch`` applied: null removes, objects merge, the rest replaces."""
    merged = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged
