"""Checks of JSON bodies against the schemas of a discovery document."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from embedded_cloud.core.errors import CloudError, bad_request, invalid_argument
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    as_object,
    child,
    flag,
    text,
    texts,
)

_INT64 = re.compile(r"-?\d+")
_DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

#: Cloud Storage's document requires acl in a PUT; with uniform access its servers refuse it. Name
#: and resource of a log entry may be those of the whole request (WriteLogEntriesRequest); gcloud
#: sends the resource `global` without labels.
_UNENFORCED = frozenset({"acl", "logName", "resource", "labels"})

#: Fields that no discovery document has, but that terraform-provider-google sends on every create,
#: and Google accepts: by schema, with where they are sent from.
_UNDOCUMENTED: Mapping[str, frozenset[str]] = {
    # google/services/compute/resource_compute_network.go, ComputeNetworkCreate
    "NetworkRoutingConfig": frozenset({"deleteBgpAlwaysCompareMed"}),
    # google/services/compute/resource_compute_router_nat.go, ComputeRouterNatCreate
    "RouterNat": frozenset({"initialNatIps"}),
}

_STRING_FORMATS: dict[str, tuple[re.Pattern[str], str]] = {
    "int64": (_INT64, "TYPE_INT64"),
    "uint64": (_INT64, "TYPE_UINT64"),
    "google-duration": (_DURATION, "type.googleapis.com/google.protobuf.Duration"),
    "google-datetime": (_TIMESTAMP, "type.googleapis.com/google.protobuf.Timestamp"),
}
_SCALARS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "TYPE_STRING"),
    "boolean": (bool, "TYPE_BOOL"),
    "integer": (int, "TYPE_INT32"),
    "number": ((int, float), "TYPE_DOUBLE"),
}

#: Enums whose numbers are not their order (google/cloud/tpu/v2/cloud_tpu.proto).
_ENUM_NUMBERS: dict[tuple[str, ...], dict[int, str]] = {
    ("TYPE_UNSPECIFIED", "V2", "V3", "V4", "V5LITE_POD", "V5P", "V6E"): {
        0: "TYPE_UNSPECIFIED",
        2: "V2",
        4: "V3",
        7: "V4",
        9: "V5LITE_POD",
        10: "V5P",
        11: "V6E",
    }
}


class BodyChecker:
    """Checks a body against its schema.

    Args:
        schemas: the document's ``schemas``.
        method_id: the method called; some documents list the methods that require a field.
        require: whether fields documented as required must be there.
        keep_null: whether a null is an instruction (clear the field) or the same as absent.
    """

    def __init__(
        self, schemas: JsonObject, *, method_id: str, require: bool, keep_null: bool = False
    ) -> None:
        self._schemas = schemas
        self._method_id = method_id
        self._require = require
        self._keep_null = keep_null

    def check(self, schema: str, body: JsonObject) -> JsonObject:
        """``body`` without output-only fields; raises 400 for anything that does not fit."""
        # Messages named ...Request are the whole request; others are one field of it.
        root = "" if schema.endswith("Request") else snake(schema[0].lower() + schema[1:])
        return self._object(schema, body, root)

    def visible(self, schema: str, value: JsonObject) -> JsonObject:
        """``value`` with only what ``schema`` has, nothing else checked."""
        properties = child(child(self._schemas, schema), "properties")
        if not properties:
            return value
        return {
            key: self._visible_value(child(properties, key), entry)
            for key, entry in value.items()
            if key in properties
        }

    def _visible_value(self, declared: JsonObject, value: JsonValue) -> JsonValue:
        reference = text(declared, "$ref")
        if reference and isinstance(value, dict):
            return self.visible(reference, value)
        if isinstance(value, list):
            return [self._visible_value(child(declared, "items"), entry) for entry in value]
        return value

    def _object(self, schema: str, body: JsonObject, path: str) -> JsonObject:
        declared = child(self._schemas, schema)
        properties = child(declared, "properties")
        if not properties and "additionalProperties" in declared:
            return body
        dropped = _UNDOCUMENTED.get(schema, frozenset())
        known = {key: value for key, value in body.items() if key not in dropped}
        return self._fields(properties, known, path)

    def _fields(self, properties: JsonObject, body: JsonObject, path: str) -> JsonObject:
        kept: JsonObject = {}
        for key, value in body.items():
            if key not in properties:
                raise _unknown(key, path)
            field = child(properties, key)
            if flag(field, "readOnly"):
                continue
            if value is None:
                if self._keep_null:
                    kept[key] = None
                continue
            kept[key] = self._value(field, value, _join(path, key))
        if self._require:
            self._check_required(properties, kept, path)
        return kept

    def _check_required(self, properties: JsonObject, body: JsonObject, path: str) -> None:
        for key in sorted(properties.keys() - _UNENFORCED):
            field = child(properties, key)
            annotated = texts(child(field, "annotations"), "required")
            documented = text(field, "description").startswith("Required.") and not annotated
            if (documented or self._method_id in annotated) and body.get(key) in (None, "", {}, []):
                where = _join(path, key)
                raise _violation(where, f"Missing required field: {where}")

    def _value(self, field: JsonObject, value: JsonValue, path: str) -> JsonValue:
        reference = text(field, "$ref")
        if reference:
            if not isinstance(value, dict):
                raise _wrong_type(path, f"type.googleapis.com/{reference}", value)
            return self._object(reference, value, path)
        kind = text(field, "type")
        if kind == "array":
            # A repeated field given as one value is read as a list of one.
            entries = value if isinstance(value, list) else [value]
            item = child(field, "items")
            return [
                self._value(item, entry, f"{path}[{index}]") for index, entry in enumerate(entries)
            ]
        if kind == "object":
            return self._map(field, value, path)
        if kind in _SCALARS:
            return _scalar(field, kind, value, path)
        return value

    def _map(self, field: JsonObject, value: JsonValue, path: str) -> JsonValue:
        if not isinstance(value, dict):
            raise _wrong_type(path, "Map", value)
        declared = field.get("additionalProperties")
        if declared is None:
            # An object declared in place, as Cloud Storage's document does.
            properties = child(field, "properties")
            return self._fields(properties, value, path) if properties else value
        entry_schema = as_object(declared)
        return {
            key: entry
            if entry is None and self._keep_null
            else self._value(entry_schema, entry, f"{path}[{key}]")
            for key, entry in value.items()
        }


def _scalar(field: JsonObject, kind: str, value: JsonValue, path: str) -> JsonValue:
    python_type, type_name = _SCALARS[kind]
    form = text(field, "format")
    enum = texts(field, "enum")
    if enum and isinstance(value, int) and not isinstance(value, bool):
        value = _enum_of_number(enum, value)
    if form in ("int64", "uint64") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind == "integer" and isinstance(value, str) and _INT64.fullmatch(value):
        return int(value)
    if not isinstance(value, python_type) or (isinstance(value, bool) and kind != "boolean"):
        raise _wrong_type(path, type_name, value)
    if enum and value not in enum:
        raise _wrong_type(path, "type.googleapis.com/" + _enum_name(path), value)
    if isinstance(value, str) and form in _STRING_FORMATS:
        pattern, form_name = _STRING_FORMATS[form]
        if not pattern.fullmatch(value):
            raise _wrong_type(path, form_name, value)
    if isinstance(value, str) and form == "byte":
        _check_base64(path, value)
    return value


def _enum_of_number(enum: list[str], value: int) -> JsonValue:
    """The name of an enum value that was sent as its number, as Google's libraries do."""
    numbers = _ENUM_NUMBERS.get(tuple(enum), dict(enumerate(enum)))
    return numbers.get(value, value)


def _check_base64(path: str, value: str) -> None:
    try:
        standard = value.replace("-", "+").replace("_", "/")
        base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        # The value may be a secret: it is not repeated.
        message = f"Invalid value at '{path}' (TYPE_BYTES), Base64 decoding failed"
        raise _violation(path, message) from None


def _enum_name(path: str) -> str:
    last = re.sub(r"\[.*?\]$", "", path.rsplit(".", 1)[-1])
    return "".join(part.capitalize() for part in last.split("_"))


def _unknown(key: str, path: str) -> CloudError:
    where = f" at '{path}'" if path else ""
    message = f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.'
    return _violation(path, message)


def _wrong_type(path: str, expected: str, value: JsonValue) -> CloudError:
    shown = f'"{value}"' if isinstance(value, str) else type(value).__name__
    return _violation(path, f"Invalid value at '{path}' ({expected}), {shown}")


def _violation(path: str, message: str) -> CloudError:
    return invalid_argument(message, [bad_request(field=path, description=message)])


def _join(path: str, key: str) -> str:
    return f"{path}.{snake(key)}" if path else snake(key)


def snake(name: str) -> str:
    """``nodeSpec`` as the protocol buffers spell it: ``node_spec``."""
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", name)
