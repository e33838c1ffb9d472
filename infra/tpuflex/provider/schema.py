"""The package schema that `GetSchema` answers with, made from the arguments' own model: what is
added there appears here by itself."""

from __future__ import annotations

import json

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from tpuflex import __version__
from tpuflex.naming import PACKAGE, QUEUED_RESOURCE, STATE_ID, VLLM_ENDPOINT
from tpuflex.provider.diff import ALWAYS_REPLACE
from tpuflex.provider.examples import queued_resource_example
from tpuflex.provider.functions import FUNCTIONS, AvailableAcceleratorType, Function
from tpuflex.provider.property_types import (
    STRING,
    STRINGS,
    JsonObject,
    object_types,
    properties,
    reference,
    scalar_default,
    types,
)
from tpuflex.queued_resource.fields import REQUIRED, ROWS, RequestArgs
from tpuflex.queued_resource.name import NodeStatus

#: Inputs that the provider fills in: required in the state, optional in a program.
FILLED = frozenset({"queuedResourceId", "project", "labels"})

#: Inputs that nothing in the cloud tells.
_NOT_READ = frozenset(key for key, row in ROWS.items() if not row.at)
_KEYWORDS = ("category/cloud", "kind/native", "tpu", "vllm")
#: `pulumi package add` makes an SDK, which `respectSchemaVersion` gives the version that the engine
#: then asks the plugin for; without a scope of its own npm's would be Pulumi's. Python has this
#: library: an SDK of its name would be installed over it, and over the plugin.
_LANGUAGES: JsonObject = {
    "python": {
        "packageName": f"pulumi_{PACKAGE}",
        "respectSchemaVersion": True,
        "pyproject": {"enabled": True},
    },
    "nodejs": {"packageName": PACKAGE, "respectSchemaVersion": True},
    "go": {"respectSchemaVersion": True, "generateResourceContainerTypes": True},
    "csharp": {"rootNamespace": "Tpuflex", "respectSchemaVersion": True},
}
_NAMES = {to_camel(name): name for name in RequestArgs.model_fields}
#: Output, its type, its text, and whether it is always there.
_OUTPUTS: tuple[tuple[str, JsonObject, str, bool], ...] = (
    ("name", STRING, "Full resource name.", True),
    ("state", STRING, "Google's word for the state, such as WAITING_FOR_RESOURCES.", True),
    (
        "lifecycle",
        STRING,
        "Where it stands: waiting, provisioning, active, ended, failed, lost or deleting.",
        True,
    ),
    ("zone", STRING, "Zone in which the request was placed.", True),
    ("nodeId", STRING, "Id of the node; of several, of the first (see `nodes`).", True),
    (
        "nodeState",
        STRING,
        "Google's word for the node's state, while there is a node; of several, of the first that"
        " is not READY.",
        False,
    ),
    (
        "health",
        STRING,
        "Google's word for the node's health, while there is a node; of several, of the first"
        " that is not HEALTHY.",
        False,
    ),
    (
        "nodes",
        {"type": "array", "items": reference(NodeStatus.__name__)},
        "Each node of the request, in the order of Google's numbers; until it is made, only its"
        " id.",
        True,
    ),
    ("ipAddresses", STRINGS, "Internal IP address of each host, node by node.", True),
    ("createTime", STRING, "When the request was placed (RFC 3339).", False),
    ("activeTime", STRING, "When the (last) node was made (RFC 3339).", False),
    ("expireTime", STRING, "When the run ends at the latest (RFC 3339).", False),
    ("specHash", STRING, "Fingerprint of all that cannot be changed in place.", False),
    (
        "takesOverFrom",
        STRINGS,
        "Full names of the requests that serve, or may come to, until this one does, which is to"
        " take over from them; nothing once it serves.",
        False,
    ),
    (
        "drainsUntil",
        STRING,
        "Until when its hosts were given time to end what they have begun (RFC 3339), `unknown`"
        " where that cannot be read; nothing unless a deletion was begun and not ended.",
        False,
    ),
    (
        "requests",
        STRINGS,
        "Full name of every request that exists or may exist: this one, and those in other zones"
        " that are still to be deleted.",
        True,
    ),
)

_STATE_ID_SCHEMA: JsonObject = {
    "description": (
        "A random id that is kept in the state alone and marks what that state has made: another"
        " clone of the same project and stack has another one. Nothing is asked of any cloud. An"
        " import puts a given id into a state."
    ),
    "inputProperties": {
        "names": {
            "type": "object",
            "additionalProperties": STRING,
            "description": "The `project`, `stack` and `name` that names in the cloud are made of."
            " A check with others than the state has is refused: all of that would be replaced.",
        }
    },
    "properties": {"value": {**STRING, "description": "The id: 20 lower-case hex digits."}},
    "required": ["value"],
}


def package_schema() -> str:
    """The schema as JSON (https://www.pulumi.com/docs/iac/extending-pulumi/schema/).

    It names no homepage, repository, logo or download address: the package is published nowhere
    yet, and pip is what installs the plugin.
    """
    # Imported here: the settings would slow the start of every preview.
    from tpuflex.provider.endpoint_schema import endpoint_schema

    endpoint, sections = endpoint_schema()
    schema = {
        "name": PACKAGE,
        "displayName": "tpuflex",
        "version": __version__,
        "description": (
            "Queued resources on Cloud TPU, Flex-start among them, and private vLLM endpoints on"
            " them."
        ),
        "publisher": PACKAGE,
        "license": "Apache-2.0",
        "keywords": [*_KEYWORDS],
        "meta": {"moduleFormat": "(.*)"},
        "language": _LANGUAGES,
        "config": {"variables": _provider_inputs()},
        "provider": {
            "description": "Talks to the Cloud TPU API, or to the embedded cloud.",
            "inputProperties": _provider_inputs(),
        },
        "types": {
            **types(RequestArgs),
            **object_types(NodeStatus, answered=True),
            **object_types(AvailableAcceleratorType, answered=True),
            **sections,
        },
        "resources": {
            QUEUED_RESOURCE: _queued_resource(),
            STATE_ID: _STATE_ID_SCHEMA,
            VLLM_ENDPOINT: endpoint,
        },
        "functions": {token: _function(function) for token, function in FUNCTIONS.items()},
    }
    return json.dumps(schema, indent=2)


def _queued_resource() -> JsonObject:
    inputs = properties(RequestArgs)
    outputs = {name: {**kind, "description": text} for name, kind, text, _ in _OUTPUTS}
    always = [name for name, _, _, always in _OUTPUTS if always]
    return {
        "description": (
            "A request for a TPU slice (Cloud TPU REST API v2alpha1). With Flex-start it waits in a"
            " queue for capacity, runs for at most `maxRunDuration`, and its hosts are then deleted"
            " by Google."
        )
        + queued_resource_example(),
        "inputProperties": {key: kind | _on_input(key) for key, kind in inputs.items()},
        "requiredInputs": [*sorted(REQUIRED - FILLED)],
        "properties": {**inputs, **outputs},
        "required": [*sorted([*REQUIRED, *always])],
    }


def _function(function: Function) -> JsonObject:
    taken = function.arguments.model_fields.items()
    return {
        "description": function.text,
        "inputs": {
            "type": "object",
            "properties": {**properties(function.arguments)},
            "required": [to_camel(name) for name, field in taken if field.is_required()],
        },
        "outputs": _answer(function.answer),
    }


def _answer(model: type[BaseModel] | None) -> JsonObject:
    """What a function answers with; None is a queued resource, as an import would read it."""
    if model is not None:
        answered = properties(model)
        return {"type": "object", "properties": {**answered}, "required": [*answered]}
    read = {key: kind for key, kind in properties(RequestArgs).items() if key not in _NOT_READ}
    outputs: JsonObject = {key: {**kind, "description": text} for key, kind, text, _ in _OUTPUTS}
    always = [key for key, _, _, always in _OUTPUTS if always]
    return {"type": "object", "properties": {**read, **outputs}, "required": [*sorted(always)]}


def _on_input(key: str) -> JsonObject:
    """What is said of the input ``key`` alone: what it is when it is left out, and whether a
    change replaces."""
    field = RequestArgs.model_fields[_NAMES[key]]
    return scalar_default(field) | ({"willReplaceOnChanges": True} if key in ALWAYS_REPLACE else {})


def _provider_inputs() -> JsonObject:
    return {
        "project": {
            **STRING,
            "description": "Google Cloud project of resources that name none.",
        },
        "embedded": {
            "type": "boolean",
            "description": "True: only the embedded cloud may be talked to; false: only Google.",
        },
    }
