"""What `tpuflex doctor` reads of this machine."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from tpuflex.doctor import machine
from tpuflex.doctor.check import Check, Group
from tpuflex.doctor.cloud import credential_check
from tpuflex.doctor.side_by_side import Examination
from tpuflex.doctor.state_reading import state_checks
from tpuflex.engine.find import cached_engine, search
from tpuflex.engine.gcp_plugin import fetched_gcp_plugin, find_gcp_plugin, gcp_plugin_release
from tpuflex.engine.own_provider import PROVIDER, with_own_provider
from tpuflex.errors import TpuflexError
from tpuflex.google.reading import attempt
from tpuflex.operate.gcloud import find_gcloud
from tpuflex.stack.emulator import Daemon

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.engine.find import Engine
    from tpuflex.stack.stack import Stack

T = TypeVar("T")
#: Seconds for gcloud to say its version: fewer than all examinations may take together.
_GCLOUD_WITHIN_S = 15.0


def machine_examinations(invocation: Invocation, stack: Stack | None) -> list[Examination]:
    """What to examine of this machine; of a stack's state, if there is a stack."""
    environ = invocation.environ
    found = [
        Examination(Group.MACHINE, "engine", lambda: [_engine_check(invocation)]),
        Examination(Group.MACHINE, "plugins", lambda: _plugin_checks(invocation, stack)),
    ]
    if stack is None or not stack.embedded or stack.rehearsed:
        found.append(Examination(Group.MACHINE, "gcloud", lambda: [_gcloud_check(environ)]))
    if stack is not None and stack.embedded:
        found.append(Examination(Group.MACHINE, "embedded cloud", lambda: [_embedded_check(stack)]))
    if stack is None:
        found.append(Examination(Group.ACCOUNT, "credential", lambda: [credential_check(environ)]))
    else:
        found.append(
            Examination(
                Group.STATE,
                "backend",
                lambda: state_checks(invocation, stack, lambda: _engine(invocation)),
            )
        )
    return found


def _engine(invocation: Invocation) -> Engine | None:
    """The engine that `up` would run."""
    return search(invocation.home, invocation.environ).engine


def _engine_check(invocation: Invocation) -> Check:
    try:
        engine = _engine(invocation)
    except TpuflexError as error:
        return machine.engine_check(error)
    return machine.engine_check("" if engine is None else f"Pulumi {engine.version}, {engine.path}")


def _plugin_checks(invocation: Invocation, stack: Stack | None) -> Sequence[Check]:
    path = with_own_provider(invocation.environ).get("PATH", "")
    own = machine.Plugin(
        "tpuflex",
        shutil.which(PROVIDER, path=path) or "",
        fetched=False,
        remedy="Install tpuflex again, which brings it: pip install --force-reinstall tpuflex",
    )
    return [machine.plugin_check(own), _gcp_plugin_check(invocation, stack)]


def _gcp_plugin_check(invocation: Invocation, stack: Stack | None) -> Check:
    environ = invocation.environ
    found = _or_error(lambda: find_gcp_plugin(environ))
    if isinstance(found, TpuflexError):
        return machine.plugin_error("gcp", found)
    if found is not None:
        place = str(found)
    elif invocation.rehearsing if stack is None else stack.embedded:
        place = "the embedded cloud's stand-in"
    else:
        folder = fetched_gcp_plugin(environ).parent
        place = str(folder) if folder.is_dir() else ""
    return machine.plugin_check(
        machine.Plugin(
            "gcp",
            place,
            fetched="PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION" not in environ,
            remedy=_install_gcp(invocation),
        )
    )


def _install_gcp(invocation: Invocation) -> str:
    """The command with the engine's own path: one that was built here is not on PATH."""
    engine = _or_error(lambda: _engine(invocation))
    words = f"plugin install resource gcp {gcp_plugin_release()}"
    if isinstance(engine, TpuflexError) or engine is None:
        built = shlex.quote(str(cached_engine(invocation.home)))
        return f"tpuflex engine --install\n{built} {words}"
    return f"{shlex.quote(str(engine.path))} {words}"


def _gcloud_check(environ: Mapping[str, str]) -> Check:
    return machine.gcloud_check(attempt(lambda: find_gcloud(environ, within=_GCLOUD_WITHIN_S)))


def _embedded_check(stack: Stack) -> Check:
    from embedded_cloud.daemon import missing_packages

    if missing := missing_packages():
        return machine.embedded_check(missing, "", "")
    from embedded_cloud.machines.images import installed_image

    address = Daemon(stack.project.home).address()
    image = installed_image(stack.settings.serving.image, stack.project.home)
    lacking = (
        "" if image else "its vLLM is not installed yet: `tpuflex up` fetches about 1 GB first"
    )
    return machine.embedded_check((), "" if address is None else address.url, lacking)


def _or_error(read: Callable[[], T]) -> T | TpuflexError:
    try:
        return read()
    except TpuflexError as error:
        return error
