"""The provider's own configuration: which project, and Google or the embedded cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulumi_plugin.values import Properties, Value, has_unknown
from tpuflex.errors import AccessError
from tpuflex.google.endpoints import Endpoints
from tpuflex.naming import PACKAGE

#: 0 in the environment: a deletion does not wait for what hosts have begun to answer.
DRAIN_VARIABLE = "TPUFLEX_DRAIN"
#: 1 in the environment: a slice is replaced although nothing of it has changed.
NEW_HOST_VARIABLE = "TPUFLEX_NEW_HOST"
#: The provider's own keys.
KEYS = ("project", "embedded")
#: What the engine keeps among a provider's inputs (`resource/deploy/providers/registry.go` of
#: pulumi/pulumi v3.256.0).
_ENGINES = frozenset(
    {
        "__internal",
        "envVarMappings",
        "name",
        "parameterization",
        "pluginChecksums",
        "pluginDownloadURL",
        "version",
    }
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the provider was configured with.

    Attributes:
        project: default Google Cloud project of resources that name none.
        embedded: True: only the embedded cloud may be talked to; False: only Google;
            None: wherever the environment points.
    """

    project: str | None = None
    embedded: bool | None = None


def failures(inputs: Properties) -> list[tuple[str, str]]:
    """What is wrong with the provider's own keys, as (key, reason)."""
    found = []
    project = inputs.get("project")
    if isinstance(project, (int, float, bool, list, dict)):
        found.append(("project", "it must be the id of a Google Cloud project"))
    embedded = inputs.get("embedded")
    if embedded is not None and not has_unknown(embedded) and _flag(embedded) is None:
        found.append(("embedded", "it must be true or false"))
    return found


def unknown_keys(urn: str, inputs: Properties) -> list[tuple[str, str]]:
    """Keys that mean nothing to anybody, as (key, reason): mistyped ones, most likely.

    The engine hands every key of the `tpuflex:` configuration namespace to the default provider:
    those of a stack file are among them, and in a project called tpuflex the namespace is the
    project's own.
    """
    project, _, name = urn.removeprefix("urn:pulumi:").split("::", 3)[1:]
    unknown = [key for key in inputs if key not in _ENGINES and key not in KEYS]
    if unknown and name.startswith("default"):
        # Imported here: the provider starts without it.
        from tpuflex.settings.model import StackSettings

        ours = project == PACKAGE
        unknown = [key for key in unknown if not ours and key not in StackSettings.model_fields]
    known = " and ".join(KEYS)
    return [(key, f"there is no such key: the provider has {known}") for key in unknown]


def wrong_cloud(inputs: Properties, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Whether ``environ`` points to another cloud than the provider may talk to, as (key, reason).

    Raises:
        SettingsError: an endpoint override is not usable.
    """
    try:
        endpoints(configuration(inputs), environ)
    except AccessError as error:
        return [("embedded", f"{error.message}. {error.hint}")]
    return []


def configuration(inputs: Properties) -> Configuration:
    """Read the provider's inputs, which CheckConfig has accepted."""
    project = inputs.get("project")
    return Configuration(
        project=project if isinstance(project, str) and project else None,
        embedded=_flag(inputs.get("embedded")),
    )


def changed(old: Properties, new: Properties) -> list[str]:
    """The provider's own keys whose meaning differs; an unknown value may."""
    before, after = configuration(old), configuration(new)
    return [
        key
        for key in KEYS
        if getattr(before, key) != getattr(after, key) or has_unknown(new.get(key))
    ]


def endpoints(configured: Configuration, environ: Mapping[str, str]) -> Endpoints:
    """The endpoints to send requests to.

    Raises:
        AccessError: the configuration wants one cloud and the environment points to the other.
        SettingsError: an endpoint override is not usable.
    """
    found = Endpoints.from_environ(environ)
    if configured.embedded is True and not found.embedded:
        raise AccessError(
            "this stack runs on the embedded cloud, but the API endpoints point to Google",
            hint='Run: eval "$(tpuflex emulator env)"',
        )
    if configured.embedded is False and found.embedded:
        raise AccessError(
            "this stack runs on Google Cloud, but the API endpoints point to this machine",
            hint="Unset the CLOUDSDK_API_ENDPOINT_OVERRIDES_* variables; for the embedded cloud set"
            " the provider's embedded to true.",
        )
    return found


def _flag(value: Value) -> bool | None:
    """Configuration reaches a provider as text or as booleans."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value) if isinstance(value, str) else None
