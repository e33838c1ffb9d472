"""The steps of `tpuflex weights rm`: choose sets, say what is lost, ask, and remove them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.cli.prepare_weights import files_text
from tpuflex.cli.shared_weights import bucket_region, is_shared
from tpuflex.cli.weights_uses import Uses, weights_uses
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.gcp.weights_removal import Removal, planned_removal, remove
from tpuflex.planning.storage_cost import month_text

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.output import Output
    from tpuflex.gcp.weights_report import StoredWeights

#: Something that was written so lately may be a push that is under way.
UNDER_WAY = dt.timedelta(hours=24)


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
    """

    set: str = ""
    unfinished: bool = False
    unused_days: int | None = None
    with_readers: bool = False
    own: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one set.

    Attributes:
        stored: the set.
        why_kept: why it stays; empty if it goes.
    """

    stored: StoredWeights
    why_kept: str = ""


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
                yield Verdict(one, _perhaps_wanted(one, uses, now))
        elif wanted.unused_days is not None and one.manifest is not None:
            own = "it is what the stack serves" if one.prefix == wanted.own else ""
            yield Verdict(one, _used_lately(one, wanted.unused_days, uses, now) or own)


def _nothing_left(one: StoredWeights) -> str:
    return "" if one.manifest is None or one.beside else "it is complete, and nothing is beside it"


def perhaps_under_way(written: dt.datetime | None, now: dt.datetime) -> bool:
    """Whether a push may be under way where something was ``written`` last."""
    return written is not None and now - written < UNDER_WAY


def _perhaps_wanted(one: StoredWeights, uses: Uses, now: dt.datetime) -> str:
    if perhaps_under_way(one.written, now):
        return "something was written there within 24 hours: a push may be under way"
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


def run_weights_rm(invocation: Invocation, cloud: Cloud, wanted: Wanted, *, dry_run: bool) -> None:
    """Remove the sets that are ``wanted``, the manifest of each first.

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
    now = cloud.now()
    stored = cloud.weights.list()
    if wanted.set and wanted.set not in {one.prefix for one in stored}:
        raise NotFoundError(
            f"gs://{cloud.bucket} holds no set of weights {wanted.set!r}",
            hint="What it holds: tpuflex weights ls",
        )
    uses = weights_uses(cloud)
    verdicts = tuple(judge(stored, wanted, uses, now))
    kept = [each for each in verdicts if each.why_kept]
    removals = [
        planned_removal(cloud.weights.contents(each.stored.prefix), unfinished=wanted.unfinished)
        for each in verdicts
        if not each.why_kept
    ]
    removals = [each for each in removals if not each.nothing or each.kept]
    _require_ours(cloud, removals)
    if not wanted.with_readers and not dry_run:
        _require_unused(cloud, removals, uses)
    _show(cloud, output, removals, kept)
    for line in _users(removals, uses):
        output.result(line)
    if removals and not dry_run:
        if not invocation.yes:
            _confirm(output, removals)
            if not wanted.with_readers:  # somebody may have come up while the user thought
                _require_unused(cloud, removals, weights_uses(cloud))
        for each in removals:
            remove(each)
    output.document(
        {
            "bucket": cloud.bucket,
            "dry_run": dry_run,
            "removed": [each.to_json() for each in removals],
            "kept": [{"prefix": each.stored.prefix, "why": each.why_kept} for each in kept],
            "in_use": {each.prefix: list(uses.of(each.prefix)) for each in removals},
            "unseen": list(uses.unseen),
        }
    )
    if not removals:
        output.result("There is nothing to remove.")
    elif dry_run:
        output.result("Nothing was changed (--dry-run).")
    else:
        output.result(f"Removed from gs://{cloud.bucket}.")


def _require_ours(cloud: Cloud, removals: Sequence[Removal]) -> None:
    """Check that there is something to remove that a push has written.

    Raises:
        ConflictError: all of a set was written by others.
    """
    for each in removals:
        if each.nothing:
            raise ConflictError(
                f"No push has written what is in gs://{cloud.bucket}/{each.prefix}"
                f" ({', '.join(each.kept[:3])}). Nothing was removed.",
                hint="Have whoever put it there remove it.",
            )


def _users(removals: Sequence[Removal], uses: Uses) -> list[str]:
    """Who may use what goes, a line each; what no manifest names nobody uses."""
    whole = [each.prefix for each in removals if each.whole]
    users = [f"{prefix}: {user}" for prefix in whole for user in sorted(uses.of(prefix))]
    return [*users, *(f"not looked at: {line}" for line in uses.unseen if whole)]


def _require_unused(cloud: Cloud, removals: Sequence[Removal], uses: Uses) -> None:
    """Check that no endpoint boots with what goes.

    Raises:
        ConflictError: one does, or it cannot be told.
    """
    lines = _users(removals, uses)
    if not lines:
        return
    raise ConflictError(
        f"Endpoints may use what would be removed from gs://{cloud.bucket}, and a host that boots"
        " again would find no weights:\n"
        + "\n".join(f"  {line}" for line in lines)
        + "\nNothing was removed.",
        hint="Take those endpoints down first (tpuflex --stack NAME down). To remove a set all the"
        " same, name it and add --with-readers.",
    )


def _show(
    cloud: Cloud, output: Output, removals: Sequence[Removal], kept: Sequence[Verdict]
) -> None:
    if removals:
        output.heading(f"To be removed from gs://{cloud.bucket}")
        region = bucket_region(cloud)
        output.table(
            ("PREFIX", "WHAT", "GIB", "COST"),
            [
                (
                    each.prefix,
                    files_text(len(each.files))
                    + (" and the manifest" if each.manifest is not None else ""),
                    f"{each.size / 2**30:.2f}",
                    month_text(each.size, region),
                )
                for each in removals
            ],
        )
        for each in removals:
            for name in each.kept:
                output.result(f"Kept: {each.prefix}/{name}: no push has written it.")
    for verdict in kept:
        output.result(f"Kept: {verdict.stored.prefix}: {verdict.why_kept}.")
    if removals:
        output.result(
            "Where the bucket keeps versions (a library's: seven days; a stack's: one), they can be"
            " had back as long, and are billed as long."
        )


def _confirm(output: Output, removals: Sequence[Removal]) -> None:
    """Ask for one word that nobody types by accident: the set, or how many there are."""
    if len(removals) == 1:
        output.confirm_name("set's prefix", removals[0].prefix)
        return
    count = str(len(removals))
    output.confirm(f"To remove all of this, type how many sets that are ({count})", expected=count)
