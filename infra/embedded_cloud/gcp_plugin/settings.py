"""Configured ``gcp`` providers: their settings, and which of them a call belongs to.

Attached by port, one plugin process serves the configured providers of all stacks at once, and
the protocol's calls do not name theirs. The engine opens one connection per configured provider,
so a call is assigned by its connection.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from embedded_cloud.gcp_plugin.types import Flag, InvalidValueError, PropertyType, Text, TextMap
from pulumi_plugin.values import Properties, Value, has_unknown

#: The settings that the stand-in honours, and their types.
_SERVED: dict[str, PropertyType] = {
    "addPulumiAttributionLabel": Flag(),
    "defaultLabels": TextMap(),
    "project": Text(),
    "region": Text(),
    "zone": Text(),
}

#: Settings that are accepted but have no effect on the embedded cloud.
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

#: Environment variables in which the published plugin looks for a setting.
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


#: How many connections are remembered; the engine closes them without notice.
_REMEMBERED = 256

_REFUSAL = (
    "the embedded cloud's stand-in for the gcp plugin does not serve this provider setting; "
    "leave it unset on the embedded cloud"
)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Defaults that one configured provider gives to its resources.

    Attributes:
        project: default project id; may be empty.
        region: default region; may be empty.
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
    """The provider's inputs with defaults from ``environ``, and all that is wrong with them."""
    inputs: Properties = {}
    invalid: list[InvalidValueError] = []
    for name, value in values.items():
        if name in _SERVED or name in _WITHOUT_EFFECT:
            try:
                _converted(name, value)
            except InvalidValueError as error:
                invalid.append(error)
            inputs[name] = value
        else:
            invalid.append(InvalidValueError(name, _REFUSAL))
    for name, variables in _FROM_ENVIRONMENT.items():
        default = next((environ[key] for key in variables if environ.get(key)), "")
        if default and not inputs.get(name):
            inputs[name] = default
    return inputs, invalid


def configure(values: Mapping[str, Value]) -> ProviderSettings:
    """The settings that checked provider inputs ask for."""
    served = {name: _converted(name, value) for name, value in values.items() if name in _SERVED}
    known = {name: value for name, value in served.items() if not has_unknown(value)}
    labels = known.get("defaultLabels")
    return ProviderSettings(
        project=str(known.get("project") or ""),
        region=str(known.get("region") or ""),
        default_labels={k: str(v) for k, v in labels.items()} if isinstance(labels, dict) else {},
        attribution=known.get("addPulumiAttributionLabel") is not False,
    )


def _converted(name: str, value: Value) -> Value:
    # The engine passes everything but strings to a provider as JSON text.
    type_ = _SERVED.get(name)
    if type_ is None or value is None:
        return value
    if isinstance(value, str) and not isinstance(type_, Text) and not has_unknown(value):
        try:
            value = json.loads(value)
        except ValueError:
            raise InvalidValueError(name, f"not JSON: {value}") from None
    return type_.accept(value, name)


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """One configured provider.

    Attributes:
        settings: what it was configured with.
        cancelled: set once the engine cancels; waits then end.
    """

    settings: ProviderSettings = field(default_factory=ProviderSettings)
    cancelled: threading.Event = field(default_factory=threading.Event)


class ConfiguredProviders:
    """The configured providers, by connection. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_peer: OrderedDict[str, ConfiguredProvider] = OrderedDict()
        self._latest = ConfiguredProvider()

    def configure(self, peer: str, settings: ProviderSettings) -> ConfiguredProvider:
        """Remember that the provider behind ``peer`` has ``settings``."""
        provider = ConfiguredProvider(settings)
        with self._lock:
            self._by_peer[peer] = self._latest = provider
            self._by_peer.move_to_end(peer)
            while len(self._by_peer) > _REMEMBERED:
                self._by_peer.popitem(last=False)
        return provider

    def of(self, peer: str) -> ConfiguredProvider:
        """The provider behind ``peer``; after a reconnection, the one configured last."""
        with self._lock:
            return self._by_peer.get(peer, self._latest)

    def cancel(self, peer: str) -> None:
        """End the waits of the provider behind ``peer``."""
        self.of(peer).cancelled.set()
