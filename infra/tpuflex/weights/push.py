"""One push: a model sent to its place in a bucket, the manifest last.

The manifest is written last and deleted first, so its presence says that everything it names is
there. What is in the bucket already with the right size and checksum is not sent again, so an
interrupted push resumes where it stopped.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.weights.model import ByteProgress, Tally, all_sums, unwatched
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import require_replaceable, same_content, source_of_set
from tpuflex.weights.trust import not_the_source
from tpuflex.weights.upload import Upload, note_source

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest, WeightsFile
    from tpuflex.errors import TpuflexError
    from tpuflex.weights.model import Model
    from tpuflex.weights.stored_set import FoundManifest, SetObjects

_NO_MANIFEST = "Its files may be there; they have no manifest, so no host reads them."


def _anything(_wanted: str, _found: FoundManifest | None) -> None:
    """Any set may be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What is sent, where to, and what must hold before.

    Attributes:
        model: what is sent.
        prefix: where it goes in the bucket, without a slash at the end.
        name: name under which the model is served.
        revision: names this set of weights.
        pinned: SHA-256 of the only manifest that may be written; None for any.
        unless_there: raised if the bucket does not hold the very set of the model already; None if
            it need not.
        may_replace: called with what the new set is known by (the SHA-256 of its manifest, or the
            model's source while that is not known) and the manifest that is there; raises what
            forbids to write the one in the place of the other.
        again: send every file, whatever the bucket holds: who may write there can give altered
            content the CRC32C of the right one.
        used: today, kept with the manifest as the day of their last use.
        progress: told of the bytes that have been read, or are there, and the total, from several
            threads, one at a time; stops the push by raising.
    """

    model: Model
    prefix: str
    name: str
    revision: str
    pinned: str | None = None
    unless_there: TpuflexError | None = None
    may_replace: Callable[[str, FoundManifest | None], None] = _anything
    again: bool = False
    used: dt.date | None = None
    progress: ByteProgress = unwatched

    def manifest(self, files: Collection[WeightsFile]) -> Manifest:
        """The manifest of its set, which has these ``files``.

        Raises:
            WeightsError: they are more than a host takes.
        """
        return self.model.manifest(files, model=self.name, revision=self.revision)

    def require(
        self, place: str, wanted: Manifest, found: FoundManifest | None, outcome: str
    ) -> None:
        """Check that ``wanted`` may be written where ``found`` is.

        Args:
            place: where that is, as ``gs://BUCKET/PREFIX``.
            wanted: the manifest of the model.
            found: the manifest that is there.
            outcome: what has come of the push so far, in words.

        Raises:
            WeightsError: it is not the pinned set.
            TpuflexError: :attr:`unless_there`, or what :attr:`may_replace` raises.
        """
        if self.pinned not in (None, wanted.sha256):
            raise not_the_source(
                place, pinned=str(self.pinned), local=wanted.sha256, outcome=outcome
            )
        there = None if found is None else found.manifest
        if self.unless_there is not None and (there is None or not there.same_as(wanted)):
            raise self.unless_there
        self.may_replace(wanted.sha256, found)

    def require_other(self, place: str, found: FoundManifest) -> None:
        """The same where the model's list alone shows that ``found`` is another set than its own,
        whose manifest is not known yet."""
        if self.pinned == found.sha256:
            raise not_the_source(place, pinned=found.sha256, local=self.model.source)
        if self.unless_there is not None:
            raise self.unless_there
        self.may_replace(self.model.source, found)


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did.

    Attributes:
        manifest: what is now in the bucket; its hash is that of the object there.
        sent: files that were sent.
        kept: files that were there already.
        bytes_sent: how much was sent.
        seconds: how long it took, hashing included.
        replaced: SHA-256 of the manifest of another set that was there; empty for none.
    """

    manifest: Manifest
    sent: tuple[str, ...]
    kept: tuple[str, ...]
    bytes_sent: int
    seconds: float
    replaced: str = ""


def send(push: Push, contents: Callable[[str], SetObjects]) -> PushReport:
    """Carry out ``push``: of a model elsewhere, two of its files at a time are on this machine.

    Args:
        push: what is sent.
        contents: gives the objects at a prefix of the bucket, as they are now.

    Raises:
        WeightsError: a file cannot be read, is a link out of its directory, or is not what was
            listed; or these are not the pinned weights.
        NotFoundError: there is no such bucket.
        AccessError: the caller may not write to it.
        ConflictError: another push to the same prefix is under way; or something of others would be
            replaced in a bucket that they use, too.
        TpuflexError: what a check of ``push`` raises; or the model cannot be fetched.
    """
    began = time.monotonic()
    model = push.model
    known = dict(model.sums())  # of a directory these take a while: the bucket is looked at after
    there = contents(push.prefix)
    with translated(there.bucket):
        _require(push, there, known)
        wanted = push.manifest(known.values()) if len(known) == len(model.paths) else None
        writing = Upload(there, wanted)
        sent = _send_files(push, there, known, writing)
        if wanted is None:
            wanted = push.manifest(known.values())
            push.require(there.place, wanted, there.found, _NO_MANIFEST)
        manifest, found = there.manifest_object, there.found
        if sent or manifest is None or found is None or found.sha256 != wanted.sha256:
            writing.finish(wanted, model.source, push.used)
        elif model.source and model.source != source_of_set(manifest):
            note_source(manifest, model.source)  # others may serve it: it stays where it is
    before = "" if there.manifest is None or found is None else found.sha256
    return push_report(
        wanted, sent, time.monotonic() - began, replaced="" if before == wanted.sha256 else before
    )


def _require(push: Push, there: SetObjects, known: dict[str, WeightsFile]) -> None:
    """Check that the model may take the place of what is ``there``, before anything is sent. A set
    that is there is only taken apart for one that may: all files come once for that, unless their
    sums are ``known``, which they are then."""
    found = there.found
    if len(known) < len(push.model.paths):
        if found is None:
            return  # which manifest that will be is known once all files are there
        if found.manifest is not None and not push.model.lists(found.manifest):
            push.require_other(there.place, found)
        known.update(all_sums(push.model, push.progress))
    push.require(there.place, push.manifest(known.values()), found, "Nothing was sent.")


def _send_files(
    push: Push, there: SetObjects, known: dict[str, WeightsFile], writing: Upload
) -> set[str]:
    """Send what the bucket has not the same of; the paths that were sent. ``known`` has the sums of
    all files afterwards."""
    model, kept = push.model, {} if push.again else there.objects
    same_there = {path for path, file in known.items() if same_content(file, kept.get(path))}
    require_replaceable(there, known.keys() - same_there)
    tally = Tally(model.total_bytes, push.progress)
    tally.add(sum(known[path].size for path in same_there))

    def bring(path: str) -> str:
        with model.open(path, tally.add) as file:
            if path not in known:
                known[path] = file.sums
                if same_content(file.sums, kept.get(path)):
                    return ""
                require_replaceable(there, (path,))
            writing.send(file)
        return path

    missing = [path for path in model.paths if path not in same_there]
    return {*filter(None, model.each(missing, bring, lambda: tally.add(0)))}


def push_report(
    wanted: Manifest, sent: set[str], seconds: float, *, replaced: str = ""
) -> PushReport:
    """What became of the files of ``wanted``, of which those at the paths ``sent`` were sent."""
    new = [file for file in wanted.files if file.path in sent]
    return PushReport(
        manifest=wanted,
        sent=tuple(file.path for file in new),
        kept=tuple(file.path for file in wanted.files if file.path not in sent),
        bytes_sent=sum(file.size for file in new),
        seconds=seconds,
        replaced=replaced,
    )
