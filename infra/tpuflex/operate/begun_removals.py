"""Which removals of weights this home has agreed to, and begun: a private file.

A teardown removes the weights last, and of several regions one after the other: where it is killed
in between, the state does not say any more whose they were. And a removal takes the manifest first:
what it leaves when it is killed looks like what a push that is under way has brought so far. What
was there when a user agreed, or a removal began, and nothing since, is what is to go.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from tpuflex.operate.private_notes import PrivateNotes

_FILE = "begun-removals.json"
#: As long as files without a manifest are taken for a push that may be under way: whoever comes
#: back later is asked as everybody is.
VALID = dt.timedelta(hours=24)
_AGREED, _BEGUN = "agreed", "begun"


class BegunRemovals:
    """What was there of each set that was to go, by bucket and prefix.

    Args:
        home: tpuflex's state directory.
        now: the time, with its zone.
    """

    def __init__(self, home: Path, now: dt.datetime) -> None:
        self._notes = PrivateNotes(home / _FILE)
        self._now = now

    def agree(self, bucket: str, prefix: str, written: dt.datetime | None) -> None:
        """Remember that a set is to go of which the last object was ``written`` then.

        Raises:
            OSError: the file cannot be written.
        """
        self._put(bucket, prefix, _AGREED, written)

    def begin(self, bucket: str, prefix: str, written: dt.datetime | None) -> None:
        """Remember that it is being removed; raises as :meth:`agree`."""
        self._put(bucket, prefix, _BEGUN, written)

    def agreed(self, bucket: str, prefix: str, written: dt.datetime | None) -> bool:
        """Whether what is there, the last of it ``written`` then, is what was to go, or is left of
        it."""
        kind, noted = self._note(bucket, prefix)
        if written is None or noted is None:
            return False
        return written == noted if kind == _AGREED else written <= noted

    def left(self, bucket: str, prefix: str, written: dt.datetime | None) -> bool:
        """Whether files without a manifest, the last of them ``written`` then, are what a removal
        has left."""
        kind, noted = self._note(bucket, prefix)
        return kind == _BEGUN and written is not None and noted is not None and written <= noted

    def buckets(self, prefix: str) -> frozenset[str]:
        """Those with a set at ``prefix`` that was to go."""
        noted = self._notes.buckets(prefix)
        return frozenset(each for each in noted if self._note(each, prefix)[1] is not None)

    def end(self, bucket: str, prefix: str) -> None:
        """Remember nothing more of the set; raises as :meth:`agree`."""
        self._notes.forget(bucket, prefix)

    def _put(self, bucket: str, prefix: str, kind: str, written: dt.datetime | None) -> None:
        if written is not None:
            text = f"{kind} {self._now.isoformat()} {written.isoformat()}"
            self._notes.put(bucket, prefix, text)

    def _note(self, bucket: str, prefix: str) -> tuple[str, dt.datetime | None]:
        """Of which kind the note is, and when the last object was written; empty and None where
        there is none that is valid."""
        kind, _, times = (self._notes.get(bucket, prefix) or "").partition(" ")
        try:
            at, written = (dt.datetime.fromisoformat(each) for each in times.split(" "))
            valid = kind in (_AGREED, _BEGUN) and self._now - at < VALID
            return (kind, written) if valid and written.tzinfo is not None else ("", None)
        except (ValueError, TypeError):  # no time; one without its zone
            return "", None
