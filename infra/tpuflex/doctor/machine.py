"""What this machine has: the engine, Pulumi's plugins, gcloud, the embedded cloud's packages."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpuflex.advice import Advice
from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.engine.environment import PROVIDER, with_own_provider
from tpuflex.engine.find import cached_engine, search
from tpuflex.engine.gcp_plugin import fetched_gcp_plugin, find_gcp_plugin, gcp_plugin_release
from tpuflex.errors import EmulatorError, EngineError, TpuflexError
from tpuflex.gcloud_commands import install
from tpuflex.google.endpoints import rehearses
from tpuflex.google.reading import Unread, attempt
from tpuflex.operate.gcloud import INSTALL_PAGE, Gcloud, find_gcloud
from tpuflex.project import own_home
from tpuflex.stack.emulator import Daemon

if TYPE_CHECKING:
    from tpuflex.engine.find import Engine
    from tpuflex.stack.stack import Stack

T = TypeVar("T")

ENGINE = Subject(Group.MACHINE, "engine")
GCLOUD = Subject(Group.MACHINE, "gcloud")
EMBEDDED = Subject(Group.MACHINE, "embedded cloud")
#: Seconds for gcloud to say its version: fewer than all examinations may take together.
_GCLOUD_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as a command finds it.

    Attributes:
        environ: the caller's environment.
        directory: the project's directory, or one below it.
    """

    environ: Mapping[str, str] = field(repr=False)
    directory: Path

    def engine(self) -> Engine | None:
        """The engine that `up` would run; None if there is none yet.

        Raises:
            TpuflexError: there can be none.
        """
        return search(self._home, self.environ).engine

    @property
    def built_engine(self) -> Path:
        """Where `up` builds one."""
        return cached_engine(self._home)

    @property
    def _home(self) -> Path:
        return own_home(self.directory, self.environ)


def examinations(machine: Machine, stack: Stack | None) -> list[Examination]:
    """What to examine of this machine, for ``stack`` if there is one."""
    found = [
        Examination(Group.MACHINE, "engine", lambda: [_examine_engine(machine)]),
        Examination(Group.MACHINE, "plugins", partial(_examine_plugins, machine, stack)),
    ]
    if stack is None or not stack.embedded or stack.rehearsed:
        found.append(
            Examination(Group.MACHINE, "gcloud", lambda: [_examine_gcloud(machine.environ)])
        )
    if stack is not None and stack.embedded:
        found.append(
            Examination(Group.MACHINE, "embedded cloud", lambda: [_examine_embedded(stack)])
        )
    return found


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
        Advice("none yet: `{up}` builds one first, in 3 to 5 minutes"), "tpuflex engine --install"
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
            Advice("not on PATH: `{logs}`, `ssh` and `tunnel` run it"),
            f"Install it: {INSTALL_PAGE}",
        )
    if "alpha" not in gcloud.components:
        return GCLOUD.warning(
            Advice(
                "without the component alpha, with which alone `{logs}`, `ssh` and `tunnel` go "
                "through IAP"
            ),
            str(install("alpha")),
        )
    return GCLOUD.ok("with the component alpha")


def embedded_check(missing: Collection[str], running: str, image: Advice | str) -> Check:
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
        return EMBEDDED.warning(image, Advice("{up}"))
    return EMBEDDED.ok(f"runs at {running}" if running else Advice("stopped; `{up}` starts it"))


def _examine_engine(machine: Machine) -> Check:
    try:
        engine = machine.engine()
    except TpuflexError as error:
        return engine_check(error)
    return engine_check("" if engine is None else f"Pulumi {engine.version}, {engine.path}")


def _examine_plugins(machine: Machine, stack: Stack | None) -> list[Check]:
    path = with_own_provider(machine.environ).get("PATH", "")
    own = Plugin(
        "tpuflex",
        shutil.which(PROVIDER, path=path) or "",
        fetched=False,
        remedy="Install tpuflex again, which brings it: pip install --force-reinstall tpuflex",
    )
    return [plugin_check(own), _gcp_plugin(machine, stack)]


def _gcp_plugin(machine: Machine, stack: Stack | None) -> Check:
    environ = machine.environ
    found = _or_error(lambda: find_gcp_plugin(environ))
    if isinstance(found, TpuflexError):
        return plugin_error("gcp", found)
    if found is not None:
        place = str(found)
    elif rehearses(environ) if stack is None else stack.embedded:
        place = "the embedded cloud's stand-in"
    else:
        folder = fetched_gcp_plugin(environ).parent
        place = str(folder) if folder.is_dir() else ""
    return plugin_check(
        Plugin(
            "gcp",
            place,
            fetched="PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION" not in environ,
            remedy=_install_gcp(machine),
        )
    )


def _install_gcp(machine: Machine) -> str:
    """The command with the engine's own path: one that was built here is not on PATH."""
    engine = _or_error(machine.engine)
    words = f"plugin install resource gcp {gcp_plugin_release()}"
    if isinstance(engine, TpuflexError) or engine is None:
        built = shlex.quote(str(machine.built_engine))
        return f"tpuflex engine --install\n{built} {words}"
    return f"{shlex.quote(str(engine.path))} {words}"


def _examine_gcloud(environ: Mapping[str, str]) -> Check:
    return gcloud_check(attempt(lambda: find_gcloud(environ, within=_GCLOUD_WITHIN_S)))


def _examine_embedded(stack: Stack) -> Check:
    from embedded_cloud.daemon import missing_packages

    if missing := missing_packages():
        return embedded_check(missing, "", "")
    from embedded_cloud.machines.images import installed_image

    address = Daemon(stack.project.home).address()
    image = installed_image(stack.settings.serving.image, stack.project.home)
    lacking = (
        "" if image else Advice("its vLLM is not installed yet: `{up}` fetches about 1 GB first")
    )
    return embedded_check((), "" if address is None else address.url, lacking)


def _or_error(read: Callable[[], T]) -> T | TpuflexError:
    try:
        return read()
    except TpuflexError as error:
        return error
