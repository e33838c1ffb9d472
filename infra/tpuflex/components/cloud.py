"""Checks that the environment points to the cloud that the settings name.

The plugins take their endpoints from the process environment, the stack its cloud from the
stack file. If the two disagreed, an embedded stack would be created, and paid for, on Google.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal

from pulumi import RunError

from pulumi_plugin.peer import listens
from tpuflex.errors import SettingsError
from tpuflex.gcp.endpoints import Endpoints, is_loopback

#: Seconds for a plugin to accept a connection.
_ACCEPTED_WITHIN = 5.0
_ENTER = (
    'Run `eval "$(tpuflex emulator env)"` (after `tpuflex emulator start`), or use `tpuflex up`.'
)
_LEAVE = "Open a new shell, or unset the variables that `tpuflex emulator env` prints."


def require_matching_cloud(
    cloud: Literal["google", "embedded"], environ: Mapping[str, str]
) -> None:
    """Refuse to deploy if the environment points to another cloud.

    Raises:
        RunError: it does; says how to fix it.
    """
    try:
        endpoints = Endpoints.from_environ(environ)
    except SettingsError as error:
        raise RunError(str(error)) from error
    if cloud == "embedded":
        if not endpoints.embedded:
            raise RunError(
                "This stack runs on the embedded cloud, but this shell points to Google Cloud.\n"
                + _ENTER
            )
        if not _gcp_plugin_is_local(environ):
            raise RunError(
                "This stack runs on the embedded cloud, but the gcp plugin would talk to Google "
                "Cloud: PULUMI_DEBUG_PROVIDERS does not name it.\n" + _ENTER
            )
        if any(listens(port, within=_ACCEPTED_WITHIN) is False for port in _attached(environ)):
            raise RunError(
                "The port that PULUMI_DEBUG_PROVIDERS names for the gcp plugin is another user's: "
                "the embedded cloud has ended since, and its stand-in with it.\n" + _ENTER
            )
        return
    local = [
        field.name for field in fields(endpoints) if is_loopback(getattr(endpoints, field.name))
    ]
    # Google's storage library uses it regardless of the other variables.
    if environ.get("STORAGE_EMULATOR_HOST"):
        local.append("storage")
    if local or _attached(environ):
        which = f"({', '.join(sorted(set(local)))})" if local else "(the gcp plugin)"
        raise RunError(
            f"This stack runs on Google Cloud, but this shell points to the embedded cloud {which}."
            f"\n{_LEAVE}"
        )


def _gcp_plugin_is_local(environ: Mapping[str, str]) -> bool:
    """Whether the bundled stand-in is attached, or the published plugin uses loopback."""
    return bool(_attached(environ)) or is_loopback(
        environ.get("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "")
    )


def _attached(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Ports of plugins for gcp that the engine is to attach to."""
    entries = (entry.strip() for entry in environ.get("PULUMI_DEBUG_PROVIDERS", "").split(","))
    ports = (entry.partition(":")[2] for entry in entries if entry.startswith("gcp:"))
    return tuple(int(port) if port.isdecimal() and int(port) < 65536 else 0 for port in ports)
