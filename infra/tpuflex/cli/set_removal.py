"""What commands that remove whole sets of weights do around each: the right to, before anything
goes, and the note of what was begun, for the same command after a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, ConflictError, TpuflexError
from tpuflex.gcloud_commands import grant_on_bucket
from tpuflex.gcp.brought_bucket import PUSH_ROLE, held_in
from tpuflex.gcp.weights_removal import Removal, remove
from tpuflex.operate.begun_removals import BegunRemovals

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud

#: What a removal needs.
DELETES = "storage.objects.delete"


def begun_removals(cloud: Cloud) -> BegunRemovals:
    """The removals that this home has agreed to, and begun."""
    return BegunRemovals(cloud.stack.own_files, cloud.now())


def require_right(cloud: Cloud, prefix: str, instead: str = "") -> None:
    """Check that the caller may delete what is at ``prefix``, before anything is gone. A right on
    some objects alone is not told for a bucket: who has none on all of it is told what is looked
    for.

    Args:
        cloud: the stack's cloud, in one of its regions.
        prefix: the set.
        instead: what to do otherwise than to have the right granted; empty for nothing.

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
            hint=(f"{instead}, or have" if instead else "Have")
            + " whoever administers it run: "
            + str(grant_on_bucket(f"gs://{cloud.bucket}", PUSH_ROLE, "user:YOU")),
        )


def remove_noted(cloud: Cloud, removal: Removal) -> None:
    """Remove what ``removal`` names from the bucket of ``cloud``, and note meanwhile that it was
    begun; raises as :func:`~tpuflex.gcp.weights_removal.remove`."""
    if not removal.whole:
        remove(removal)
        return
    begun = begun_removals(cloud)
    begun.begin(cloud.bucket, removal.prefix, removal.written)
    try:
        remove(removal)
    except ConflictError:
        # Somebody else uses it, or pushes there: what is without a manifest later is theirs.
        begun.end(cloud.bucket, removal.prefix)
        raise
    begun.end(cloud.bucket, removal.prefix)
