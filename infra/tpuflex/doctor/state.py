"""Pulumi's state: whether its backend answers, and whether the stack is locked."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tpuflex.advice import Advice
from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.engine.backend import asked_backend
from tpuflex.engine.state_files import damage_error, file_backend
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
from tpuflex.gcloud_commands import list_objects
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.paging import objects
from tpuflex.google.reading import Unread, attempt
from tpuflex.google.session import authorized_session
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.stack.environment import google_environment

if TYPE_CHECKING:
    from tpuflex.doctor.machine import Machine
    from tpuflex.google.transport import Api, JsonObject
    from tpuflex.stack.stack import Stack

BACKEND = Subject(Group.STATE, "backend")
LOCK = Subject(Group.STATE, "lock")
#: Documents that are read of each place in a bucket: a lock is one.
_MOST = 10
#: Connect and read timeouts of a call, in seconds.
_TIMEOUT = (5.0, 5.0)
_IN_A_BUCKET = "gs://"


class Holder(StrEnum):
    """What is known of the process that holds a lock."""

    AT_WORK = "at work"
    GONE = "gone"  #: killed, and its lock has outlived it
    ELSEWHERE = "elsewhere"  #: on another machine


_HOLDERS = {
    Owner.DEAD: Holder.GONE,
    Owner.HEADLESS: Holder.GONE,
    Owner.ALIVE: Holder.AT_WORK,
    Owner.ELSEWHERE: Holder.ELSEWHERE,
}


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock on the stack.

    Attributes:
        described: its holder, for people.
        holder: what is known of it.
        remedy: what takes it away once its holder is gone.
    """

    described: str
    holder: Holder
    remedy: Advice


def examinations(machine: Machine, stack: Stack) -> list[Examination]:
    """What to examine of the state of ``stack``."""
    return [Examination(Group.STATE, "backend", lambda: _examine(machine, stack))]


def _examine(machine: Machine, stack: Stack) -> Sequence[Check]:
    """How the backend of ``stack`` stands, and its lock. Where no variable and no project names
    it, the engine knows where it is logged in."""
    if stack.embedded:
        environ = {"PULUMI_BACKEND_URL": f"file://{stack.own_files / 'backend'}"}
    else:
        environ = google_environment(
            machine.environ, stack.project.home, backend=stack.project.backend
        )
    url = stack.project.backend_in(environ)
    if not url:
        try:
            engine = machine.engine()
            if engine is None:
                why = "only an engine knows where it is logged in, and there is none yet"
                return [backend_check(Unread(why, "tpuflex engine --install"))]
            url = asked_backend(engine, environ)
        except TpuflexError as error:
            return [backend_check(error)]
    if url.startswith(_IN_A_BUCKET):
        return bucket_checks(url, stack, environ)
    directory = file_backend(url)
    if directory is None:
        return [backend_check(url), lock_elsewhere_check()]
    problem = _directory_problem(directory, own=directory.is_relative_to(stack.project.home))
    problem = problem or damage_error({"PULUMI_BACKEND_URL": url})
    held = attempt(lambda: locks(directory, stack.project.name, stack.name))
    return [
        backend_check(problem or url),
        lock_check(held if isinstance(held, Unread) else [*map(_held_here, held)]),
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
            return [lock_holder(each) for each in documents_in(storage, url, places)]
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError("a lock in the bucket cannot be read as one") from error

    held = attempt(read, listing_of_locks(url))
    return [
        backend_check(url),
        lock_check(held if isinstance(held, Unread) else _held_in_bucket(held, stack.name)),
    ]


def _held_here(lock: LockHolder) -> HeldLock:
    holder = _HOLDERS[owner(lock, ThisMachine())]
    there = " (there)" if holder is Holder.ELSEWHERE else ""
    return HeldLock(lock.described, holder, Advice("{recover}{there}", there=there))


def _held_in_bucket(found: Iterable[LockHolder], stack: str) -> list[HeldLock]:
    """`tpuflex recover` takes no lock out of a bucket: the engine does, from any machine."""
    cancel = Advice.of(f"pulumi cancel --stack {stack}")
    return [
        HeldLock(lock.described, _HOLDERS[owner(lock, ThisMachine())], cancel) for lock in found
    ]


def _directory_problem(directory: Path, *, own: bool) -> EngineError | None:
    """Why ``directory`` cannot be a file backend; ``own``: tpuflex makes it when it is needed."""
    if not directory.is_dir():
        if own:
            return None
        return EngineError(f"{directory} does not exist", hint=f"mkdir -p {directory}")
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return EngineError(f"{directory} may not be written to", hint=f"chmod u+rwx {directory}")
    return None


def backend_check(url: str | TpuflexError | Unread) -> Check:
    """How the backend stands.

    Args:
        url: its URL, once it has answered; or why it does not.
    """
    if isinstance(url, Unread):
        return BACKEND.unknown(url)
    if isinstance(url, TpuflexError):
        return BACKEND.failed(type(url), url.message, url.hint)
    return BACKEND.ok(url)


def lock_elsewhere_check() -> Check:
    """The lock of a backend that is no directory and no bucket: Pulumi Cloud says itself who is at
    work (https://www.pulumi.com/docs/iac/concepts/state-and-backends/)."""
    return LOCK.skipped("kept by the backend itself")


def listing_of_locks(url: str) -> str:
    """The command that lists the locks of a backend in a bucket."""
    place = url.removeprefix("gs://").partition("?")[0].rstrip("/")
    return (
        str(list_objects(f"gs://{place}/.pulumi/locks/**"))
        + "\n(matches nothing while it is free; `pulumi cancel` takes away one that was left"
        " behind)"
    )


def lock_check(locks: Sequence[HeldLock] | Unread) -> Check:
    """Whether the stack is locked."""
    if isinstance(locks, Unread):
        return LOCK.unknown(locks)
    if not locks:
        return LOCK.ok("free")
    lock = locks[0]
    match lock.holder:
        case Holder.GONE:
            return LOCK.warning(f"left behind by {lock.described}", lock.remedy)
        case Holder.ELSEWHERE:
            remedy = Advice(
                "Wait for it to end; if that process is gone: {remedy}", remedy=lock.remedy
            )
        case Holder.AT_WORK:
            remedy = Advice("Wait for it to end, or press Ctrl-C there.")
    return LOCK.failed(EngineError, f"held by {lock.described}", remedy)


def documents_in(storage: Api, backend: str, places: Iterable[str]) -> tuple[JsonObject, ...]:
    """The JSON documents in a state's bucket.

    Args:
        storage: client of Cloud Storage.
        backend: URL of the backend (https://www.pulumi.com/docs/iac/concepts/state-and-backends/).
        places: directories below the backend's; those beneath them are not looked into.

    Raises:
        NotFoundError: there is no such bucket.
        AccessError, ApiError: it may not be read, or does not answer.
    """
    parts = urlsplit(backend)
    root = f"/storage/v1/b/{parts.netloc}/o"
    below = "".join(f"{part}/" for part in parts.path.split("/") if part)
    found = []
    for place in places:
        query = {"prefix": f"{below}{place}/", "delimiter": "/", "maxResults": str(_MOST)}
        listed = storage.call("GET", root, query=query)
        names = (str(item.get("name")) for item in objects(listed, "items"))
        found += [
            storage.call("GET", f"{root}/{quote(name, safe='')}", query={"alt": "media"})
            for name in names
            if name.endswith(".json")
        ]
    return tuple(found)
