"""Checks that the environment points to the cloud that the settings name.

The plugins take their endpoints from the process environment, the stack its cloud from the
stack file. If the two disagreed, an embedded stack would be created, and paid for, on Google.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Literal
from urllib.parse import urlsplit

from pulumi import RunError

from pulumi_plugin.peer import listens
from tpuflex.errors import SettingsError
from tpuflex.google.endpoints import Endpoints, is_loopback, rehearses

#: Where the published gcp plugin finds the APIs of what the components make, by variable: Google's
#: own, the beta ones, unless one is set (terraform-provider-google-beta 7.45.0; the test holds them
#: to pulumi-gcp's own arguments).
PLUGIN_ENDPOINTS = tuple(
    f"GOOGLE_{api}_CUSTOM_ENDPOINT"
    for api in (
        "COMPUTE",
        "DNS",
        "IAM",
        "IAM_BETA",  # service accounts
        "KMS",
        "MONITORING",
        "RESOURCE_MANAGER",
        "SECRET_MANAGER",
        "SERVICE_USAGE",
        "STORAGE",
    )
)
_PLUGIN_ENDPOINT = re.compile(r"GOOGLE_\w+_CUSTOM_ENDPOINT")
#: Seconds for a plugin to accept a connection.
_ACCEPTED_WITHIN = 5.0
_ENTER = (
    'Run `eval "$(tpuflex emulator env)"` (after `tpuflex emulator start`), or use `tpuflex up`.'
)
_LEAVE = "Open a new shell, or unset the variables that `tpuflex emulator env` prints."


def require_matching_cloud(
    cloud: Literal["google", "embedded"], environ: Mapping[str, str]
) -> None:
    """Refuse to deploy if the environment points to another cloud. In a rehearsal all stacks run
    on the embedded cloud, and the environment is held to that.

    Raises:
        RunError: it does; says how to fix it.
    """
    try:
        endpoints = Endpoints.from_environ(environ)
    except SettingsError as error:
        raise RunError(str(error)) from error
    if runs_embedded(cloud, environ):
        if not endpoints.embedded:
            raise RunError(
                "This stack runs on the embedded cloud, but this shell points to Google Cloud.\n"
                + _ENTER
            )
        _require_local_plugin(environ)
        return
    local = [
        field.name for field in fields(endpoints) if is_loopback(getattr(endpoints, field.name))
    ]
    # Google's storage library uses it regardless of the other variables.
    if environ.get("STORAGE_EMULATOR_HOST"):
        local.append("storage")
    local += _loopback(environ)
    if local or _attached(environ):
        which = f"({', '.join(sorted(set(local)))})" if local else "(the gcp plugin)"
        raise RunError(
            f"This stack runs on Google Cloud, but this shell points to the embedded cloud {which}."
            f"\n{_LEAVE}"
        )


def runs_embedded(cloud: Literal["google", "embedded"], environ: Mapping[str, str]) -> bool:
    """Whether a stack for ``cloud`` runs on the embedded cloud: in a rehearsal all do."""
    return cloud == "embedded" or rehearses(environ)


def _require_local_plugin(environ: Mapping[str, str]) -> None:
    """Refuse to deploy to the embedded cloud unless the gcp plugin reaches nothing else: the
    stand-in is attached, or the published plugin finds every API on loopback."""
    ports = _attached(environ)
    if ports:
        if any(_is_strangers(port) for port in ports):
            raise RunError(
                "The port that PULUMI_DEBUG_PROVIDERS names for the gcp plugin is another user's: "
                "the embedded cloud has ended since, and its stand-in with it.\n" + _ENTER
            )
        return
    local = _loopback(environ)
    elsewhere = [name for name in PLUGIN_ENDPOINTS if name not in local]
    if elsewhere:
        what = "" if len(elsewhere) == len(PLUGIN_ENDPOINTS) else " in part"
        raise RunError(
            "This stack runs on the embedded cloud, but the gcp plugin would talk to Google "
            f"Cloud{what}: PULUMI_DEBUG_PROVIDERS does not name the stand-in, and not on loopback: "
            f"{', '.join(elsewhere)}.\n" + _ENTER
        )
    if any(map(_is_strangers, {local[name] for name in PLUGIN_ENDPOINTS})):
        raise RunError(
            "The port that GOOGLE_COMPUTE_CUSTOM_ENDPOINT and the like name is another user's: the "
            "embedded cloud has ended since.\n" + _ENTER
        )


def _loopback(environ: Mapping[str, str]) -> dict[str, int]:
    """The ports of the plugin's endpoints in ``environ`` that are on loopback."""
    found = {}
    for name, value in environ.items():
        with suppress(ValueError):  # of what is no URL
            if _PLUGIN_ENDPOINT.fullmatch(name) and is_loopback(value):
                found[name] = urlsplit(value).port or 0
    return found


def _is_strangers(port: int) -> bool:
    """Whether another user listens on ``port``."""
    return listens(port, within=_ACCEPTED_WITHIN) is False


def _attached(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Ports of plugins for gcp that the engine is to attach to."""
    entries = (entry.strip() for entry in environ.get("PULUMI_DEBUG_PROVIDERS", "").split(","))
    ports = (entry.partition(":")[2] for entry in entries if entry.startswith("gcp:"))
    return tuple(int(port) if port.isdecimal() and int(port) < 65536 else 0 for port in ports)
