"""Whether the weights are there: whole in the bucket, or with a source to push them from."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.errors import TpuflexError, WeightsError
from tpuflex.gcp.weights_report import WeightsCheck
from tpuflex.operate.doctor.check import Check, Group, Subject
from tpuflex.operate.doctor.reading import Unread

WEIGHTS = Subject(Group.SERVED, "weights")


@dataclass(frozen=True, slots=True)
class WeightsPlace:
    """Where weights are to be.

    Attributes:
        url: their place in the bucket.
        source: where `up` takes missing ones from; empty if the stack names none.
        unusable: why that source cannot be used, if so.
        push: the command that pushes them.
    """

    url: str
    source: str
    unusable: TpuflexError | None
    push: str


def weights_check(place: WeightsPlace, stored: WeightsCheck | Unread | None) -> Check:
    """How the weights stand.

    Args:
        place: where they are to be.
        stored: what is there; None if there are none, or no bucket yet.
    """
    if isinstance(stored, Unread):
        return WEIGHTS.unknown(stored)
    if stored is not None and not stored.problems:
        gigabytes = stored.manifest.total_bytes / 1e9
        files = len(stored.manifest.files)
        return WEIGHTS.ok(f"{place.url}: complete, {files} files, {gigabytes:.2f} GB")
    lacking = "none" if stored is None else _damage(stored)
    if not place.source:
        return WEIGHTS.failed(
            WeightsError, f"{place.url}: {lacking}, and the stack names no source", place.push
        )
    if place.unusable is not None:
        return WEIGHTS.failed(
            type(place.unusable),
            f"{place.url}: {lacking}, and the source {place.source} cannot be used: "
            f"{' '.join(place.unusable.message.split())}",
            place.unusable.hint or place.push,
        )
    return WEIGHTS.ok(f"{place.url}: {lacking}; `tpuflex up` pushes them from {place.source}")


def _damage(stored: WeightsCheck) -> str:
    first = stored.problems[0]
    more = len(stored.problems) - 1
    return f"{first.path} ({first.problem})" + (f" and {more} more" if more else "")
