"""The inputs of a remote endpoint, from the wire to the sections of a stack file. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pydantic import ValidationError

from pulumi_plugin.changes import entry_path
from pulumi_plugin.values import (
    OUTPUT_SIGNATURE,
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN_SENTINELS,
    Properties,
    Value,
)
from pulumi_plugin.wire import decode
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import Names
from tpuflex.provider.endpoint_schema import DEFAULTS, NAMES, SECTIONS, KeptNames
from tpuflex.settings.findings import UNKNOWN, did_you_mean, findings_of, without_explained
from tpuflex.settings.load import parse
from tpuflex.settings.model import NAMESPACE

_SOURCE = "VllmEndpoint"
_NOT_KNOWN = (
    "the value is not known before the update",
    "An endpoint is checked at the preview: write the value itself, or read it from what exists"
    " already (a StackReference, a function).",
)
_SECRET = (
    "the value is a secret",
    "What an endpoint is made of is readable in the state and on its hosts: write a plain value."
    " Keys and certificates come from Secret Manager, by their version in `secrets`.",
)
_OBJECT = ("the value is a resource or a file", "Write plain text, such as its name.")


@dataclass(frozen=True, slots=True)
class EndpointSections:
    """The inputs of an endpoint, checked.

    Attributes:
        sections: by name, with the keys of a stack file.
        names: the names in the cloud that it keeps; None for those that follow from project,
            stack and name.
    """

    sections: Mapping[str, Value]
    names: Names | None


def endpoint_sections(inputs: Struct) -> EndpointSections:
    """Read and check ``inputs``.

    Raises:
        SettingsError: one is secret, unknown, no plain value, or wrong; holds every finding. Their
            keys are paths of properties. They are told as text: with a path of its own for each,
            the engine would print the value that is there, also a secret one.
    """
    refused = [
        Finding(path, *why)
        for key, value in MessageToDict(inputs).items()
        for path, why in _not_plain(key, value)
    ]
    if refused:
        raise SettingsError(_SOURCE, tuple(refused))
    given: Properties = {**DEFAULTS, **decode(inputs)}
    names, findings = _names(given.pop(NAMES, None))
    known = [*SECTIONS, NAMES]
    findings += [
        Finding(f"{NAMESPACE}{name}", UNKNOWN, did_you_mean(name, known))
        for name in given
        if name not in SECTIONS
    ]
    sections = {name: value for name, value in given.items() if name in SECTIONS}
    try:
        parse(sections, _SOURCE)
    except SettingsError as error:
        findings += error.findings
    if findings:
        raise SettingsError(_SOURCE, tuple(map(_by_property, findings)))
    return EndpointSections(sections, names)


def _by_property(finding: Finding) -> Finding:
    return replace(finding, key=finding.key.removeprefix(NAMESPACE))


def _names(value: Value) -> tuple[Names | None, list[Finding]]:
    if value is None:
        return None, []
    try:
        return KeptNames.model_validate_json(json.dumps(value), strict=True).names, []
    except ValidationError as error:
        errors = error.errors(include_url=False)
        found = findings_of(KeptNames, errors, f"{NAMESPACE}{NAMES}")
        return None, without_explained(found)


def _not_plain(path: str, value: object) -> Iterator[tuple[str, tuple[str, str]]]:
    """Every part of ``value`` that is no plain value, by its path, and why it is refused."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_plain(f"{path}[{index}]", item)
    elif isinstance(value, dict) and SIGNATURE_KEY in value:
        if (why := _signed(value)) is not None:
            yield path, why
        else:
            yield from _not_plain(path, value.get("value"))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _not_plain(entry_path(path, key), item)
    elif isinstance(value, str) and value in UNKNOWN_SENTINELS:
        yield path, _NOT_KNOWN


def _signed(value: Mapping[str, object]) -> tuple[str, str] | None:
    """Why the special ``value`` is refused; None for an output whose value is known and plain."""
    if value[SIGNATURE_KEY] == SECRET_SIGNATURE or value.get("secret") is True:
        return _SECRET
    if value[SIGNATURE_KEY] != OUTPUT_SIGNATURE:
        return _OBJECT
    return None if "value" in value else _NOT_KNOWN
