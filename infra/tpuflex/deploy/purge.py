"""The weights of a stack that outlive it: what its teardown leaves, and what
`tpuflex down --purge-weights` removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.places import weights_prefix
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.naming import account_email
from tpuflex.planning.cost import usd
from tpuflex.planning.rates import month_text, storage_per_month
from tpuflex.weights.library import in_library
from tpuflex.weights.push_record import is_own, known_manifests
from tpuflex.weights.removal import Removal, planned_removal, push_may_be_running, remove
from tpuflex.weights.stack_weights import is_shared, weights_in
from tpuflex.weights.use import require_right, weights_uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.weights.stack_weights import StackWeights
    from tpuflex.weights.stored_set import FoundManifest


def planned_purge(weights: StackWeights, served: PlannedWeights | None) -> Removal | None:
    """What goes of the weights that outlive the stack of ``weights``; None if nothing does. Nothing
    is changed yet.

    Args:
        weights: the stack's weights.
        served: the weights that the slice in the state was made for.

    Raises:
        ConflictError: the stack has never used what its file names; another endpoint may use it, or
            it cannot be determined whether one does; or no push has written it.
        TpuflexError: it cannot be looked at.
    """
    stack = weights.stack
    if not is_shared(stack):
        return None
    prefix = weights_prefix(stack.settings.model)
    place = f"gs://{weights.bucket}/{prefix}"
    try:
        there = weights.store.contents(prefix)
    except NotFoundError:
        return None  # the bucket is gone: all else can go
    removal = planned_removal(there, unfinished=False)
    if removal.nothing and not removal.kept:
        return None
    if not is_own(weights, served, there.found):
        raise _not_own(weights, served, there.found)
    if removal.nothing:
        raise ConflictError(
            f"No push has written what is in {place}. Nothing was deleted.",
            hint="Leave --purge-weights out.",
        )
    if removal.manifest is None and push_may_be_running(removal.written, weights.cloud.now()):
        raise ConflictError(
            f"Something was written in {place} within 24 hours, and there is no manifest: a push"
            " may be under way. Nothing was deleted.",
            hint="Leave --purge-weights out; once no push is under way:"
            f" tpuflex weights rm {prefix} --stack {stack.name}",
        )
    _require_unused(weights, prefix)
    require_right(weights, prefix, "Leave --purge-weights out")
    return removal


def _not_own(
    weights: StackWeights, served: PlannedWeights | None, found: FoundManifest | None
) -> ConflictError:
    """The error for what is not the stack's own, with what is there and what would be."""
    prefix = weights.prefix
    place = f"gs://{weights.bucket}/{prefix}"
    known = known_manifests(weights, served)
    if found is None or not known:
        why = "was neither served by this stack nor pushed from here: it may be somebody else's"
    else:
        why = (
            f"holds other weights (manifest {found.sha256 or 'unreadable'}) than this stack has"
            f" served, or were pushed from here ({', '.join(sorted(known))}): they may be somebody"
            " else's"
        )
    return ConflictError(
        f"{place} {why}. Nothing was deleted.",
        hint="Leave --purge-weights out; to remove it all the same:"
        f" tpuflex weights rm {place} --stack {weights.stack.name}",
    )


def _require_unused(weights: StackWeights, prefix: str) -> None:
    """Check that no endpoint but the stack of ``weights`` uses the set.

    Raises:
        ConflictError: one may.
    """
    stack = weights.stack
    settings = stack.settings
    existing = settings.identity.existing
    own = account_email(stack.names.service_account_id(), settings.project)
    member = f"serviceAccount:{own}" if existing is None else existing.member
    uses = weights_uses(weights)
    users = [*uses.others(prefix, stack.names.owner, member), *uses.unlisted]
    _require_none(f"gs://{weights.bucket}/{prefix}", users, "Nothing was deleted.")


def planned_copies(
    weights: StackWeights, served: PlannedWeights | None
) -> tuple[tuple[StackWeights, Removal], ...]:
    """The same in the other regions of the stack. Raises as
    :func:`planned_purge`."""
    regions = (*weights.further(), *_regions_taken_away(weights, served))
    found = ((each, planned_purge(each, served)) for each in regions)
    return tuple((each, removal) for each, removal in found if removal is not None)


def _regions_taken_away(
    weights: StackWeights, served: PlannedWeights | None
) -> Iterator[StackWeights]:
    """Them in the regions that the stack file does not name any more, where the slice in the state
    had the weights."""
    if served is None or served.prefix != weights.prefix:
        return
    for bucket in sorted({served.bucket, *served.copies} - set(weights.cloud.buckets.values())):
        if (there := weights_in(weights.cloud, bucket)) is not None:
            yield there


def purge_text(weights: StackWeights, removal: Removal) -> str:
    """What goes, and what it costs until then, in words."""
    cost = month_text(removal.size, weights.location())
    return (
        f"Removed at the end: gs://{weights.bucket}/{removal.prefix},"
        f" {removal.size / 2**30:.2f} GiB, {cost}. Where the bucket keeps"
        " versions (a library's: seven days), they are billed as long."
    )


def nothing_text(weights: StackWeights) -> str:
    """Why no weights go beside those in the stack's own bucket, in words."""
    if not is_shared(weights.stack):
        return "The stack file names no weights that outlive the stack."
    place = f"{weights.place}"
    return f"No weights are removed: the stack file names {place}, and there is nothing."


def purge(weights: StackWeights, planned: Removal) -> Removal:
    """Remove what was ``planned``, now that the stack is gone, as it is now.

    Raises:
        ConflictError: an endpoint uses it by now, or that cannot be determined;
            or a push is under way there.
    """
    uses = weights_uses(weights)
    place = f"gs://{weights.bucket}/{planned.prefix}"
    users = [*uses.of(planned.prefix), *uses.unlisted]
    _require_none(place, users, "The weights were left.")
    removal = planned_removal(weights.store.contents(planned.prefix), unfinished=False)
    if _pushed_since(planned, removal):
        raise ConflictError(
            f"{place}: somebody has pushed there meanwhile. The weights were left.",
            hint=Advice("Look what is there: {weights_verify}. To remove it: {weights_rm}"),
        )
    remove(removal)
    return removal


def _pushed_since(planned: Removal, now: Removal) -> bool:
    """Whether something is there that was not when it was planned; less may be."""
    if now.written is not None and (planned.written is None or now.written > planned.written):
        return True
    return now.seen not in (None, planned.seen)


def _require_none(place: str, users: list[str], outcome: str) -> None:
    if users:
        raise ConflictError(
            f"Other endpoints may use {place}:\n"
            + "\n".join(f"  {line}" for line in users)
            + f"\n{outcome}",
            hint=Advice(
                "Leave --purge-weights out: the weights then stay. Once nobody uses them:"
                " {weights_rm} {place}",
                place=place,
            ),
        )


def kept_weights(weights: StackWeights) -> dict[str, object] | None:
    """What a teardown of the stack leaves of its ``weights``, for ``--json``; None where that
    is nothing. ``copies`` is what further regions have of it; absent where there is one only."""
    if not is_shared(weights.stack):
        return None
    looks = map(_kept, weights.everywhere())
    found = [each for each in looks if each is not None]
    if not found:
        return None
    first, *copies = found
    return {**first, "copies": copies} if copies else first


def _kept(weights: StackWeights) -> dict[str, object] | None:
    """What is left in one bucket."""
    try:
        region = weights.location()
        stored = weights.store.stored(weights.prefix)
    except NotFoundError:
        return None
    except TpuflexError as error:
        return {"place": weights.place, "bytes": None, "why": error.message}
    if stored is None:
        return None
    size = stored.total_bytes
    dollars = storage_per_month(size, region)
    return {
        "place": weights.place,
        "bytes": size,
        "region": region,
        "usd_per_month": usd(dollars),
    }


def kept_line(
    weights: StackWeights, kept: Mapping[str, object] | None, served: PlannedWeights | None
) -> Advice:
    """The same, ``kept``, for people; empty where nothing is left.

    Args:
        weights: the stack's weights, in its home.
        kept: what is left.
        served: the weights that the slice in the state was made for. The stack file may name others
            by now: what neither served nor was pushed from here, nobody is told to delete.
    """
    if kept is None:
        return Advice("")
    if in_library(weights.stack):
        return Advice(
            "Kept in the library: {kept}. What it holds: {library_status}", kept=_kept_places(kept)
        )
    line = f"Kept in your bucket: {_kept_places(kept)}. Other endpoints may serve it."
    try:
        found = weights.store.find(weights.prefix)
    except TpuflexError:
        return Advice.of(line)  # where it cannot be told, it is not the stack's own
    if not is_own(weights, served, found):
        return Advice.of(line)
    place = str(kept["place"]).removeprefix(f"gs://{weights.bucket}/")
    return Advice(
        "{line} To delete what pushes have written there, unless an endpoint uses it:"
        " {weights_rm} {place}",
        line=line,
        place=place,
    )


def _kept_places(kept: Mapping[str, object]) -> str:
    """Where it is, with size and price, in the home and in further regions."""
    copies = kept.get("copies")
    each = (kept, *(copies if isinstance(copies, list) else ()))
    return "; ".join(f"{one['place']}, {_kept_cost(one)}" for one in each)


def _kept_cost(kept: Mapping[str, object]) -> str:
    size = kept["bytes"]
    if not isinstance(size, int):
        return f"could not be looked at ({kept.get('why')})"
    return f"{size / 2**30:.2f} GiB, {month_text(size, str(kept['region']))}"
