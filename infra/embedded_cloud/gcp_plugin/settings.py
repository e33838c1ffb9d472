"""What a program configures on the ``gcp`` provider itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from embedded_cloud.gcp_plugin.types import Flag, InvalidValueError, Shape, Text, TextMap
from pulumi_plugin.values import Properties, Value, has_unknown

#: What the stand-in honours, and in which shape.
_SERVED: dict[str, Shape] = {
    "addPulumiAttributionLabel": Flag(),
    "defaultLabels": TextMap(),
    "project": Text(),
    "region": Text(),
    "zone": Text(),
}

#: What makes no difference on the embedded cloud, whatever it says.
_WITHOUT_EFFECT = {
    "batching",
    "disableGlobalProjectWarning",
    "disableGooglePartnerName",
    "googlePartnerName",
    "pluginDownloadURL",
    "requestReason",
    "requestTimeout",
    "scopes",
    "skipRegionValidation",
    "version",
}

#: Where the published plugin looks when the program does not say.
_FROM_ENVIRONMENT = {
    "project": (
        "GOOGLE_PROJECT",
        "GOOGLE_CLOUD_PROJECT",
        "GCLOUD_PROJECT",
        "CLOUDSDK_CORE_PROJECT",
    ),
    "region": ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION"),
    "zone": ("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE"),
}


_REFUSAL = (
    "the embedded cloud's stand-in for the gcp plugin does not serve this provider setting; "
    "leave it unset on the embedded cloud"
)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Defaults that one configured provider gives to its resources.

    Attributes:
        project: default project id; empty when none is known.
        region: default region; empty when none is known.
        default_labels: labels that every resource with labels gets.
        attribution: whether ``goog-pulumi-provisioned`` is added.
    """

    project: str = ""
    region: str = ""
    default_labels: Mapping[str, str] = field(default_factory=dict)
    attribution: bool = True


def check(
    values: Mapping[str, Value], environ: Mapping[str, str]
) -> tuple[Properties, list[InvalidValueError]]:
    """The provider's inputs with defaults from ``environ``, and what is wrong with them."""
    inputs: Properties = {}
    invalid: list[InvalidValueError] = []
    for name, value in values.items():
        if name in _SERVED or name in _WITHOUT_EFFECT:
            try:
                _shaped(name, value)
            except InvalidValueError as error:
                invalid.append(error)
            inputs[name] = value
        else:
            invalid.append(InvalidValueError(name, _REFUSAL))
    for name, variables in _FROM_ENVIRONMENT.items():
        found = next((environ[key] for key in variables if environ.get(key)), "")
        if found and not inputs.get(name):
            inputs[name] = found
    return inputs, invalid


def configure(values: Mapping[str, Value]) -> ProviderSettings:
    """The settings that checked provider inputs ask for."""
    known = {name: _shaped(name, value) for name, value in values.items() if name in _SERVED}
    known = {name: value for name, value in known.items() if not has_unknown(value)}
    labels = known.get("defaultLabels")
    return ProviderSettings(
        project=str(known.get("project") or ""),
        region=str(known.get("region") or ""),
        default_labels={k: str(v) for k, v in labels.items()} if isinstance(labels, dict) else {},
        attribution=known.get("addPulumiAttributionLabel") is not False,
    )


def _shaped(name: str, value: Value) -> Value:
    # The engine hands everything but strings to a provider as JSON text.
    shape = _SERVED.get(name)
    if shape is None or value is None:
        return value
    if isinstance(value, str) and not isinstance(shape, Text) and not has_unknown(value):
        try:
            value = json.loads(value)
        except ValueError:
            raise InvalidValueError(name, f"not JSON: {value}") from None
    return shape.accept(value, name)
