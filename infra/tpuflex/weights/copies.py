"""The weights of a stack whose zones are in several regions: what its home holds is copied to the
bucket of each other region within Cloud Storage, before chips are asked for; no byte of it passes
through this machine.

https://cloud.google.com/storage/docs/json_api/v1/objects/rewrite"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.manifest import WeightsFile
from tpuflex.errors import ConflictError, InterruptedByUser, WeightsError
from tpuflex.planning.rates import transfer_text
from tpuflex.stack.progress import transfer
from tpuflex.weights.model import ByteProgress, Tally, in_threads
from tpuflex.weights.push import PushReport, push_report
from tpuflex.weights.push_record import remember
from tpuflex.weights.stack_weights import require_same
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import TIMEOUT, SetObjects, same_content, source_of_set
from tpuflex.weights.upload import Upload, generation

if TYPE_CHECKING:
    from google.cloud.storage import Blob  # type: ignore[import-untyped]

    from tpuflex.boot.manifest import Manifest
    from tpuflex.stack.progress import Report
    from tpuflex.weights.stack_weights import StackWeights
    from tpuflex.weights.stored_set import WeightsCheck


def filling_texts(home: StackWeights, sha256: str, *, again: bool = False) -> list[str]:
    """What :func:`fill_regions` would copy, and what that costs, a line for each region.

    Args:
        home: the stack's weights.
        sha256: SHA-256 of the manifest that every region is to have.
        again: whether every file is copied, whatever is there.

    Raises:
        ConflictError: a region holds a complete set under the same name that is none of these.
        TpuflexError: it cannot be determined.
    """
    others = home.further()
    if not others:
        return []
    found = home.found()
    size = None if found is None or found.manifest is None else found.manifest.total_bytes
    texts = (_filling_text(home, near, sha256, size, again=again) for near in others)
    return [text for text in texts if text]


def _filling_text(
    home: StackWeights, near: StackWeights, sha256: str, size: int | None, *, again: bool
) -> str:
    """The line for the region of ``near``; empty where nothing is copied there."""
    found = near.found()
    require_same(near, sha256, found)
    damage = ""
    if found is not None and found.manifest is not None:
        check = _checked(near)
        damage = _damage_text(near, check)
        if not again:
            wrong = {each.path for each in check.problems}
            size = sum(file.size for file in check.manifest.files if file.path in wrong)
        if not damage and not again:
            return ""
    if size is None:
        return damage
    region = home.stack.settings.region
    free = " (the embedded cloud is free)" if home.stack.embedded else ""
    copied = (
        f"weights: {size / 1e9:.2f} GB are copied from {home.place}"
        f" ({region}) to gs://{near.bucket}; nothing passes through here, and"
        f" {transfer_text(size, region, near.region)}{free}"
    )
    return "; ".join(filter(None, (damage, copied)))


def lacking_texts(home: StackWeights) -> list[str]:
    """The regions that :func:`fill_regions` would copy to once the weights are pushed to the home
    of the stack of ``home``, a line each.

    Raises:
        ConflictError: a region holds a complete set under their name that is not the pinned one.
        TpuflexError: it cannot be determined.
    """
    weights = home.stack.settings.model.weights
    texts = []
    for near in home.further():
        found = near.found()
        if weights.manifest_sha256 is not None:  # without one, only the push says what they are
            require_same(near, weights.manifest_sha256, found)
        if found is None or found.manifest is None:
            texts.append(
                f"weights: once they are pushed, they are copied from gs://{home.bucket} to"
                f" gs://{near.bucket} ({near.elsewhere}), and the network costs that"
            )
    return texts


def fill_regions(
    home: StackWeights,
    sha256: str,
    report: Report,
    cancelled: Callable[[], bool],
    *,
    again: bool = False,
) -> tuple[tuple[StackWeights, PushReport], ...]:
    """Copy the stack's weights from its ``home`` to its other regions. What is there already is
    compared with its manifest by size and checksum: a copy that broke off goes on, and what was
    damaged is copied again. While the home holds no weights, which the user may have allowed, none
    are copied.

    Gives what was copied to each region; nothing for one that has it all.

    Args:
        home: the stack's weights.
        sha256: SHA-256 of the manifest that every region is to have.
        report: takes the progress of a copy.
        cancelled: whether the user pressed Ctrl-C.
        again: copy every file, whatever is there.

    Raises:
        ConflictError: something else is in its place, or another client writes there.
        WeightsError: the set in the home is not complete.
        InterruptedByUser: the user pressed Ctrl-C.
        AccessError, ApiError: Cloud Storage refused.
    """
    others = home.further()
    if not others:
        return ()
    source = home.found()
    if source is None or source.manifest is None:
        return ()
    copied = []
    for near in others:
        found = near.found()
        require_same(near, sha256, found)
        # Before a copy, which may be killed when all of it is there.
        remember(near, sha256)
        if found is not None and found.manifest is not None:
            damage = _damage_text(near, _checked(near))
            if not damage and not again:
                continue
            if damage:
                report(f"  warning  {damage}")
        copied.append((near, _copy(home, near, sha256, report, cancelled, again=again)))
    return tuple(copied)


def _copy(
    home: StackWeights,
    near: StackWeights,
    sha256: str,
    report: Report,
    cancelled: Callable[[], bool],
    *,
    again: bool,
) -> PushReport:
    with transfer(report, f"  copying  weights to {near.elsewhere}") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while copying the weights.")
            show(done, total)

        copied = copy_set(
            home.store.contents(home.prefix),
            near.store.contents(near.prefix),
            expected=sha256,
            progress=progress,
            used=home.cloud.now().date(),
            again=again,
        )
    report(
        f"  copied   weights: {copied.bytes_sent / 1e6:.1f} MB in {copied.seconds:.1f} s from"
        f" gs://{home.bucket} to gs://{near.bucket} ({near.elsewhere}); nothing passed"
        " through here"
    )
    return copied


def _checked(near: StackWeights) -> WeightsCheck:
    return near.store.verify(near.prefix, near.stack.needs)


def _damage_text(near: StackWeights, check: WeightsCheck) -> str:
    """How the set in the bucket of ``near`` does not match its manifest, and what becomes of it;
    empty where it does."""
    problems = check.problems
    if not problems:
        return ""
    return f"{near.place} does not match its manifest ({problems[0]}): what is wrong is copied anew"


def copy_set(
    origin: SetObjects,
    target: SetObjects,
    *,
    expected: str,
    progress: ByteProgress,
    used: dt.date | None = None,
    again: bool = False,
) -> PushReport:
    """Copy the complete set that ``origin`` is to where ``target`` is, the manifest last and to the
    byte. What is there already with its size and checksum is not copied again, so that a copy that
    broke off goes on, and one that was damaged is mended.

    Args:
        origin: the objects of the set.
        target: what is in its place.
        expected: SHA-256 of the manifest that there is a reason to trust: who may write to the
            bucket may have put another one there since it was looked at.
        progress: called with the bytes that are there and the total; from several threads, one at a
            time.
        used: today, kept as the day of their last use.
        again: copy every file, whatever is there.

    Raises:
        WeightsError: the set is not complete.
        ConflictError: it is not the expected set; another one is in its place; or another client
            writes other files there, or changes the set, meanwhile.
        NotFoundError: there is no such bucket.
        AccessError: the caller may not.
    """
    began = time.monotonic()
    wanted = _complete(origin)
    if wanted.sha256 != expected:
        raise ConflictError(
            f"gs://{origin.bucket.name}/{origin.prefix} holds other weights than a moment ago"
            f" (manifest {wanted.sha256}; wanted are {expected}). Nothing was copied.",
            status=412,
            hint="Ask those who may write to that bucket, then run it again.",
        )
    there = target.found if target.manifest is not None else None
    if there is not None and there.sha256 != expected:
        raise ConflictError(
            f"gs://{target.bucket.name}/{target.prefix} holds another complete set already",
            status=412,
            hint="Run it again: what is there now is looked at first.",
        )
    present = target.objects
    kept = {} if again else present
    rest = [file for file in wanted.files if not same_content(file, kept.get(file.path))]
    tally = Tally(wanted.total_bytes, progress)
    tally.add(wanted.total_bytes - sum(file.size for file in rest))
    writing = Upload(target, wanted)
    copying = _Copying(origin, target, tally)
    if rest or there is None:
        with translated(target.bucket):
            writing.begin()
            in_threads(lambda file: copying.bring(file, present.get(file.path)), rest)
            writing.finish(wanted, source_of_set(origin.manifest_object), used)
    return push_report(wanted, {file.path for file in rest}, time.monotonic() - began)


def _complete(origin: SetObjects) -> Manifest:
    """The manifest of ``origin``, of which all is there.

    Raises:
        WeightsError: something is not.
    """
    place = f"gs://{origin.bucket.name}/{origin.prefix}"
    wanted, found = origin.manifest, origin.found
    # What is written is the text that follows from its content: another text has another hash.
    if wanted is None or found is None or wanted.sha256 != found.sha256:
        raise WeightsError(f"{place} has no manifest that a push has written; nothing was copied.")
    for file in wanted.files:
        if not same_content(file, origin.objects.get(file.path)):
            raise WeightsError(
                f"{place} does not match its manifest ({file.path}); nothing was copied.",
                hint=Advice("What is wrong there: {weights_verify}"),
            )
    return wanted


@dataclass(frozen=True, slots=True)
class _Copying:
    """Copies of single files.

    Attributes:
        origin: where from.
        target: where to.
        tally: told of every byte that was copied.
    """

    origin: SetObjects
    target: SetObjects
    tally: Tally

    def bring(self, file: WeightsFile, old: Blob | None) -> None:
        """Copy ``file`` in the place of ``old``, or of none.

        Raises:
            ConflictError: it was changed or removed meanwhile, here or there.
        """
        from google.api_core.exceptions import NotFound, PreconditionFailed

        bucket, source = self.target.bucket, self.origin.objects[file.path]
        made = bucket.blob(f"{self.target.prefix}/{file.path}")
        done = 0
        with translated(bucket):
            try:
                token = None
                while True:
                    # By its generation: exactly the object that was seen.
                    token, copied, _ = made.rewrite(
                        source,
                        token=token,
                        if_generation_match=generation(old),
                        timeout=TIMEOUT,
                    )
                    self.tally.add(copied - done)
                    done = copied
                    if token is None:
                        break
            except NotFound as error:
                raise self._changed(file) from error
            except PreconditionFailed:
                # A colleague copies the same; or the answer to an earlier attempt was lost.
                there = bucket.get_blob(made.name, timeout=TIMEOUT)
                if not same_content(file, there):
                    raise
                self.tally.add(file.size - done)
                return
        if not same_content(file, made):
            raise self._changed(file)

    def _changed(self, file: WeightsFile) -> ConflictError:
        place = f"gs://{self.origin.bucket.name}/{self.origin.prefix}"
        return ConflictError(
            f"{place}: {file.path} was removed or replaced while it was being copied",
            status=412,
            hint="Run it again when whoever does that is done.",
        )
