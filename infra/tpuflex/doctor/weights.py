"""Whether the weights are there: whole in the bucket, or with a source to push them from."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.errors import TpuflexError, WeightsError
from tpuflex.google.reading import Unread
from tpuflex.weights.stored_set import WeightsCheck
from tpuflex.weights.trust import Choice

WEIGHTS = Subject(Group.SERVED, "weights")


@dataclass(frozen=True, slots=True)
class WeightsPlace:
    """Where weights are to be.

    Attributes:
        url: their place in the bucket.
        source: where `up` takes missing ones from; empty if the stack names none.
        unusable: why that source cannot be used, if so.
        push: the command that pushes them.
        pinned: whether the stack file pins their manifest.
        active: whether the slice is ACTIVE: `up` then has nothing to do, and pushes nothing.
    """

    url: str
    source: str
    unusable: TpuflexError | None
    push: str
    pinned: bool = False
    active: bool = False


def weights_check(
    place: WeightsPlace, stored: WeightsCheck | Unread | None, chosen: Choice | WeightsError
) -> Check:
    """How the weights stand.

    Args:
        place: where they are to be.
        stored: what is there; None if there are none, or no bucket yet.
        chosen: what `up` would do about them, by
            :func:`tpuflex.weights.trust.choose`; or why it would refuse them, as far as
            that is known without the state.
    """
    if isinstance(stored, Unread):
        return WEIGHTS.unknown(stored)
    if stored is not None and not stored.problems and chosen is not Choice.PUSH:
        return _complete_check(place, stored, chosen)
    lacking = _lacking(stored)
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
    if place.active and stored is not None and stored.problems:
        return WEIGHTS.warning(
            f"{place.url}: {lacking}; the slice is ACTIVE, so `tpuflex up` pushes nothing, and a"
            " host that boots again would not find them",
            place.push,
        )
    refused = ", and refuses others than the pinned ones" if place.pinned else ""
    return WEIGHTS.ok(f"{place.url}: {lacking}; `tpuflex up` pushes from {place.source}{refused}")


def _complete_check(
    place: WeightsPlace, stored: WeightsCheck, chosen: Choice | WeightsError
) -> Check:
    """How weights stand that match their manifest: it may be one that `up` does not trust."""
    gigabytes = stored.manifest.total_bytes / 1e9
    text = f"{place.url}: complete, {len(stored.manifest.files)} files, {gigabytes:.2f} GB"
    if isinstance(chosen, Choice):
        return WEIGHTS.ok(text)
    if place.pinned:
        return WEIGHTS.failed(WeightsError, " ".join(chosen.message.split()), chosen.hint)
    # The state may name them, which only the engine reads.
    return WEIGHTS.warning(
        f"{text}; not pushed from here, so `tpuflex up` serves them only if the slice was made for"
        " them before",
        chosen.hint,
    )


def _lacking(stored: WeightsCheck | None) -> str:
    if stored is None:
        return "none"
    return _damage(stored) if stored.problems else "others than the pinned ones"


def _damage(stored: WeightsCheck) -> str:
    first = stored.problems[0]
    more = len(stored.problems) - 1
    return f"{first.path} ({first.problem})" + (f" and {more} more" if more else "")
