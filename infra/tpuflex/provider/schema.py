"""The package schema that `GetSchema` answers with, made from the arguments' own model: what is
added there appears here by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.alias_generators import to_camel

from tpuflex import __version__
from tpuflex.naming import QUEUED_RESOURCE, STATE_ID
from tpuflex.request.fields import REQUIRED, RequestArgs
from tpuflex.request.name import NodeStatus

JsonObject = dict[str, JsonValue]

PACKAGE = "tpuflex"
#: Inputs that the provider fills in: required in the state, optional in a program.
FILLED = frozenset({"queuedResourceId", "project", "labels"})

_KEYWORDS = ("category/cloud", "kind/native", "tpu", "vllm")
_STRING: JsonObject = {"type": "string"}
_STRINGS: JsonObject = {"type": "array", "items": {"type": "string"}}
#: Output, its type, its text, and whether it is always there.
_OUTPUTS: tuple[tuple[str, JsonObject, str, bool], ...] = (
    ("name", _STRING, "Full resource name.", True),
    ("state", _STRING, "Google's word for the state, such as WAITING_FOR_RESOURCES.", True),
    (
        "lifecycle",
        _STRING,
        "Where it stands: waiting, provisioning, active, ended, failed, lost or deleting.",
        True,
    ),
    ("zone", _STRING, "Zone in which the request was placed.", True),
    ("nodeId", _STRING, "Id of the node; of several, of the first (see `nodes`).", True),
    (
        "nodeState",
        _STRING,
        "Google's word for the node's state, while there is a node; of several, of the first that"
        " is not READY.",
        False,
    ),
    (
        "health",
        _STRING,
        "Google's word for the node's health, while there is a node; of several, of the first"
        " that is not HEALTHY.",
        False,
    ),
    (
        "nodes",
        {"type": "array", "items": {"$ref": "#/types/tpuflex:tpu:NodeStatus"}},
        "Each node of the request, in the order of Google's numbers; until it is made, only its"
        " id.",
        False,
    ),
    ("ipAddresses", _STRINGS, "Internal IP address of each host, node by node.", True),
    ("createTime", _STRING, "When the request was placed (RFC 3339).", False),
    ("activeTime", _STRING, "When the (last) node was made (RFC 3339).", False),
    ("expireTime", _STRING, "When the run ends at the latest (RFC 3339).", False),
    ("specHash", _STRING, "Fingerprint of all that cannot be changed in place.", False),
    (
        "requests",
        _STRINGS,
        "Full name of every request that exists or may exist: this one, and those in other zones"
        " that are still to be deleted.",
        False,
    ),
)

_STATE_ID_SCHEMA: JsonObject = {
    "description": (
        "A random id that is kept in the state alone and marks what that state has made: another"
        " clone of the same project and stack has another one. Nothing is asked of any cloud. An"
        " import puts a given id into a state."
    ),
    "properties": {"value": {**_STRING, "description": "The id: 20 lower-case hex digits."}},
    "required": ["value"],
}


def package_schema() -> str:
    """The schema as JSON (https://www.pulumi.com/docs/iac/extending-pulumi/schema/)."""
    inputs = _properties(RequestArgs)
    outputs = {name: {**kind, "description": text} for name, kind, text, _ in _OUTPUTS}
    required = [*REQUIRED, *(name for name, _, _, always in _OUTPUTS if always)]
    schema = {
        "name": PACKAGE,
        "displayName": "tpuflex",
        "version": __version__,
        "description": "Queued resources on Cloud TPU, Flex-start among them.",
        "license": "Apache-2.0",
        "keywords": [*_KEYWORDS],
        "meta": {"moduleFormat": "(.*)"},
        "config": {"variables": _provider_inputs()},
        "provider": {
            "description": "Talks to the Cloud TPU API, or to the embedded cloud.",
            "inputProperties": _provider_inputs(),
        },
        "types": {_token(group): _object(group) for group in _groups(RequestArgs)}
        | {_token(NodeStatus): _object(NodeStatus)},
        "resources": {
            QUEUED_RESOURCE: {
                "description": (
                    "A request for a TPU slice (Cloud TPU REST API v2alpha1). With Flex-start it"
                    " waits in a queue for capacity, runs for at most `maxRunDuration`, and its"
                    " hosts are then deleted by Google."
                ),
                "inputProperties": inputs,
                "requiredInputs": sorted(REQUIRED - FILLED),
                "properties": {**inputs, **outputs},
                "required": sorted(required),
            },
            STATE_ID: _STATE_ID_SCHEMA,
        },
    }
    return json.dumps(schema, indent=2)


def _properties(group: type[BaseModel]) -> dict[str, JsonValue]:
    return {
        to_camel(name): {
            **_kind(field.annotation),
            "description": " ".join((field.description or "").split()),
        }
        for name, field in group.model_fields.items()
    }


def _object(group: type[BaseModel]) -> JsonObject:
    required = [to_camel(name) for name, f in group.model_fields.items() if f.is_required()]
    return {
        "type": "object",
        "description": " ".join((group.__doc__ or "").split()),
        "properties": _properties(group),
        "required": [*required],
    }


def _groups(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The object types that the fields of ``model`` have, at any depth."""
    for field in model.model_fields.values():
        for part in _parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield part
                yield from _groups(part)


def _parts(annotation: object) -> Iterator[object]:
    yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)


def _token(group: type[BaseModel]) -> str:
    return f"{PACKAGE}:tpu:{group.__name__}"


def _provider_inputs() -> JsonObject:
    return {
        "project": {
            "type": "string",
            "description": "Google Cloud project of resources that name none.",
        },
        "embedded": {
            "type": "boolean",
            "description": "True: only the embedded cloud may be talked to; false: only Google.",
        },
    }


def _kind(annotation: object) -> JsonObject:
    """The schema of a field's type. An ``Annotated`` type is what it annotates."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (only,) = (argument for argument in arguments if argument is not NoneType)
        return _kind(only)
    if origin is tuple:
        return {"type": "array", "items": _kind(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _kind(arguments[1])}
    if origin is Literal:
        return _STRING
    if arguments:
        return _kind(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {"$ref": f"#/types/{_token(annotation)}"}
    kinds = {str: "string", bool: "boolean", int: "integer"}
    assert isinstance(annotation, type)  # noqa: S101 - what arguments are made of
    return {"type": kinds[annotation]}
