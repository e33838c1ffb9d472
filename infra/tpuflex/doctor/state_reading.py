"""What `tpuflex doctor` reads of Pulumi's state: its backend, and who holds the stack's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.doctor import state
from tpuflex.doctor.check import Check
from tpuflex.engine.backend import asked_backend
from tpuflex.engine.state_files import damage, file_backend
from tpuflex.engine.state_lock import (
    LockHolder,
    Owner,
    ThisMachine,
    lock_holder,
    lock_places,
    locks,
    owner,
)
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.reading import Unread, attempt
from tpuflex.google.session import authorized_session
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.stack.environment import google_environment

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.engine.find import Engine
    from tpuflex.stack.stack import Stack

#: Connect and read timeouts of a call, in seconds.
_TIMEOUT = (5.0, 5.0)
_IN_A_BUCKET = "gs://"
_HOLDERS = {
    Owner.DEAD: state.Holder.GONE,
    Owner.HEADLESS: state.Holder.GONE,
    Owner.ALIVE: state.Holder.AT_WORK,
    Owner.ELSEWHERE: state.Holder.ELSEWHERE,
}


def state_checks(
    invocation: Invocation, stack: Stack, find_engine: Callable[[], Engine | None]
) -> Sequence[Check]:
    """How the backend of ``stack`` stands, and its lock.

    Args:
        invocation: the command.
        stack: the stack.
        find_engine: finds the engine that `up` would run, which knows where it is logged in.
    """
    if stack.embedded:
        environ = {"PULUMI_BACKEND_URL": f"file://{stack.own_files / 'backend'}"}
    else:
        environ = google_environment(
            invocation.environ, stack.project.home, backend=stack.project.backend
        )
    url = environ.get("PULUMI_BACKEND_URL", "") or stack.project.backend
    if not url:
        try:
            engine = find_engine()
            if engine is None:
                why = "only an engine knows where it is logged in, and there is none yet"
                return [state.backend_check(Unread(why, "tpuflex engine --install"))]
            url = asked_backend(engine, environ)
        except TpuflexError as error:
            return [state.backend_check(error)]
    if url.startswith(_IN_A_BUCKET):
        return bucket_checks(url, stack, environ)
    directory = file_backend(url)
    if directory is None:
        return [state.backend_check(url), state.lock_elsewhere_check()]
    problem = _directory_problem(directory, ours=directory.is_relative_to(stack.project.home))
    problem = problem or damage({"PULUMI_BACKEND_URL": url})
    held = attempt(lambda: locks(directory, stack.project.name, stack.name))
    return [
        state.backend_check(problem or url),
        state.lock_check(held if isinstance(held, Unread) else [*map(_held_here, held)]),
    ]


def bucket_checks(url: str, stack: Stack, environ: Mapping[str, str]) -> Sequence[Check]:
    """How a backend in a bucket stands, and the lock of ``stack`` in it.

    The engine reads the bucket by credentials of its own, so that what we may not read is no
    finding about it.

    Args:
        url: the backend's.
        stack: the stack.
        environ: names endpoints and credentials.
    """

    def read() -> list[LockHolder]:
        endpoints = Endpoints.from_environ(environ)
        session = authorized_session(endpoints, environ, stack.settings.project)
        timing = Timing.of_environment(environ, threading.Event())
        storage = Transport(session, endpoints.storage, timing, timeout=_TIMEOUT, retries=False)
        places = lock_places(stack.project.name, stack.name)
        try:
            return [lock_holder(each) for each in state.documents_in(storage, url, places)]
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError("a lock in the bucket cannot be read as one") from error

    held = attempt(read, state.listing_of_locks(url))
    return [
        state.backend_check(url),
        state.lock_check(held if isinstance(held, Unread) else _held_in_bucket(held, stack.name)),
    ]


def _held_here(lock: LockHolder) -> state.HeldLock:
    holder = _HOLDERS[owner(lock, ThisMachine())]
    there = " (there)" if holder is state.Holder.ELSEWHERE else ""
    return state.HeldLock(lock.described, holder, f"tpuflex recover{there}")


def _held_in_bucket(found: Iterable[LockHolder], stack: str) -> list[state.HeldLock]:
    """`tpuflex recover` takes no lock out of a bucket: the engine does, from any machine."""
    cancel = f"pulumi cancel --stack {stack}"
    return [
        state.HeldLock(lock.described, _HOLDERS[owner(lock, ThisMachine())], cancel)
        for lock in found
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
