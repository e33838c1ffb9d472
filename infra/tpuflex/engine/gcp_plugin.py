"""The published gcp plugin: where the user has one at hand, named or on PATH, and where the engine
keeps the one that it fetches.

The engine runs a plugin that it finds on PATH before any that it has downloaded. On the embedded
cloud such a plugin takes the place of the stand-in.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tpuflex.errors import Finding, SettingsError
from tpuflex.files.trusted import own_directory, write_private

#: Names the plugin's executable, or :data:`STAND_IN`.
VARIABLE = "TPUFLEX_GCP_PLUGIN"
#: Its value for the embedded cloud's own stand-in, whatever is on PATH.
STAND_IN = "stand-in"

_EXECUTABLE = "pulumi-resource-gcp"
#: With it the engine runs no plugin that is on PATH (sdk/go/common/env of pulumi/pulumi, v3.256).
_NO_AMBIENT = "PULUMI_IGNORE_AMBIENT_PLUGINS"


@dataclass(frozen=True, slots=True)
class GcpPlugin:
    """A gcp plugin that is to be run.

    Attributes:
        path: its executable.
        named: whether :data:`VARIABLE` names it; otherwise it is on PATH.
    """

    path: Path
    named: bool

    def __str__(self) -> str:
        return f"{self.path} ({f'named by {VARIABLE}' if self.named else 'found on PATH'})"


def pulumi_home(environ: Mapping[str, str]) -> Path:
    """Where Pulumi keeps its login, and the plugins that it runs."""
    return Path(environ.get("PULUMI_HOME") or Path(environ.get("HOME", "/")) / ".pulumi")


def gcp_plugin_release() -> str:
    """The version of the plugin that the engine runs: that of the Python package."""
    return version("pulumi-gcp")


def fetched_gcp_plugin(environ: Mapping[str, str]) -> Path:
    """The executable of that version where the engine keeps it once it was fetched."""
    directory = f"resource-gcp-v{gcp_plugin_release()}"
    return pulumi_home(environ) / "plugins" / directory / _EXECUTABLE


def find_gcp_plugin(environ: Mapping[str, str]) -> GcpPlugin | None:
    """The plugin that ``environ`` names, or else has on PATH; None if it does neither.

    Raises:
        SettingsError: what it names is no executable file.
    """
    named = environ.get(VARIABLE, "")
    if named == STAND_IN:
        return None
    if named:
        path = Path(named).expanduser().absolute()
        if not path.is_file() or not os.access(path, os.X_OK):
            remedy = f"Name the executable {_EXECUTABLE}, write {STAND_IN}, or unset {VARIABLE}."
            finding = Finding(VARIABLE, f"{named} is no executable file", remedy)
            raise SettingsError("the environment", (finding,))
    else:
        found = shutil.which(_EXECUTABLE, path=environ.get("PATH", ""))
        if found is None or environ.get(_NO_AMBIENT):
            return None
        path = Path(found).absolute()
    return GcpPlugin(path, named=bool(named))


def callers_stand_in(home: Path) -> GcpPlugin:
    """The stand-in as a plugin that the engine starts: it acts as whoever runs the engine, while
    the one that the embedded cloud serves acts as that cloud's owner.

    Args:
        home: state directory of tpuflex, where its executable is written.
    """
    directory = home / "gcp-stand-in"
    own_directory(directory)
    path = directory / _EXECUTABLE
    # Isolated from the working directory, as the provider is.
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m embedded_cloud.gcp_plugin "$@"\n'
    write_private(path, script)
    path.chmod(0o700)
    return GcpPlugin(path, named=False)


def with_gcp_plugin(environ: Mapping[str, str], plugin: GcpPlugin, home: Path) -> dict[str, str]:
    """``environ`` for an engine that runs ``plugin``: first on PATH, in a directory of its own,
    because others beside it would be found there, too.

    Args:
        environ: the environment.
        plugin: the plugin.
        home: state directory of tpuflex.
    """
    directory = home / "gcp-plugin"
    own_directory(directory)
    link = directory / _EXECUTABLE
    if plugin.path != link:
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(plugin.path)
    rest = [entry for entry in environ.get("PATH", "").split(os.pathsep) if entry != str(directory)]
    kept = {key: value for key, value in environ.items() if key != _NO_AMBIENT}
    return {**kept, "PATH": os.pathsep.join((str(directory), *rest))}
