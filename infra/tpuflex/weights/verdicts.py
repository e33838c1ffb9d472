"""Which sets of weights `tpuflex weights rm` is about, which of them go, and why others stay."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.weights.report import StoredWeights
    from tpuflex.weights.uses import Uses

#: Something that was written so lately may be a push that is under way.
UNDER_WAY = dt.timedelta(hours=24)
#: With the option: without it, a complete set would go with what is beside it.
_UNDER_WAY_TEXT = (
    "something was written there within 24 hours: a push may be under way. If none is, name the set"
    " beside --unfinished"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to go.

    Attributes:
        set: the set, as `weights ls` names it; empty for all of which the rest holds.
        unfinished: only what pushes that broke off have left.
        unused_days: only sets that nobody has used for so many days.
        with_readers: whether they go although endpoints use them.
        own: the set that the stack serves from a bucket of its own, where no `up` notes a day: for
            want of use it never goes.
        bucket: the one bucket that it goes from, of any region where the library has one; empty for
            that of each region of the stack.
    """

    set: str = ""
    unfinished: bool = False
    unused_days: int | None = None
    with_readers: bool = False
    own: str = ""
    bucket: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one set.

    Attributes:
        stored: the set.
        why_kept: why it stays; empty if it goes.
    """

    stored: StoredWeights
    why_kept: str = ""


def named_set(path: str) -> tuple[str, str]:
    """Bucket and prefix of the set that ``path`` names; no bucket where it is a prefix alone."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return "", path
    bucket, _, prefix = rest.partition("/")
    return (bucket, prefix) if scheme == "gs" else ("", path)


def judge(
    stored: Sequence[StoredWeights], wanted: Wanted, uses: Uses, now: dt.datetime
) -> Iterator[Verdict]:
    """What becomes of each of the ``stored`` sets that ``wanted`` is about. Pure.

    Args:
        stored: the sets in the bucket.
        wanted: what is to go.
        uses: who uses them.
        now: the time, with its zone.
    """
    for one in stored:
        if wanted.set:
            if one.prefix == wanted.set:
                yield Verdict(one, _nothing_left(one) if wanted.unfinished else "")
        elif wanted.unfinished:
            if not _nothing_left(one):
                lately = perhaps_under_way(one.written, now)
                yield Verdict(one, _UNDER_WAY_TEXT if lately else _awaited(one, uses))
        elif wanted.unused_days is not None and one.manifest is not None:
            own = "it is what the stack serves" if one.prefix == wanted.own else ""
            yield Verdict(one, _used_lately(one, wanted.unused_days, uses, now) or own)


def _nothing_left(one: StoredWeights) -> str:
    return "" if one.manifest is None or one.beside else "it is complete, and nothing is beside it"


def perhaps_under_way(written: dt.datetime | None, now: dt.datetime) -> bool:
    """Whether a push may be under way where something was ``written`` last."""
    return written is not None and now - written < UNDER_WAY


def _awaited(one: StoredWeights, uses: Uses) -> str:
    """Who may be waiting for the rest of what has no manifest; empty for nobody."""
    if one.manifest is None and (uses.of(one.prefix) or uses.unseen):
        return _in_use(one, uses)
    return ""


def _used_lately(one: StoredWeights, days: int, uses: Uses, now: dt.datetime) -> str:
    if uses.of(one.prefix) or uses.unseen:
        return _in_use(one, uses)
    if one.used is None:
        return "nothing says when it was last used"
    if (now.date() - one.used).days < days:
        return f"it was used on {one.used}"
    return ""


def _in_use(one: StoredWeights, uses: Uses) -> str:
    users = uses.of(one.prefix)
    return users[0] if users else f"it could not be told who uses it ({uses.unseen[0]})"
