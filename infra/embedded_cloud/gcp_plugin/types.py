"""The types of property values.

A type can accept a value (convert it, or say why not), tell whether a new value differs from what
the cloud has, and write the value for the REST API and read it back. The tables of resource types
are made of these; nothing here knows any resource type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from embedded_cloud.core.json_types import JsonValue
from pulumi_plugin.values import UNKNOWN, Value, has_unknown

#: Where a resource lives (``project``, ``region``): what short references are completed with.
Scope = Mapping[str, str]


class InvalidValueError(Exception):
    """A property has a value that it cannot have.

    Attributes:
        path: the property path, such as ``bgp.asn``.
        reason: what is wrong, in one clause.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PropertyType(Protocol):
    """The type of a property's values."""

    @property
    def json_type(self) -> str:
        """The JSON schema type of the value."""

    def accept(self, value: Value, path: str) -> Value:
        """``value`` as this type, with inner defaults; raises :class:`InvalidValueError`."""

    def same(self, old: Value, new: Value) -> bool:
        """Whether setting ``new`` where the cloud has ``old`` changes nothing."""

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """``value`` as the REST API takes it; for ``None``, the value that clears it there."""

    def from_wire(self, value: object) -> Value:
        """The property's value for an answer of the REST API; ``None`` means absent."""


def blank(value: Value) -> bool:
    """Whether ``value`` equals an unset property: null, empty, false or zero."""
    return value is None or value in ("", 0, False) or value == [] or value == {}


@dataclass(frozen=True, slots=True)
class Text:
    """A string.

    Attributes:
        fold: letter case is ignored (a bucket's location).
    """

    fold: bool = False
    json_type: str = "string"

    def accept(self, value: Value, path: str) -> Value:
        """A string, or a number or boolean as one."""
        if value is UNKNOWN:
            return value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return str(value)
        if isinstance(value, str):
            return value
        raise InvalidValueError(path, f"expected a string, got {_kind(value)}")

    def same(self, old: Value, new: Value) -> bool:
        """Equal, or both unset."""
        if blank(old) and blank(new):
            return True
        if self.fold and isinstance(old, str) and isinstance(new, str):
            return old.lower() == new.lower()
        return old == new

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The string; unset is the empty string."""
        return "" if value is None else str(value)

    def from_wire(self, value: object) -> Value:
        """The string as it is."""
        return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Segment(Text):
    """A string that is one segment of the API's answer: the name at the end of a link."""

    separator: str = "/"
    index: int = -1

    def same(self, old: Value, new: Value) -> bool:
        """Equal in that segment."""
        return self.from_wire(old) == self.from_wire(new)

    def from_wire(self, value: object) -> Value:
        """That segment of the answer."""
        return None if value is None else str(value).split(self.separator)[self.index]


@dataclass(frozen=True, slots=True)
class Reference(Text):
    """The name, relative path or link of another resource.

    Attributes:
        path: the relative path of such a resource, with ``{}`` for its name.
    """

    path: str = ""

    def same(self, old: Value, new: Value) -> bool:
        """The same resource; with a bare name on either side, the names are compared."""
        if not isinstance(old, str) or not isinstance(new, str):
            return blank(old) and blank(new)
        if "/" not in old or "/" not in new:
            return old.rsplit("/", 1)[-1] == new.rsplit("/", 1)[-1]
        return relative(old) == relative(new)

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The relative path."""
        if not isinstance(value, str):
            return ""
        if "/" in value:
            return relative(value)
        return self.path.format(value, **scope)


def relative(link: str) -> str:
    """``link`` from ``projects/`` on, or as it is when it has no such part."""
    at = link.find("projects/")
    return link[at:] if at >= 0 else link


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    json_type: str = "boolean"

    def accept(self, value: Value, path: str) -> Value:
        """A boolean, or one as a string."""
        if isinstance(value, bool) or value is UNKNOWN:
            return value
        if isinstance(value, str) and value in ("true", "false"):
            return value == "true"
        raise InvalidValueError(path, f"expected a boolean, got {_kind(value)}")

    def same(self, old: Value, new: Value) -> bool:
        """Equal; unset is false."""
        return bool(old) == bool(new) and not has_unknown(new)

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The boolean; unset is false."""
        return bool(value)

    def from_wire(self, value: object) -> Value:
        """The boolean."""
        return None if value is None else bool(value)


@dataclass(frozen=True, slots=True)
class Number:
    """A number.

    Attributes:
        whole: fractions are refused.
        as_text: the API has it as a decimal string, as all 64-bit integers.
    """

    whole: bool = True
    as_text: bool = False
    json_type: str = "number"

    def accept(self, value: Value, path: str) -> Value:
        """A number, or one as a string."""
        if value is UNKNOWN:
            return value
        try:
            number = float(value) if isinstance(value, int | float | str) else None
        except ValueError:
            number = None
        if number is None or isinstance(value, bool):
            raise InvalidValueError(path, f"expected a number, got {_kind(value)}")
        if not self.whole:
            return number
        if not number.is_integer():
            raise InvalidValueError(path, f"expected a whole number, got {number}")
        return int(number)

    def same(self, old: Value, new: Value) -> bool:
        """Equal; unset is zero."""
        return (old or 0) == (new or 0)

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The number, or its decimal string; unset is null."""
        if not isinstance(value, int | float):
            return None
        return str(value) if self.as_text else value

    def from_wire(self, value: object) -> Value:
        """The number."""
        if not isinstance(value, int | float | str):
            return None
        return int(value) if self.whole else float(value)


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of strings.

    Attributes:
        ordered: whether the order matters.
    """

    ordered: bool = False
    json_type: str = "array"

    def accept(self, value: Value, path: str) -> Value:
        """A list of strings."""
        if value is UNKNOWN:
            return value
        if not isinstance(value, list):
            raise InvalidValueError(path, f"expected a list, got {_kind(value)}")
        return [Text().accept(item, f"{path}[{at}]") for at, item in enumerate(value)]

    def same(self, old: Value, new: Value) -> bool:
        """The same strings; in any order unless ``ordered``."""
        if blank(old) and blank(new):
            return True
        if isinstance(old, list) and isinstance(new, list) and not self.ordered:
            return sorted(map(str, old)) == sorted(map(str, new))
        return old == new

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The list; unset is the empty list."""
        return [str(item) for item in value] if isinstance(value, list) else []

    def from_wire(self, value: object) -> Value:
        """The list."""
        return list(value) if isinstance(value, list) else None


@dataclass(frozen=True, slots=True)
class TextMap:
    """A string-to-string object (labels, annotations, tags)."""

    json_type: str = "object"

    def accept(self, value: Value, path: str) -> Value:
        """An object whose values are strings."""
        if value is UNKNOWN:
            return value
        if not isinstance(value, dict):
            raise InvalidValueError(path, f"expected an object, got {_kind(value)}")
        return {
            key: Text().accept(item, f"{path}.{key}")
            for key, item in value.items()
            if item is not None
        }

    def same(self, old: Value, new: Value) -> bool:
        """The same keys and values."""
        return (old or {}) == (new or {})

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The object; unset is the empty object."""
        return {k: str(v) for k, v in value.items()} if isinstance(value, dict) else {}

    def from_wire(self, value: object) -> Value:
        """The object, with every value a string."""
        return {k: str(v) for k, v in value.items()} if isinstance(value, dict) else None


def _kind(value: Value) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")
