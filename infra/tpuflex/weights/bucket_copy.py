"""Copying a set of weights from one bucket to another within Cloud Storage: no byte of it passes
through this machine.

https://cloud.google.com/storage/docs/json_api/v1/objects/rewrite
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import WeightsFile
from tpuflex.errors import ConflictError, WeightsError
from tpuflex.weights.local_files import Progress, Tally, translated
from tpuflex.weights.objects import TIMEOUT, SetObjects, source_of_set
from tpuflex.weights.report import PushReport
from tpuflex.weights.writing import SetWriting, generation, same

if TYPE_CHECKING:
    from google.cloud.storage import Blob  # type: ignore[import-untyped]

    from tpuflex.boot.manifest import Manifest

#: Objects copied at a time.
_AT_ONCE = 8


def copy_set(
    origin: SetObjects,
    target: SetObjects,
    *,
    expected: str,
    progress: Progress,
    used: dt.date | None = None,
    again: bool = False,
    now: Callable[[], float] = time.monotonic,
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
        now: a clock that never jumps, in seconds.

    Raises:
        WeightsError: the set is not complete.
        ConflictError: it is not the expected set; another one is in its place; or somebody writes
            other files there, or changes the set, meanwhile.
        NotFoundError: there is no such bucket.
        AccessError: the caller may not.
    """
    began = now()
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
    rest = [file for file in wanted.files if not same(file, kept.get(file.path))]
    tally = Tally(wanted.total_bytes, progress)
    tally.add(wanted.total_bytes - sum(file.size for file in rest))
    writing = SetWriting(target.bucket, target.prefix, {})
    copying = _Copying(origin, target, tally)
    if rest or there is None:
        with translated(target.bucket), ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            writing.begin(present, wanted)
            writing.bring(pool, rest, present, copying.bring)
            writing.finish(wanted, source_of_set(origin.manifest_object), used)
    copied = {file.path for file in rest}
    return PushReport(
        manifest=wanted,
        sent=tuple(file.path for file in rest),
        kept=tuple(file.path for file in wanted.files if file.path not in copied),
        bytes_sent=sum(file.size for file in rest),
        seconds=now() - began,
    )


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
        if not same(file, origin.objects.get(file.path)):
            raise WeightsError(
                f"{place} does not match its manifest ({file.path}); nothing was copied.",
                hint="What is wrong there: tpuflex weights verify",
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
                if not same(file, there):
                    raise
                self.tally.add(file.size - done)
                return
        if not same(file, made):
            raise self._changed(file)

    def _changed(self, file: WeightsFile) -> ConflictError:
        place = f"gs://{self.origin.bucket.name}/{self.origin.prefix}"
        return ConflictError(
            f"{place}: {file.path} was removed or replaced while it was being copied",
            status=412,
            hint="Run it again when whoever does that is done.",
        )
