"""The published gcp plugin: where the user has one at hand, named or on PATH, where the engine
keeps the one that it fetches, and the project's pin of that one.

The engine runs a plugin that it finds on PATH before any that it has downloaded. On the embedded
cloud such a plugin takes the place of the stand-in.

The engine fetches the plugin in exactly the version of `pulumi-gcp`, over TLS, and checks no
checksum unless it is given one: the Python SDK carries none (its pulumi-plugin.json), and the
resources of a plain plugin cannot say one. `pulumi plugin install --checksum` takes the SHA-256 of
the archive, but in v3.256 it leaves out the bytes with which the end of the body comes, which over
HTTP/1.1 are always some (sdk/go/common/workspace/plugins.go, ``checksumReader``). So a project may
hold the checksums of the archives, in the form of sha256sum(1): before the plugin gets Google
credentials, the archive is fetched and checked here, the engine installs that file, and what it
made is compared before each run.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from tpuflex.both_ends import both_ends
from tpuflex.errors import AccessError, EngineError, Finding, SettingsError
from tpuflex.files.trusted import child_environment, own_directory, write_private

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
    """The stand-in as a plugin that the engine starts: it acts as the user who runs the engine,
    while the one that the embedded cloud serves acts as that cloud's owner.

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


#: Beside Pulumi.yaml.
PIN_FILE = "gcp-plugin.sha256"

_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64}) [ *](?P<file>\S+)")
#: Pulumi's names of processors (``runtime.GOARCH``).
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "amd64": "amd64"}
_INSTALL_S = 600
_ANSWER_S = 60
#: Where Pulumi has the archives of its plugins (``getPulumiSource`` in
#: sdk/go/common/workspace/plugins.go).
SOURCE = "https://get.pulumi.com/releases/plugins"


def archive_name() -> str:
    """The file of a release with the plugin for this machine, in the version of `pulumi-gcp`."""
    processor = _PROCESSORS.get(platform.machine().lower(), platform.machine())
    return f"pulumi-resource-gcp-v{gcp_plugin_release()}-{sys.platform}-{processor}.tar.gz"


def require_pinned_plugin(
    root: Path,
    home: Path,
    engine: Path,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    *,
    source: str = SOURCE,
) -> None:
    """Make sure that the engine runs the gcp plugin that the project pins, if it pins one.

    Args:
        root: directory of Pulumi.yaml.
        home: state directory of tpuflex, which records what was installed.
        engine: the engine's executable.
        environ: the engine's environment.
        progress: takes a line about what takes long.
        source: where the archives are.

    Raises:
        SettingsError: the pin cannot be read, or says nothing of this machine and version.
        AccessError: another plugin would be run than that one.
        EngineError: it cannot be fetched, or is not what is pinned.
    """
    if not os.path.lexists(root / PIN_FILE):  # a link that leads nowhere is a pin that is wrong
        return
    if not (root / PIN_FILE).exists():
        raise _wrong("is a link that leads to no file", "Mend the link, or remove it.")
    pinned = _pinned(root / PIN_FILE)
    if (other := find_gcp_plugin(environ)) is not None:
        raise AccessError(
            f"{PIN_FILE} pins the gcp plugin, but {other} would be run instead.",
            hint=f"Unset {VARIABLE}, take it off PATH, or remove {PIN_FILE}.",
        )
    release, executable = gcp_plugin_release(), fetched_gcp_plugin(environ)
    record = home / "gcp-plugin-pin.json"
    if executable.is_file() and _recorded(record) == [pinned, _file_sha256(executable)]:
        return
    progress(f"Installing the gcp plugin {release} by the checksum of {PIN_FILE} …")
    with TemporaryDirectory() as directory:
        archive = Path(directory) / archive_name()
        _fetch(f"{source}/{archive.name}", archive)
        if (found := _file_sha256(archive)) != pinned:
            raise EngineError(
                f"{source}/{archive.name} is not what {PIN_FILE} pins: its SHA-256 is {found}, not"
                f" {pinned}. Nothing was installed.",
                hint="Find out which of them is that release before you go on.",
            )
        _install(engine, release, archive, environ)
    own_directory(home)
    write_private(record, json.dumps([pinned, _file_sha256(executable)]))


def _pinned(file: Path) -> str:
    """The checksum for this machine."""
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(f"cannot be read ({error})", "Write it as sha256sum does.") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise _wrong(f"line {number} is no checksum", "Write: SHA256  FILE.")
            found[match["file"]] = match["sha256"]
    if (sha256 := found.get(archive_name())) is None:
        raise _wrong(
            f"has no line for {archive_name()}",
            "Add it, from the checksums of that release of pulumi-gcp, or remove the file.",
        )
    return sha256


def _wrong(problem: str, remedy: str) -> SettingsError:
    return SettingsError("the project", (Finding(PIN_FILE, problem, remedy),))


def _fetch(url: str, target: Path) -> None:
    import requests

    try:
        with requests.get(url, stream=True, timeout=_ANSWER_S) as answer, target.open("wb") as file:
            answer.raise_for_status()
            for piece in answer.iter_content(1 << 20):
                file.write(piece)
    except (requests.RequestException, OSError) as error:
        raise EngineError(f"The gcp plugin cannot be fetched: {error}.") from error


def _install(engine: Path, release: str, archive: Path, environ: Mapping[str, str]) -> None:
    # What is installed already was perhaps not checked: it is replaced.
    words = ["plugin", "install", "resource", "gcp", release, "--reinstall", "--file", str(archive)]
    try:
        done = subprocess.run(
            [engine, *words, "--non-interactive", "--color=never"],
            env=child_environment(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"The gcp plugin cannot be installed: {error}.") from error
    if done.returncode != 0:
        raise EngineError(f"The gcp plugin was not installed:\n{both_ends(done.stderr, 2000)}")


def _recorded(record: Path) -> object:
    try:
        return json.loads(record.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _file_sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
