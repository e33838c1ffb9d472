"""The steps of `tpuflex down --purge-weights`: the set of a stack, which its teardown leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.cli.shared_weights import bucket_region, is_shared, was_used
from tpuflex.cli.steps.weights_verdicts import perhaps_under_way
from tpuflex.cli.weights_uses import weights_uses
from tpuflex.errors import AccessError, ConflictError, NotFoundError, TpuflexError
from tpuflex.gcloud_commands import grant_on_bucket
from tpuflex.gcp.brought_bucket import PUSH_ROLE, held_in
from tpuflex.gcp.weights_removal import Removal, planned_removal, remove
from tpuflex.naming import COPY_ROLE, account_email
from tpuflex.operate.begun_removals import BegunRemovals
from tpuflex.planning.storage_cost import month_text

#: What a removal needs.
DELETES = "storage.objects.delete"

if TYPE_CHECKING:
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.cli.cloud import Cloud


def planned_purge(cloud: Cloud, served: PlannedWeights | None) -> Removal | None:
    """What goes of the weights that outlive the stack of ``cloud``; None if nothing does. Nothing
    is changed yet.

    Args:
        cloud: the stack's cloud.
        served: the weights that the slice in the state was made for.

    Raises:
        ConflictError: the stack has never used what its file names; another endpoint may use it, or
            it cannot be told whether one does; or no push has written it.
        TpuflexError: it cannot be looked at.
    """
    stack = cloud.stack
    if not is_shared(stack):
        return None
    prefix = weights_prefix(stack.settings.model)
    place = f"gs://{cloud.bucket}/{prefix}"
    try:
        removal = planned_removal(cloud.weights.contents(prefix), unfinished=False)
    except NotFoundError:
        return None  # the bucket is gone: all else can go
    if removal.nothing and not removal.kept:
        return None
    if not was_used(cloud, served):
        raise ConflictError(
            f"{place} was neither served by this stack nor pushed from here: it may be somebody"
            " else's. Nothing was deleted.",
            hint="Leave --purge-weights out; to remove it all the same:"
            f" tpuflex weights rm {prefix} --stack {stack.name}",
        )
    if removal.nothing:
        raise ConflictError(
            f"No push has written what is in {place}. Nothing was deleted.",
            hint="Leave --purge-weights out.",
        )
    begun = BegunRemovals(stack.own_files).left(cloud.bucket, prefix, removal.written)
    if removal.manifest is None and not begun and perhaps_under_way(removal.written, cloud.now()):
        raise ConflictError(
            f"Something was written in {place} within 24 hours, and there is no manifest: a push"
            " may be under way. Nothing was deleted.",
            hint="Leave --purge-weights out; once no push is under way:"
            f" tpuflex weights rm {prefix} --stack {stack.name}",
        )
    settings = stack.settings
    brought = settings.identity.brought
    own = account_email(stack.names.service_account_id(), settings.project)
    member = f"serviceAccount:{own}" if brought is None else brought.member
    # A machine of its own that copies goes with the stack, before the weights do.
    copies = account_email(stack.names.service_account_id(COPY_ROLE), settings.project)
    uses = weights_uses(cloud)
    ours = (member, f"serviceAccount:{copies}")
    users = [*uses.others(prefix, stack.names.owner, ours), *uses.unseen]
    _require_none(place, users, "Nothing was deleted.")
    _require_right(cloud, prefix)
    return removal


def planned_copies(
    cloud: Cloud, served: PlannedWeights | None
) -> tuple[tuple[Cloud, Removal], ...]:
    """The same in the other regions of the stack, each with its cloud. Raises as
    :func:`planned_purge`."""
    found = ((each, planned_purge(each, served)) for each in cloud.further_regions())
    return tuple((each, removal) for each, removal in found if removal is not None)


def _require_right(cloud: Cloud, prefix: str) -> None:
    """Check that the caller may delete there, before the stack is gone. A right on some objects
    alone is not told for a bucket: who has none on all of it is told what is looked for.

    Raises:
        AccessError: it may not.
    """
    try:
        held = held_in(cloud.apis().storage, cloud.bucket, (DELETES,))
    except TpuflexError:
        return  # the first call that is refused tells
    if DELETES not in held:
        raise AccessError(
            f"You may not delete gs://{cloud.bucket}/{prefix}: {DELETES} on the bucket is missing."
            " Nothing was deleted.",
            hint="Leave --purge-weights out, or have whoever administers it run: "
            + str(grant_on_bucket(f"gs://{cloud.bucket}", PUSH_ROLE, "user:YOU")),
        )


def purge_text(cloud: Cloud, removal: Removal) -> str:
    """What goes, and what it costs until then, in words."""
    cost = month_text(removal.size, bucket_region(cloud))
    return (
        f"Removed at the end: gs://{cloud.bucket}/{removal.prefix},"
        f" {removal.size / 2**30:.2f} GiB, {cost}. Where the bucket keeps"
        " versions (a library's: seven days), they are billed as long."
    )


def nothing_text(cloud: Cloud) -> str:
    """Why no weights go beside those in the stack's own bucket, in words."""
    if not is_shared(cloud.stack):
        return "The stack file names no weights that outlive the stack."
    place = f"gs://{cloud.bucket}/{weights_prefix(cloud.stack.settings.model)}"
    return f"No weights are removed: the stack file names {place}, and there is nothing."


def purge(cloud: Cloud, planned: Removal) -> Removal:
    """Remove what was ``planned``, now that the stack is gone, as it is now.

    Raises:
        ConflictError: an endpoint has come to use it since, or it cannot be told; or somebody
            pushes there.
    """
    uses = weights_uses(cloud)
    place = f"gs://{cloud.bucket}/{planned.prefix}"
    users = [*uses.of(planned.prefix), *uses.unseen]
    _require_none(place, users, "The weights were left.")
    removal = planned_removal(cloud.weights.contents(planned.prefix), unfinished=False)
    begun = BegunRemovals(cloud.stack.own_files)
    begun.begin(cloud.bucket, planned.prefix, removal.written)
    remove(removal)
    begun.end(cloud.bucket, planned.prefix)
    return removal


def _require_none(place: str, users: list[str], outcome: str) -> None:
    if users:
        raise ConflictError(
            f"Other endpoints may use {place}:\n"
            + "\n".join(f"  {line}" for line in users)
            + f"\n{outcome}",
            hint="Leave --purge-weights out: the weights then stay. Once nobody uses them:"
            " tpuflex weights rm",
        )
