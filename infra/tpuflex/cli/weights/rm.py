"""The steps of `tpuflex weights rm`: choose sets, say what is lost, ask, and remove them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.places import weights_prefix
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.planning.rates import month_text
from tpuflex.weights.removal import Removal, Verdict, Wanted, judge, planned_removal, remove
from tpuflex.weights.stack_weights import StackWeights, is_shared, weights_in
from tpuflex.weights.stored_set import files_text
from tpuflex.weights.use import END_USES, Uses, require_right, weights_uses

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output
    from tpuflex.weights.stored_set import StoredWeights

_TAKE_DOWN = f"{END_USES} To remove a set all the same, name it and add --with-readers."


@dataclass(frozen=True, slots=True)
class _Place:
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
        """Who may use what goes, a line each."""
        return _users(self.removals, self.uses)

    def to_json(self, removed: Collection[Removal]) -> dict[str, object]:
        """It in the document of ``--json``, of which ``removed`` has gone, or would."""
        return {
            "bucket": self.weights.bucket,
            "removed": [each.to_json() for each in self.removals if each in removed],
            "kept": [{"prefix": each.stored.prefix, "why": each.why_kept} for each in self.kept],
            "in_use": {each.prefix: list(self.uses.of(each.prefix)) for each in self.removals},
            "unseen": list(self.uses.unseen),
        }


def run_weights_rm(
    invocation: Invocation, cloud: Connection, wanted: Wanted, *, dry_run: bool
) -> None:
    """Remove the sets that are ``wanted``, the manifest of each first; where the zones of the stack
    are in several regions, from the bucket of each. All of them are looked at before anything goes.

    Raises:
        NotFoundError: there is no such set, or no bucket.
        ConflictError: an endpoint uses the set, or it cannot be told whether one does; or somebody
            pushes there.
        InterruptedByUser: the user did not agree.
        AccessError: the caller may not.
    """
    output = invocation.output
    if not is_shared(cloud.stack):
        wanted = replace(wanted, own=weights_prefix(cloud.stack.settings.model))
    places = _looked(cloud, wanted)
    removals = [each for place in places for each in place.removals]
    refused = bool(_used_lines(places)) and not wanted.with_readers
    if refused and not dry_run:
        raise _in_use_error(places)
    _show(places, output)
    for line in _used_lines(places):
        output.result(line)
    removed: list[Removal] = []
    if dry_run:
        removed = removals
    elif removals:
        _require_rights(places)
        if not invocation.yes:
            _confirm(output, removals)
            if not wanted.with_readers:  # somebody may have come up while the user thought
                again = [replace(each, uses=weights_uses(each.weights)) for each in places]
                if _used_lines(again):
                    raise _in_use_error(again)
        _remove(places, removed, output)
    output.document(_document(places, removed, dry_run=dry_run, refused=refused))
    if not removals:
        output.result("There is nothing to remove.")
    elif dry_run and refused:
        output.result(f"It would be refused: endpoints may use it. {_TAKE_DOWN}")
    if dry_run and removals:
        output.result("Nothing was changed (--dry-run).")
    elif removals:
        output.result(f"Removed from {_buckets(places)}.")


def _looked(cloud: Connection, wanted: Wanted) -> tuple[_Place, ...]:
    """What goes from each bucket that ``wanted`` is about.

    Raises:
        NotFoundError: none has the set that is to go, or there is no bucket at all.
        ConflictError: all of a set was written by others.
    """
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
    return tuple(_place(each, stored, wanted, now) for each, stored in found)


def _meant(cloud: Connection, bucket: str) -> list[StackWeights]:
    """It in each region that is meant.

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


def _place(
    weights: StackWeights, stored: Sequence[StoredWeights], wanted: Wanted, now: dt.datetime
) -> _Place:
    uses = weights_uses(weights)
    verdicts = tuple(judge(stored, wanted, uses, now))
    planned = [
        planned_removal(weights.store.contents(each.stored.prefix), unfinished=wanted.unfinished)
        for each in verdicts
        if not each.why_kept
    ]
    removals = tuple(each for each in planned if not each.nothing or each.kept)
    _require_ours(weights, removals)
    return _Place(weights, removals, tuple(each for each in verdicts if each.why_kept), uses)


def _require_rights(places: Sequence[_Place]) -> None:
    """Check, where something goes from several buckets, that the caller may delete in each.

    Raises:
        AccessError: it may not in one.
    """
    several = [each for each in places if each.removals]
    if len(several) > 1:
        for each in several:
            require_right(each.weights, each.removals[0].prefix)


def _remove(places: Sequence[_Place], removed: list[Removal], output: Output) -> None:
    """Remove all of it, saying of each set that it is gone, and collect in ``removed`` what is: one
    that fails ends it."""
    try:
        for place in places:
            for each in place.removals:
                remove(each)
                removed.append(each)
                output.progress(f"  removed  gs://{place.weights.bucket}/{each.prefix}")
    except TpuflexError:
        output.document(_document(places, removed, dry_run=False, refused=False))
        raise


def _document(
    places: Sequence[_Place], removed: Collection[Removal], *, dry_run: bool, refused: bool
) -> dict[str, object]:
    home, *copies = [place.to_json(removed) for place in places]
    document = {**home, "dry_run": dry_run, "refused": refused}
    return {**document, "copies": copies} if copies else document


def _require_ours(weights: StackWeights, removals: Sequence[Removal]) -> None:
    """Check that there is something to remove that a push has written.

    Raises:
        ConflictError: all of a set was written by others.
    """
    for each in removals:
        if each.nothing:
            raise ConflictError(
                f"No push has written what is in gs://{weights.bucket}/{each.prefix}"
                f" ({', '.join(each.kept[:3])}). Nothing was removed.",
                hint="Have whoever put it there remove it.",
            )


def _users(removals: Sequence[Removal], uses: Uses) -> list[str]:
    """Who may use what goes, a line each; what no manifest names nobody uses."""
    whole = [each.prefix for each in removals if each.whole]
    users = [f"{prefix}: {user}" for prefix in whole for user in sorted(uses.of(prefix))]
    return [*users, *(f"not looked at: {line}" for line in uses.unseen if whole)]


def _used_lines(places: Sequence[_Place]) -> list[str]:
    """Who may use what goes, a line each, with the region where there are several."""
    if len(places) == 1:
        return places[0].users
    return [f"{_region(each.weights)}: {line}" for each in places for line in each.users]


def _region(weights: StackWeights) -> str:
    return weights.region


def _in_use_error(places: Sequence[_Place]) -> ConflictError:
    """Endpoints boot with what goes, or it cannot be told."""
    return ConflictError(
        f"Endpoints may use what would be removed from {_buckets(places)}, and a host that boots"
        " again would find no weights:\n"
        + "\n".join(f"  {line}" for line in _used_lines(places))
        + "\nNothing was removed.",
        hint=_TAKE_DOWN,
    )


def _buckets(places: Sequence[_Place]) -> str:
    """The buckets that something goes from, in words."""
    return _named([place.weights.bucket for place in places if place.removals])


def _named(buckets: Sequence[str]) -> str:
    return " and ".join(f"gs://{bucket}" for bucket in buckets)


def _show(places: Sequence[_Place], output: Output) -> None:
    rows = [(place, each) for place in places for each in place.removals]
    if rows:
        regions = {id(place): place.weights.location() for place in places}
        several = len(places) > 1
        output.heading(f"To be removed from {_buckets(places)}")
        header = ("PREFIX", "WHAT", "GIB", "COST")
        output.table(
            ("REGION", *header) if several else header,
            [
                (
                    *((regions[id(place)],) if several else ()),
                    each.prefix,
                    files_text(len(each.files))
                    + (" and the manifest" if each.manifest is not None else ""),
                    f"{each.size / 2**30:.2f}",
                    month_text(each.size, regions[id(place)]),
                )
                for place, each in rows
            ],
        )
        for _, each in rows:
            for name in each.kept:
                output.result(f"Kept: {each.prefix}/{name}: no push has written it.")
            for folder in each.spared:
                output.result(f"Kept: {each.prefix}/{folder}: it is a set of its own.")
    for place in places:
        where = f" ({_region(place.weights)})" if len(places) > 1 else ""
        for verdict in place.kept:
            output.result(f"Kept: {verdict.stored.prefix}{where}: {verdict.why_kept}.")
    if rows:
        output.result(
            "Where the bucket keeps versions (a library's: seven days; a stack's: one), they can be"
            " had back as long, and are billed as long."
        )


def _confirm(output: Output, removals: Sequence[Removal]) -> None:
    """Ask for one word that nobody types by accident: the set, or how many there are."""
    if len({each.prefix for each in removals}) == 1:  # in as many regions as it is
        output.confirm_name("set's prefix", removals[0].prefix)
        return
    count = str(len(removals))
    output.confirm(f"To remove all of this, type how many sets that are ({count})", expected=count)
