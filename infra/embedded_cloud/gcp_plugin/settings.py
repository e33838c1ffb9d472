"""What a program configures on the ``gcp`` provider itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from embedded_cloud.gcp_plugin.shapes import Flag, Misfit, Shape, Text, TextMap
from embedded_cloud.gcp_plugin.values import has_unknown
from embedded_cloud.json_types import JsonObject, JsonValue

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
    values: Mapping[str, JsonValue], environ: Mapping[str, str]
) -> tuple[JsonObject, list[Misfit]]:
    """The provider's inputs with defaults from ``environ``, and what is wrong with them."""
    inputs: JsonObject = {}
    misfits: list[Misfit] = []
    for name, value in values.items():
        if name in _SERVED or name in _WITHOUT_EFFECT:
            try:
                _shaped(name, value)
            except Misfit as misfit:
                misfits.append(misfit)
            inputs[name] = value
        else:
            misfits.append(Misfit(name, _REFUSAL))
    for name, variables in _FROM_ENVIRONMENT.items():
        found = next((environ[key] for key in variables if environ.get(key)), "")
        if found and not inputs.get(name):
            inputs[name] = found
    return inputs, misfits


def configure(values: Mapping[str, JsonValue]) -> ProviderSettings:
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


def _shaped(name: str, value: JsonValue) -> JsonValue:
    # The engine hands everything but strings to a provider as JSON text.
    shape = _SERVED.get(name)
    if shape is None or value is None:
        return value
    if isinstance(value, str) and not isinstance(shape, Text) and not has_unknown(value):
        try:
            value = json.loads(value)
        except ValueError:
            raise Misfit(name, f"not JSON: {value}") from None
    return shape.accept(value, name)
