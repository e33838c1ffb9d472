"""Pulumi's state: whether its backend answers, and whether somebody holds the stack's lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.gcloud_commands import list_objects
from tpuflex.google.paging import objects
from tpuflex.google.reading import Unread

if TYPE_CHECKING:
    from tpuflex.google.transport import Api, JsonObject

BACKEND = Subject(Group.STATE, "backend")
LOCK = Subject(Group.STATE, "lock")
#: Documents that are read of each place in a bucket: a lock is one.
_MOST = 10


class Holder(StrEnum):
    """What is known of the process that holds a lock."""

    AT_WORK = "at work"
    GONE = "gone"  #: killed, and its lock has outlived it
    ELSEWHERE = "elsewhere"  #: on another machine


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
    remedy: str


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
    """What shows the locks of a backend in a bucket to whoever may read it."""
    place = url.removeprefix("gs://").partition("?")[0].rstrip("/")
    return (
        str(list_objects(f"gs://{place}/.pulumi/locks/**"))
        + "\n(matches nothing while it is free; `pulumi cancel` takes away one that was left"
        " behind)"
    )


def lock_check(locks: Sequence[HeldLock] | Unread) -> Check:
    """Whether somebody holds the stack's lock."""
    if isinstance(locks, Unread):
        return LOCK.unknown(locks)
    if not locks:
        return LOCK.ok("free")
    lock = locks[0]
    match lock.holder:
        case Holder.GONE:
            return LOCK.warning(f"left behind by {lock.described}", lock.remedy)
        case Holder.ELSEWHERE:
            remedy = f"Wait for it to end; if that process is gone: {lock.remedy}"
        case Holder.AT_WORK:
            remedy = "Wait for it to end, or press Ctrl-C there."
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
