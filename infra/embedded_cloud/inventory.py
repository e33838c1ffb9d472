"""Everything that exists in the embedded cloud, read from its memory."""

from __future__ import annotations

from embedded_cloud.json_types import JsonObject, JsonValue, child, children, string_map
from embedded_cloud.store import Store


def inventory(store: Store) -> dict[str, dict[str, list[JsonObject]]]:
    """Service -> kind -> resources by name, each with its labels if it has any."""
    found: dict[str, dict[str, list[JsonObject]]] = {}
    for collection in store.collections():
        if collection.startswith("_"):
            continue
        service, _, kind = collection.partition("/")
        found.setdefault(service, {})[kind] = [
            {"name": key, **_labels(value), **_said(value)} for key, value in store.list(collection)
        ]
    return found


def _labels(resource: JsonObject) -> JsonObject:
    """``{"labels": ...}``; those of a queued resource are its nodes' labels."""
    spec = child(resource, "spec")
    labels = string_map(resource, "labels") or string_map(spec, "labels")
    for node_spec in children(child(spec, "tpu"), "nodeSpec"):
        labels |= string_map(child(node_spec, "node"), "labels")
    return {"labels": dict[str, JsonValue](labels)} if labels else {}


def _said(resource: JsonObject) -> JsonObject:
    """State and description, of resources that have them."""
    found: JsonObject = {}
    for key in ("state", "description"):
        value = resource.get(key) or child(resource, "spec").get(key)
        if isinstance(value, str):
            found[key] = value
    return found
