"""Removing sets of weights: which of them go, why others stay, and their objects, the manifest
first: half a set never verifies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.places import weights_prefix
from tpuflex.catalog.weight_formats import MANIFEST_NAME
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.stack.progress import agree, require_consent
from tpuflex.weights.model import in_threads
from tpuflex.weights.stack_weights import StackWeights, is_shared, weights_in
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import TIMEOUT, SetObjects, objects_beside
from tpuflex.weights.use import END_USES, Uses, require_right, weights_uses

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent, Report
    from tpuflex.weights.stored_set import StoredWeights

#: Something that was written so lately may be a push that is under way.
UNDER_WAY = dt.timedelta(hours=24)
#: It names --unfinished, too: without it, all of a complete set goes, not only what is beside it.
_UNDER_WAY_TEXT = (
    "something was written there within 24 hours: a push may be under way. If none is, name the set"
    " beside --unfinished"
)
#: What to do about sets that are used.
TAKE_DOWN = f"{END_USES} To remove a set all the same, name it and add --with-readers."


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
                lately = push_may_be_running(one.written, now)
                yield Verdict(one, _UNDER_WAY_TEXT if lately else _awaited(one, uses))
        elif wanted.unused_days is not None and one.manifest is not None:
            own = "it is what the stack serves" if one.prefix == wanted.own else ""
            yield Verdict(one, _used_lately(one, wanted.unused_days, uses, now) or own)


def _nothing_left(one: StoredWeights) -> str:
    return "" if one.manifest is None or one.beside else "it is complete, and nothing is beside it"


def push_may_be_running(written: dt.datetime | None, now: dt.datetime) -> bool:
    """Whether a push may be under way where something was ``written`` last."""
    return written is not None and now - written < UNDER_WAY


def _awaited(one: StoredWeights, uses: Uses) -> str:
    """Who may be waiting for the rest of what has no manifest; empty for nobody."""
    if one.manifest is None and (uses.of(one.prefix) or uses.unlisted):
        return _in_use(one, uses)
    return ""


def _used_lately(one: StoredWeights, days: int, uses: Uses, now: dt.datetime) -> str:
    if uses.of(one.prefix) or uses.unlisted:
        return _in_use(one, uses)
    if one.used is None:
        return "nothing says when it was last used"
    if (now.date() - one.used).days < days:
        return f"it was used on {one.used}"
    return ""


def _in_use(one: StoredWeights, uses: Uses) -> str:
    users = uses.of(one.prefix)
    return users[0] if users else f"it could not be told who uses it ({uses.unlisted[0]})"


@dataclass(frozen=True, slots=True)
class Removal:
    """Objects of one set of weights that are to go.

    Attributes:
        bucket: their bucket.
        prefix: where the set is.
        manifest: the object of its manifest, if that goes, too.
        files: the other objects.
        kept: names of those that stay, because no push has written them.
        whole: whether all of the set goes that a push has written.
        seen: the generation of the manifest that was there; None for none.
        spared: folders below it that stay, each with a slash at its end: sets of their own.
    """

    bucket: Bucket
    prefix: str
    manifest: Blob | None
    files: tuple[Blob, ...]
    kept: tuple[str, ...]
    whole: bool
    seen: int | None = None
    spared: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether nothing goes."""
        return self.manifest is None and not self.files

    @property
    def size(self) -> int:
        """Bytes of the files that go."""
        return sum(blob.size or 0 for blob in self.files)

    @property
    def written(self) -> dt.datetime | None:
        """When the last of what goes was written, the manifest counted."""
        there = self.files if self.manifest is None else (*self.files, self.manifest)
        return max((blob.time_created for blob in there), default=None)

    def to_json(self) -> dict[str, object]:
        """It in the documents of ``--json``."""
        return {
            "prefix": self.prefix,
            "whole": self.whole,
            "files": len(self.files),
            "bytes": self.size,
            "kept": [*self.kept, *self.spared],
        }


def planned_removal(there: SetObjects, *, unfinished: bool) -> Removal:
    """What goes of what is ``there``. In a bucket of the user's own, what belongs to a set below
    this one never does: where one stack writes to ``gs://B/models`` and another to ``gs://B``, the
    second takes the sets of the first for parts of its own. In others no set lies below another.

    Args:
        there: the objects of the set.
        unfinished: whether a complete set stays, and only goes what its manifest does not name.

    Raises:
        ConflictError: one of the objects is under a hold, and Cloud Storage does not delete it
            (https://cloud.google.com/storage/docs/object-holds): half a set would be left.
    """
    stays = there.manifest if unfinished else None
    go = there.objects if stays is None else objects_beside(there.objects, stays)
    below = there.sets_below() if there.others else ()
    go = {path: blob for path, blob in go.items() if not path.startswith(below)}
    pushed = {path: blob for path, blob in go.items() if there.is_part_of_push(blob)}
    held = [path for path, blob in pushed.items() if blob.temporary_hold or blob.event_based_hold]
    if held:
        raise ConflictError(
            f"gs://{there.bucket.name}/{there.prefix}/{held[0]} is under a hold, and cannot be"
            " deleted. Nothing was removed.",
            hint="Have whoever holds it release it, or leave the set.",
        )
    return Removal(
        there.bucket,
        there.prefix,
        manifest=pushed.get(MANIFEST_NAME),
        files=tuple(blob for path, blob in pushed.items() if path != MANIFEST_NAME),
        kept=tuple(sorted(go.keys() - pushed.keys())),
        whole=stays is None,
        spared=tuple(sorted(below)),
        seen=None if there.manifest_object is None else there.manifest_object.generation,
    )


def remove(removal: Removal) -> None:
    """Delete what ``removal`` names, the manifest first. Each object goes only if it is still the
    one that was seen; what is gone already is no error, so that the same command goes on where one
    was killed. In a bucket with versions they can be had back as long as it keeps these.

    Raises:
        ConflictError: another push is under way there.
        AccessError: the caller may not.
        NotFoundError: there is no such bucket.
    """
    with translated(removal.bucket):
        if removal.manifest is not None:
            # A use noted since then counts; a later one finds no weights.
            metageneration = removal.manifest.metageneration
            _delete(removal.bucket, removal.manifest, if_metageneration_match=metageneration)
        else:
            _require_no_other(removal)
        in_threads(partial(_delete, removal.bucket), removal.files)
        if removal.whole:
            _require_no_other(removal)


def _require_no_other(removal: Removal) -> None:
    """Check that no push has ended since the set was looked at: its manifest names files that were
    taken for what one has left.

    Raises:
        ConflictError: one has.
    """
    there = removal.bucket.get_blob(f"{removal.prefix}/{MANIFEST_NAME}", timeout=TIMEOUT)
    if there is not None and (removal.manifest is not None or there.generation != removal.seen):
        raise ConflictError(
            f"gs://{removal.bucket.name}/{removal.prefix}: somebody has pushed there meanwhile",
            status=412,
            hint=Advice(
                "Look what is there: {weights_verify}. Then push, or remove it, once more."
            ),
        )


def _delete(bucket: Bucket, blob: Blob, **conditions: int) -> None:
    """Delete exactly ``blob``. Its generation is a condition only: a deletion that names it leaves
    no version (https://cloud.google.com/storage/docs/json_api/v1/objects/delete)."""
    from google.api_core.exceptions import NotFound

    try:
        bucket.blob(blob.name).delete(
            if_generation_match=blob.generation, timeout=TIMEOUT, **conditions
        )
    except NotFound:
        return


@dataclass(frozen=True, slots=True)
class RegionRemoval:
    """What goes from the bucket of one region.

    Attributes:
        weights: the stack's weights there.
        removals: what goes.
        kept: the sets that stay, and why.
        uses: who uses the sets there.
    """

    weights: StackWeights
    removals: tuple[Removal, ...]
    kept: tuple[Verdict, ...]
    uses: Uses

    @property
    def users(self) -> list[str]:
        """Who may use what goes, a line each. Of a complete set whose unfinished rest goes, nobody:
        no host reads what the manifest does not name."""
        whole = [each.prefix for each in self.removals if each.whole]
        users = [f"{prefix}: {user}" for prefix in whole for user in sorted(self.uses.of(prefix))]
        return [*users, *(f"not looked at: {line}" for line in self.uses.unlisted if whole)]

    def to_json(self, removed: Collection[Removal]) -> dict[str, object]:
        """It in the document of ``--json``, of which ``removed`` has gone, or would."""
        return {
            "bucket": self.weights.bucket,
            "removed": [each.to_json() for each in self.removals if each in removed],
            "kept": [{"prefix": each.stored.prefix, "why": each.why_kept} for each in self.kept],
            "in_use": {each.prefix: list(self.uses.of(each.prefix)) for each in self.removals},
            "unseen": list(self.uses.unlisted),
        }


@dataclass(frozen=True, slots=True)
class SetsRemoval:
    """A removal of sets from the buckets of a stack: what is planned, and what has gone.

    Attributes:
        regions: what goes from each bucket.
        with_readers: whether it goes although endpoints use it.
        dry_run: whether nothing goes.
        removed: what has gone, or would.
        error: what has ended it before all was gone.
    """

    regions: tuple[RegionRemoval, ...]
    with_readers: bool = False
    dry_run: bool = False
    removed: tuple[Removal, ...] = ()
    error: TpuflexError | None = None

    @property
    def removals(self) -> tuple[Removal, ...]:
        """All that goes."""
        return tuple(each for region in self.regions for each in region.removals)

    @property
    def users(self) -> list[str]:
        """Who may use what goes, a line each, with the region where there are several."""
        if len(self.regions) == 1:
            return self.regions[0].users
        return [f"{each.weights.region}: {line}" for each in self.regions for line in each.users]

    @property
    def refused(self) -> bool:
        """Whether it is refused because what goes may be in use."""
        return bool(self.users) and not self.with_readers

    @property
    def buckets(self) -> str:
        """The buckets that something goes from, in words."""
        return _named([each.weights.bucket for each in self.regions if each.removals])

    def to_json(self) -> dict[str, object]:
        """The document of ``--json``."""
        home, *copies = [each.to_json(self.removed) for each in self.regions]
        refused = self.refused and self.dry_run
        document = {**home, "dry_run": self.dry_run, "refused": refused}
        return {**document, "copies": copies} if copies else document


def plan_removal(cloud: Connection, wanted: Wanted, *, dry_run: bool = False) -> SetsRemoval:
    """What goes of the sets that are ``wanted``; where the zones of the stack are in several
    regions, from the bucket of each. Nothing is changed.

    Args:
        cloud: the stack's cloud.
        wanted: what is to go.
        dry_run: whether it is only shown, also where it would be refused.

    Raises:
        NotFoundError: none has the set that is to go, or there is no bucket at all.
        ConflictError: an endpoint uses the set, or it cannot be determined whether one does; or all
            of a set was written by others.
    """
    if not is_shared(cloud.stack):
        wanted = replace(wanted, own=weights_prefix(cloud.stack.settings.model))
    now = cloud.now()
    meant = _meant(cloud, wanted.bucket)
    found: list[tuple[StackWeights, tuple[StoredWeights, ...]]] = []
    for each in meant:
        try:
            found.append((each, each.store.list()))
        except NotFoundError:  # a region that was added since the last `up`
            if not found and each is meant[-1]:
                raise
    if wanted.set and all(wanted.set != one.prefix for _, stored in found for one in stored):
        raise NotFoundError(
            f"{_named([each.bucket for each in meant])} holds no set of weights {wanted.set!r}",
            hint=Advice("What there is: {weights_ls}"),
        )
    regions = tuple(_region_removal(each, stored, wanted, now) for each, stored in found)
    plan = SetsRemoval(regions, wanted.with_readers, dry_run)
    if plan.refused and not dry_run:
        raise _in_use_error(plan)
    return replace(plan, removed=plan.removals) if dry_run else plan


def remove_sets(plan: SetsRemoval, report: Report, consent: Consent) -> SetsRemoval:
    """Remove what is planned, the manifest of each set first, after consent.

    Gives the plan with what has gone, and with the error that has ended it early, if one has.

    Args:
        plan: what goes.
        report: told of each set that is gone.
        consent: asked for one word that nobody types by accident: the set, or how many there are.

    Raises:
        AccessError: the caller may not delete in one of several buckets.
        InterruptedByUser: the user did not agree.
        ConflictError: it has come into use since it was planned.
    """
    if not plan.removals:
        return plan
    _require_rights(plan.regions)
    prefixes = {each.prefix for each in plan.removals}
    if len(prefixes) == 1:  # in as many regions as it is
        word = plan.removals[0].prefix
        require_consent(consent, f"Type the set's prefix ({word}) to go ahead", expected=word)
    else:
        word = str(len(plan.removals))
        text = f"To remove all of this, type how many sets that are ({word})"
        require_consent(consent, text, expected=word)
    if consent is not agree and not plan.with_readers:
        # An endpoint may have come up while the user thought.
        regions = [replace(each, uses=weights_uses(each.weights)) for each in plan.regions]
        again = replace(plan, regions=tuple(regions))
        if again.users:
            raise _in_use_error(again)
    removed: list[Removal] = []
    try:
        for region in plan.regions:
            for each in region.removals:
                remove(each)
                removed.append(each)
                report(f"  removed  gs://{region.weights.bucket}/{each.prefix}")
    except TpuflexError as error:
        return replace(plan, removed=tuple(removed), error=error)
    return replace(plan, removed=tuple(removed))


def _meant(cloud: Connection, bucket: str) -> list[StackWeights]:
    """The weights in each region that sets are to go from: in that of ``bucket`` alone, if it is
    named.

    Raises:
        NotFoundError: ``bucket`` is neither the stack's nor the library's.
    """
    own = [each for each in StackWeights(cloud).everywhere() if bucket in ("", each.bucket)]
    if own:
        return own
    there = weights_in(cloud, bucket)
    if there is None:
        raise NotFoundError(
            f"gs://{bucket} is neither a bucket of this stack nor one of its library's",
            hint=Advice("What there is: {weights_ls}"),
        )
    return [there]


def _region_removal(
    weights: StackWeights, stored: Sequence[StoredWeights], wanted: Wanted, now: dt.datetime
) -> RegionRemoval:
    uses = weights_uses(weights)
    verdicts = tuple(judge(stored, wanted, uses, now))
    planned = [
        planned_removal(weights.store.contents(each.stored.prefix), unfinished=wanted.unfinished)
        for each in verdicts
        if not each.why_kept
    ]
    removals = tuple(each for each in planned if not each.nothing or each.kept)
    for each in removals:
        if each.nothing:
            raise ConflictError(
                f"No push has written what is in gs://{weights.bucket}/{each.prefix}"
                f" ({', '.join(each.kept[:3])}). Nothing was removed.",
                hint="Have whoever put it there remove it.",
            )
    return RegionRemoval(weights, removals, tuple(each for each in verdicts if each.why_kept), uses)


def _require_rights(regions: Sequence[RegionRemoval]) -> None:
    """Check, where something goes from several buckets, that the caller may delete in each.

    Raises:
        AccessError: it may not in one.
    """
    several = [each for each in regions if each.removals]
    if len(several) > 1:
        for each in several:
            require_right(each.weights, each.removals[0].prefix)


def _in_use_error(plan: SetsRemoval) -> ConflictError:
    """Endpoints boot with what goes, or it cannot be determined."""
    return ConflictError(
        f"Endpoints may use what would be removed from {plan.buckets}, and a host that boots"
        " again would find no weights:\n"
        + "\n".join(f"  {line}" for line in plan.users)
        + "\nNothing was removed.",
        hint=TAKE_DOWN,
    )


def _named(buckets: Sequence[str]) -> str:
    return " and ".join(f"gs://{bucket}" for bucket in buckets)
