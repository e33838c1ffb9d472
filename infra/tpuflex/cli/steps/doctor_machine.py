"""What `tpuflex doctor` reads of this machine, and of the backend of Pulumi's state."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpuflex.cli.cloud_environment import google_environment
from tpuflex.cli.daemon import Daemon
from tpuflex.cli.steps.doctor_cloud import credential_check
from tpuflex.engine.backend import asked_backend
from tpuflex.engine.find import cached_engine, search
from tpuflex.engine.gcp_plugin import fetched_gcp_plugin, find_gcp_plugin, gcp_plugin_release
from tpuflex.engine.own_provider import PROVIDER, with_own_provider
from tpuflex.engine.state_files import damage, file_backend
from tpuflex.engine.state_lock import Owner, ThisMachine, locks, owner
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.operate.doctor import machine, state
from tpuflex.operate.doctor.check import Check, Group
from tpuflex.operate.doctor.reading import Unread, attempt
from tpuflex.operate.doctor.side_by_side import Examination
from tpuflex.operate.gcloud import find_gcloud
from tpuflex.trusted_files import require_trusted

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.stack import OpenStack
    from tpuflex.engine.find import Engine
    from tpuflex.engine.state_lock import Lock

T = TypeVar("T")
#: Seconds for gcloud to say its version: fewer than all examinations may take together.
_GCLOUD_WITHIN_S = 15.0
_HOLDERS = {
    Owner.DEAD: state.Holder.GONE,
    Owner.HEADLESS: state.Holder.GONE,
    Owner.ALIVE: state.Holder.AT_WORK,
    Owner.ELSEWHERE: state.Holder.ELSEWHERE,
}


def machine_examinations(invocation: Invocation, stack: OpenStack | None) -> list[Examination]:
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
        found.append(Examination(Group.STATE, "backend", lambda: _state_checks(invocation, stack)))
    return found


def _engine(invocation: Invocation) -> Engine | None:
    """The engine that `up` would run.

    Raises:
        AccessError: the one that was built here could have been changed by others.
    """
    found = search(invocation.home, invocation.environ).engine
    if found is None:
        require_trusted(
            cached_engine(invocation.home), "the engine's directory", invocation.environ
        )
    return found


def _engine_check(invocation: Invocation) -> Check:
    try:
        engine = _engine(invocation)
    except TpuflexError as error:
        return machine.engine_check(error)
    return machine.engine_check("" if engine is None else f"Pulumi {engine.version}, {engine.path}")


def _plugin_checks(invocation: Invocation, stack: OpenStack | None) -> Sequence[Check]:
    path = with_own_provider(invocation.environ).get("PATH", "")
    own = machine.Plugin(
        "tpuflex",
        shutil.which(PROVIDER, path=path) or "",
        fetched=False,
        remedy="Install tpuflex again, which brings it: pip install --force-reinstall tpuflex",
    )
    return [machine.plugin_check(own), _gcp_plugin_check(invocation, stack)]


def _gcp_plugin_check(invocation: Invocation, stack: OpenStack | None) -> Check:
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


def _embedded_check(stack: OpenStack) -> Check:
    from embedded_cloud.daemon import missing_packages

    if missing := missing_packages():
        return machine.embedded_check(missing, "", "")
    from embedded_cloud.images import installed_image

    address = Daemon(stack.project.home).address()
    image = installed_image(stack.settings.serving.image, stack.project.home)
    lacking = (
        "" if image else "its vLLM is not installed yet: `tpuflex up` fetches about 1 GB first"
    )
    return machine.embedded_check((), "" if address is None else address.url, lacking)


def _state_checks(invocation: Invocation, stack: OpenStack) -> Sequence[Check]:
    if stack.embedded:
        environ = {"PULUMI_BACKEND_URL": f"file://{stack.own_files / 'backend'}"}
    else:
        environ = google_environment(invocation.environ, stack.project.home)
    url = environ.get("PULUMI_BACKEND_URL", "")
    if not url:
        try:
            engine = _engine(invocation)
        except TpuflexError as error:
            return [state.backend_check(error)]
        if engine is None:
            why = "only an engine knows where it is logged in, and there is none yet"
            return [state.backend_check(Unread(why, "tpuflex engine --install"))]
        asked = _or_error(lambda: asked_backend(engine, environ))
        if isinstance(asked, TpuflexError):
            return [state.backend_check(asked)]
        url = asked
    directory = file_backend(url)
    if directory is None:
        return [state.backend_check(url), state.lock_elsewhere_check(url)]
    problem = _directory_problem(directory, ours=directory.is_relative_to(stack.project.home))
    problem = problem or damage({"PULUMI_BACKEND_URL": url})
    held = attempt(lambda: locks(directory, stack.project.name, stack.name))
    return [
        state.backend_check(problem or url),
        state.lock_check(held if isinstance(held, Unread) else [_held(lock) for lock in held]),
    ]


def _directory_problem(directory: Path, *, ours: bool) -> EngineError | None:
    """Why a file backend cannot be used there; one of our own is made when it is needed."""
    if not directory.is_dir():
        if ours:
            return None
        return EngineError(f"{directory} does not exist", hint=f"mkdir -p {directory}")
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return EngineError(f"{directory} may not be written to", hint=f"chmod u+rwx {directory}")
    return None


def _held(lock: Lock) -> state.HeldLock:
    return state.HeldLock(lock.described, _HOLDERS[owner(lock, ThisMachine())])


def _or_error(read: Callable[[], T]) -> T | TpuflexError:
    try:
        return read()
    except TpuflexError as error:
        return error
