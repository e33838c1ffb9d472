"""What this machine has: the engine, Pulumi's plugins, gcloud, the embedded cloud's packages."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tpuflex.errors import EmulatorError, EngineError, TpuflexError
from tpuflex.gcloud_commands import install
from tpuflex.operate.doctor.check import Check, Group, Subject
from tpuflex.operate.doctor.reading import Unread

ENGINE = Subject(Group.MACHINE, "engine")
GCLOUD = Subject(Group.MACHINE, "gcloud")
EMBEDDED = Subject(Group.MACHINE, "embedded cloud")

_SDK = "https://cloud.google.com/sdk/docs/install"
#: Seconds for `gcloud version`, which starts a Python of its own.
_GCLOUD_PATIENCE = 15


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin of Pulumi's that the program needs.

    Attributes:
        name: its name, such as gcp.
        place: where it was found; empty if it was not.
        fetched: whether the engine fetches it by itself where it is missing.
        remedy: what installs it.
    """

    name: str
    place: str
    fetched: bool
    remedy: str


def engine_check(engine: str | TpuflexError) -> Check:
    """How the engine stands.

    Args:
        engine: version and place of the one that runs; empty if there is none yet; or why there
            can be none.
    """
    if isinstance(engine, TpuflexError):
        return ENGINE.failed(type(engine), engine.message, engine.hint)
    if engine:
        return ENGINE.ok(engine)
    return ENGINE.warning(
        "none yet: `tpuflex up` builds one first, in 3 to 5 minutes", "tpuflex engine --install"
    )


def plugin_check(plugin: Plugin) -> Check:
    """How a plugin stands."""
    subject = Subject(Group.MACHINE, f"plugin {plugin.name}")
    if plugin.place:
        return subject.ok(plugin.place)
    if plugin.fetched:
        return subject.warning("not installed: the engine fetches it first", plugin.remedy)
    return subject.failed(EngineError, "not found", plugin.remedy)


def plugin_error(name: str, error: TpuflexError) -> Check:
    """How a plugin stands that may not be run."""
    subject = Subject(Group.MACHINE, f"plugin {name}")
    return subject.failed(type(error), error.message, error.hint or "Unset what names it.")


def gcloud_components(environ: Mapping[str, str]) -> frozenset[str] | Unread:
    """The components of the gcloud on PATH; empty if there is no gcloud."""
    program = shutil.which("gcloud", path=environ.get("PATH", ""))
    if program is None:
        return frozenset()
    try:
        asked = subprocess.run(
            [program, "version", "--format=json"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=_GCLOUD_PATIENCE,
        )
        components = json.loads(asked.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Unread(f"{program} does not work ({type(error).__name__})", "Try: gcloud version")
    if not isinstance(components, dict):
        return Unread(f"{program} gave no version", "Try: gcloud version")
    return frozenset({"core", *map(str, components)})


def gcloud_check(components: frozenset[str] | Unread) -> Check:
    """Whether gcloud can go through IAP to a host, which only its alpha component can."""
    if isinstance(components, Unread):
        return GCLOUD.unknown(components)
    if not components:
        return GCLOUD.warning(
            "not on PATH: `tpuflex logs`, `ssh` and `tunnel` run it", f"Install it: {_SDK}"
        )
    if "alpha" not in components:
        return GCLOUD.warning(
            "without the component alpha, with which alone `tpuflex logs`, `ssh` and `tunnel` go "
            "through IAP",
            str(install("alpha")),
        )
    return GCLOUD.ok("with the component alpha")


def embedded_check(missing: Collection[str], running: str, image: str) -> Check:
    """How the embedded cloud stands, for a stack that runs there.

    Args:
        missing: packages of the extra that are not installed.
        running: where it listens; empty if it is not running.
        image: why its serving image is still to be installed; empty if it is there.
    """
    if missing:
        return EMBEDDED.failed(
            EmulatorError,
            f"not installed: {', '.join(sorted(missing))}",
            "pip install 'tpuflex[embedded]'",
        )
    if image:
        return EMBEDDED.warning(image, "tpuflex up")
    return EMBEDDED.ok(f"runs at {running}" if running else "stopped; `tpuflex up` starts it")
