"""The package schema that `GetSchema` answers with, made from the arguments' own model."""

from __future__ import annotations

import json
from typing import get_args

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from tpuflex import __version__
from tpuflex.provider.arguments import REQUIRED, QueuedResourceArgs

JsonObject = dict[str, JsonValue]

PACKAGE = "tpuflex"
QUEUED_RESOURCE = "tpuflex:tpu:QueuedResource"
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
    ("nodeId", _STRING, "Id of the node.", True),
    ("nodeState", _STRING, "Google's word for the node's state, while there is a node.", False),
    ("health", _STRING, "Google's word for the node's health, while there is a node.", False),
    ("ipAddresses", _STRINGS, "Internal IP address of each host.", True),
    ("createTime", _STRING, "When the request was placed (RFC 3339).", False),
    ("activeTime", _STRING, "When the node was made (RFC 3339).", False),
    ("expireTime", _STRING, "When the run ends at the latest (RFC 3339).", False),
    ("specHash", _STRING, "Fingerprint of all that cannot be changed in place.", False),
)


def package_schema() -> str:
    """The schema as JSON (https://www.pulumi.com/docs/iac/extending-pulumi/schema/)."""
    inputs = _inputs()
    outputs = {name: {**kind, "description": text} for name, kind, text, _ in _OUTPUTS}
    required = [*REQUIRED, *(name for name, _, _, always in _OUTPUTS if always)]
    schema = {
        "name": PACKAGE,
        "displayName": "tpuflex",
        "version": __version__,
        "description": "Flex-start queued resources on Cloud TPU.",
        "license": "Apache-2.0",
        "keywords": [*_KEYWORDS],
        "meta": {"moduleFormat": "(.*)"},
        "config": {"variables": _provider_inputs()},
        "provider": {
            "description": "Talks to the Cloud TPU API, or to the embedded cloud.",
            "inputProperties": _provider_inputs(),
        },
        "resources": {
            QUEUED_RESOURCE: {
                "description": (
                    "A request for a TPU slice with Flex-start: it waits in a queue for capacity,"
                    " runs for at most `maxRunDuration`, and is then deleted by Google."
                ),
                "inputProperties": inputs,
                "requiredInputs": sorted(REQUIRED - FILLED),
                "properties": {**inputs, **outputs},
                "required": sorted(required),
            }
        },
    }
    return json.dumps(schema, indent=2)


def _inputs() -> dict[str, JsonValue]:
    return {
        to_camel(name): {
            **_kind(field.annotation),
            "description": " ".join((field.description or "").split()),
        }
        for name, field in QueuedResourceArgs.model_fields.items()
    }


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
    text = str(annotation)
    if annotation is bool:
        return {"type": "boolean"}
    if text.startswith("tuple["):
        return {"type": "array", "items": {"type": "string"}}
    if text.startswith(("dict[", "typing.Annotated[dict[")):
        return {"type": "object", "additionalProperties": {"type": "string"}}
    assert annotation is str or "Literal" in text or str in get_args(annotation) or "str" in text  # noqa: S101
    return {"type": "string"}
