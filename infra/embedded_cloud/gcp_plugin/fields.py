"""Properties: a name, a type, how it is used, and its place in the REST resource.

Also the two types that are made of properties: one object (:class:`Group`) and a list of
objects (:class:`Groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from embedded_cloud.core.json_types import JsonObject, JsonValue
from embedded_cloud.gcp_plugin.types import (
    InvalidValueError,
    PropertyType,
    Reference,
    Scope,
    Segment,
    Text,
    blank,
)
from pulumi_plugin.values import UNKNOWN, Properties, Value


class Use(Enum):
    """How a program may use a property."""

    REQUIRED = "the program must set it"
    OPTIONAL = "the program may set it; unset means its default, if any"
    CHOSEN = "the program may set it; otherwise the cloud chooses, and that value stays"
    OUTPUT = "only the cloud sets it"


@dataclass(frozen=True, slots=True)
class Property:
    """One property of a resource type, or of an object inside one.

    Attributes:
        name: Pulumi's name.
        type: the type of its value.
        use: who sets it.
        immutable: a change replaces the resource.
        default: its value when the program sets none. For ``OPTIONAL`` the engine sees it as
            an input; for ``CHOSEN`` it appears in the state only.
        wire: dotted place in the REST resource; ``None`` means the same name at the top;
            empty means that the API never sees it.
        answered: the API returns it; otherwise the state keeps what was sent.
    """

    name: str
    type: PropertyType = field(default_factory=Text)
    use: Use = Use.OPTIONAL
    immutable: bool = False
    default: Value = None
    wire: str | None = None
    answered: bool = True

    @property
    def place(self) -> tuple[str, ...]:
        """The path into the REST resource; empty when the API never sees the property."""
        path = self.name if self.wire is None else self.wire
        return tuple(path.split(".")) if path else ()

    @property
    def is_input(self) -> bool:
        """Whether a program may set it."""
        return self.use is not Use.OUTPUT


Fields = tuple[Property, ...]


def accept(
    fields: Fields, values: Mapping[str, Value], prefix: str = ""
) -> tuple[Properties, list[InvalidValueError]]:
    """``values`` converted to the types of ``fields``, with defaults; and all that is wrong."""
    accepted: Properties = {}
    invalid: list[InvalidValueError] = []
    for item in fields:
        if not item.is_input:
            continue
        path = f"{prefix}{item.name}"
        value = values.get(item.name)
        if value is None:
            if item.use is Use.REQUIRED:
                invalid.append(InvalidValueError(path, "missing required property"))
            elif item.use is Use.OPTIONAL and item.default is not None:
                accepted[item.name] = item.default
            continue
        try:
            accepted[item.name] = item.type.accept(value, path)
        except InvalidValueError as error:
            invalid.append(error)
    return accepted, invalid


def write(fields: Iterable[Property], values: Mapping[str, Value], scope: Scope) -> JsonObject:
    """The REST resource with ``values``; a key whose value is ``None`` is cleared there."""
    resource: JsonObject = {}
    for item in fields:
        if item.place and item.name in values:
            _put(resource, item.place, item.type.to_wire(values[item.name], scope))
    return resource


def read(fields: Iterable[Property], resource: Mapping[str, object]) -> Properties:
    """The properties that the REST ``resource`` has."""
    values: Properties = {}
    for item in fields:
        if item.place:
            value = item.type.from_wire(_get(resource, item.place))
            if value is not None:
                values[item.name] = value
    return values


def unchanged(item: Property, old: Value, new: Value) -> bool:
    """Whether setting ``new`` (``None``: unset) in place of ``old`` changes nothing."""
    if new is None and item.use in (Use.CHOSEN, Use.OUTPUT):
        return True
    return item.type.same(old, new)


@dataclass(frozen=True, slots=True)
class Group:
    """One object with properties of its own.

    Attributes:
        fields: its properties.
        switch: name of a boolean of the REST object that turns it on (``logConfig.enable``);
            empty when an object that is there is on.
    """

    fields: Fields
    switch: str = ""
    json_type: str = "object"

    def accept(self, value: Value, path: str) -> Value:
        """An object with these properties and no others."""
        if value is UNKNOWN:
            return value
        if not isinstance(value, dict):
            raise InvalidValueError(path, "expected an object")
        inputs = {item.name for item in self.fields if item.is_input}
        for name in value:
            if name not in inputs:
                raise InvalidValueError(f"{path}.{name}", "no such property is served")
        accepted, invalid = accept(self.fields, value, f"{path}.")
        if invalid:
            raise invalid[0]
        return accepted

    def same(self, old: Value, new: Value) -> bool:
        """No property changes."""
        if not isinstance(old, dict) or not isinstance(new, dict):
            return blank(old) and blank(new)
        return all(unchanged(item, old.get(item.name), new.get(item.name)) for item in self.fields)

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The REST object; unset is null, or the switch turned off."""
        if not isinstance(value, dict):
            return {self.switch: False} if self.switch else None
        on: JsonObject = {self.switch: True} if self.switch else {}
        return on | write(self.fields, value, scope)

    def from_wire(self, value: object) -> Value:
        """The object; ``None`` when the API has none or its switch is off."""
        if not isinstance(value, dict) or (self.switch and not value.get(self.switch)):
            return None
        return read(self.fields, value)


@dataclass(frozen=True, slots=True)
class Groups:
    """A list of objects.

    Attributes:
        fields: the properties of each.
        ordered: whether the order matters.
    """

    fields: Fields
    ordered: bool = False
    json_type: str = "array"

    def accept(self, value: Value, path: str) -> Value:
        """A list of such objects."""
        if value is UNKNOWN:
            return value
        if not isinstance(value, list):
            raise InvalidValueError(path, "expected a list")
        one = Group(self.fields)
        return [one.accept(item, f"{path}[{at}]") for at, item in enumerate(value)]

    def same(self, old: Value, new: Value) -> bool:
        """Pairwise the same; in any order unless ``ordered``."""
        before = old if isinstance(old, list) else []
        after = new if isinstance(new, list) else []
        if new is UNKNOWN or len(before) != len(after):
            return False
        one = Group(self.fields)
        if self.ordered:
            return all(one.same(a, b) for a, b in zip(before, after, strict=True))
        left = list(before)
        for item in after:
            match = next((at for at, other in enumerate(left) if one.same(other, item)), None)
            if match is None:
                return False
            del left[match]
        return True

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The list of REST objects; unset is the empty list."""
        one = Group(self.fields)
        return [one.to_wire(item, scope) for item in value] if isinstance(value, list) else []

    def from_wire(self, value: object) -> Value:
        """The list."""
        if not isinstance(value, list):
            return None
        one = Group(self.fields)
        return [one.from_wire(item) for item in value]


def _put(resource: JsonObject, place: tuple[str, ...], value: JsonValue) -> None:
    inner = resource
    for key in place[:-1]:
        step = inner.setdefault(key, {})
        if not isinstance(step, dict):
            raise TypeError(f"{'.'.join(place)} leads through {key}, which is not an object")
        inner = step
    inner[place[-1]] = value


def _get(resource: Mapping[str, object], place: tuple[str, ...]) -> object:
    value: object = resource
    for key in place:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


NETWORK_LINK = Reference(path="projects/{project}/global/networks/{}")
SUBNETWORK_LINK = Reference(path="projects/{project}/regions/{region}/subnetworks/{}")

NAME = Property("name", use=Use.CHOSEN, immutable=True)
PROJECT = Property("project", use=Use.CHOSEN, immutable=True, wire="")
REGION = Property("region", Segment(), use=Use.CHOSEN, immutable=True, wire="")

#: The published plugin's own switch; the API never sees it.
DELETION_POLICY = Property("deletionPolicy", use=Use.CHOSEN, default="DELETE", wire="")

SELF_LINK = Property("selfLink", use=Use.OUTPUT)
CREATION_TIMESTAMP = Property("creationTimestamp", use=Use.OUTPUT)

ROLE = Property("role", use=Use.REQUIRED, immutable=True)
MEMBER = Property("member", use=Use.REQUIRED, immutable=True)
CONDITION = Property(
    "condition",
    Group(
        (
            Property("title", use=Use.REQUIRED),
            Property("expression", use=Use.REQUIRED),
            Property("description"),
        )
    ),
    immutable=True,
)
ETAG = Property("etag", use=Use.OUTPUT)


def chosen(name: str, type_: PropertyType | None = None, wire: str | None = None) -> Property:
    """A property whose value the cloud chooses when the program sets none."""
    return Property(name, type_ or Text(), use=Use.CHOSEN, wire=wire)
