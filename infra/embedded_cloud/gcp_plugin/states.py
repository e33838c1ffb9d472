"""States of resources: what leads from one to the next, and what a preview can tell. Pure."""

from __future__ import annotations

from collections.abc import Collection

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.gcp_plugin import labels
from embedded_cloud.gcp_plugin.fields import Property, Use, read, unchanged
from embedded_cloud.gcp_plugin.resource_type import Made, MissingSettingError, ResourceType
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from pulumi_plugin.values import UNKNOWN, Properties, Value

#: Reading an id that is canonical already needs no defaults.
NO_DEFAULTS = ProviderSettings()


class Formatted(dict[str, str]):
    """Values as they appear in a format string; an absent one is empty."""

    def __init__(self, values: Properties) -> None:
        super().__init__({key: _text(value) for key, value in values.items()})

    def __missing__(self, key: str) -> str:
        return ""


def located(row: ResourceType, inputs: Properties, settings: ProviderSettings) -> Properties:
    """``inputs`` with project and region.

    Raises:
        MissingSettingError: the type needs one, and neither resource nor provider has it.
    """
    values = row.scoped(inputs, settings)
    for name in ("project", "region"):
        if row.property(name) is not None and not values.get(name):
            raise MissingSettingError(f"{name}: required field is not set", hint=_set(name))
    return values


def named(row: ResourceType, text: str, settings: ProviderSettings) -> Made:
    """What follows from ``text``, an id to import: the canonical id and its parts.

    Raises:
        InvalidIdError: it has none of the forms of its type.
        MissingSettingError: it leaves out a part that the provider does not have either.
    """
    parts = row.identity.parse(text, settings)
    identity = row.identify({**parts})
    if identity is None:
        missing = next(part for part in row.identity.parts if part not in parts)
        raise MissingSettingError(f"import of {text!r} needs a {missing}", hint=_set(missing))
    # A bucket's id has no project in it; the provider's is the best guess.
    return Made(identity, {key: value for key, value in parts.items() if row.property(key)})


def identified(row: ResourceType, values: Properties, settings: ProviderSettings) -> Made:
    """The resource that ``values`` will lead to: its id and what is known of it beforehand.

    Raises:
        MissingSettingError: a part of the id is missing.
    """
    identity = row.identify(values)
    if identity is None:
        missing = next((part for part in row.identity.parts if not values.get(part)), "part")
        raise MissingSettingError(f"{missing}: required field is not set", hint=_set(missing))
    return Made(identity, known_after(row, {}, values, settings))


def sent_changes(
    row: ResourceType,
    state: Properties,
    inputs: Properties,
    only: Collection[str],
    besides: Collection[str],
) -> Properties:
    """The changed properties to send to the API; one to be cleared is ``None``.

    Args:
        row: the type.
        state: the present outputs.
        inputs: the new inputs.
        only: limit to these properties; empty means all but ``besides``.
        besides: the properties that other requests carry.
    """
    maps = {managed.name for managed in row.maps}
    return {
        item.name: inputs.get(item.name)
        for item in row.inputs
        if item.place
        and item.name not in maps
        and (item.name in only if only else item.name not in besides)
        and not unchanged(item, state.get(item.name), inputs.get(item.name))
    }


def map_changes(
    row: ResourceType,
    state: Properties,
    inputs: Properties,
    resource: JsonObject,
    settings: ProviderSettings,
) -> JsonObject:
    """The changed managed maps, ready to send to the API."""
    changes: JsonObject = {}
    for managed in row.maps:
        keys = labels.merged(managed, inputs, settings, state)
        before = state.get(managed.combined or managed.name) or {}
        if isinstance(keys, dict) and keys != before:
            changes[managed.name] = labels.sent(managed, resource.get(managed.name), state, keys)
    return changes


def known_after(
    row: ResourceType, state: Properties, inputs: Properties, settings: ProviderSettings
) -> Properties:
    """What is known of the state after ``inputs`` are applied, without asking the API."""
    known = dict(state)
    for item in row.inputs:
        if _not_answered(item):
            value = inputs.get(item.name, item.default)
            known[item.name] = known.get(item.name) if value is None else value
    before = state if state else None
    for managed in row.maps:
        keys = labels.merged(managed, inputs, settings, before)
        known[managed.name] = inputs.get(managed.name) or {}
        known[managed.effective] = known.get(managed.effective) or keys
        if managed.combined:
            known[managed.combined] = keys
    return known


def predicted(row: ResourceType, inputs: Properties, settings: ProviderSettings) -> Properties:
    """The state that a create would lead to; what only the API knows is unknown."""
    unknown: Properties = {
        item.name: UNKNOWN
        for item in row.properties
        if item.use is Use.OUTPUT or (item.use is Use.CHOSEN and item.default is None)
    }
    values = row.scoped(inputs, settings)
    return unknown | values | known_after(row, {}, values, settings)


def state_of(
    row: ResourceType, identity: str, known: Properties, resource: JsonObject
) -> Properties:
    """The outputs of a resource.

    Args:
        row: its type.
        identity: its canonical id.
        known: what is known of it beforehand; empty for an import.
        resource: the API's answer.
    """
    state: Properties = {}
    for item in row.inputs:
        if _not_answered(item):
            value = known.get(item.name, item.default)
            if value is not None:
                state[item.name] = value
    parts = row.identity.parse(identity, NO_DEFAULTS)
    state |= {name: value for name, value in parts.items() if row.property(name)}
    state |= read(row.properties, resource)
    for managed in row.maps:
        state |= labels.outputs(managed, resource.get(managed.name), known)
    for item in row.properties:
        if item.name in row.derived:
            form = row.derived[item.name]
            state[item.name] = item.type.from_wire(form.format_map(Formatted(state)))
    return state


def imported_inputs(row: ResourceType, state: Properties) -> Properties:
    """The inputs that would have led to ``state``: an import has no program yet."""
    return {
        item.name: state[item.name]
        for item in row.inputs
        if state.get(item.name) not in (None, {}, [], "")
    }


def refreshed_inputs(row: ResourceType, state: Properties, inputs: Properties) -> Properties:
    """``inputs`` with the values of ``state`` where these differ in more than their spelling."""
    refreshed: Properties = {}
    for name, value in inputs.items():
        item = row.property(name)
        actual = state.get(name)
        if item is None or item.type.same(actual, value):
            refreshed[name] = value
        elif actual is not None:
            refreshed[name] = actual
    return refreshed


def _not_answered(item: Property) -> bool:
    return not item.place or not item.answered


def _text(value: Value) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _set(name: str) -> str:
    """How to give the provider a default ``name``."""
    return f"set it on the resource or on the provider: pulumi config set gcp:{name} VALUE"
