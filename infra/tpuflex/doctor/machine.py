"""What this machine has: the engine, Pulumi's plugins, gcloud, the embedded cloud's packages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.errors import EmulatorError, EngineError, TpuflexError
from tpuflex.gcloud_commands import install
from tpuflex.google.reading import Unread
from tpuflex.operate.gcloud import INSTALL_PAGE, Gcloud

ENGINE = Subject(Group.MACHINE, "engine")
GCLOUD = Subject(Group.MACHINE, "gcloud")
EMBEDDED = Subject(Group.MACHINE, "embedded cloud")


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


def gcloud_check(gcloud: Gcloud | Unread | None) -> Check:
    """Whether gcloud can go through IAP to a host, which only its alpha component can."""
    if isinstance(gcloud, Unread):
        return GCLOUD.unknown(gcloud)
    if gcloud is None:
        return GCLOUD.warning(
            "not on PATH: `tpuflex logs`, `ssh` and `tunnel` run it", f"Install it: {INSTALL_PAGE}"
        )
    if "alpha" not in gcloud.components:
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
