"""The bucket of a stack's weights: its own, the library's of its project, or one of the user's own.
The last two outlive the stack, and others may serve weights from there, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.google.existing_bucket import read_existing_bucket, require_pushable
from tpuflex.planning.rates import month_text, storage_per_month
from tpuflex.weights.library import in_library, require_library
from tpuflex.weights.push_record import is_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack


def is_shared(stack: Stack) -> bool:
    """Whether the weights of ``stack`` outlive it."""
    return in_library(stack) or stack.settings.model.weights.existing is not None


def require_shared(cloud: Connection, *, pushes: bool = False) -> None:
    """Check that the bucket for the weights of the stack of ``cloud`` is there and usable, if it is
    not of the stack's own making.

    Args:
        cloud: the stack's cloud.
        pushes: whether weights are to be pushed there.

    Raises:
        NotFoundError: there is none.
        AlreadyExistsError: somebody else has made the library's; tpuflex has made the user's own.
        AccessError: it cannot be told; or the caller may not push there.
        ApiError: it cannot be told.
    """
    require_library(cloud)
    settings = cloud.stack.settings
    if (existing := settings.model.weights.existing) is not None:
        storage = cloud.apis().storage
        read_existing_bucket(storage, existing, settings.region)
        if pushes:
            require_pushable(storage, existing)


def kept_weights(cloud: Connection) -> dict[str, object] | None:
    """What a teardown of the stack of ``cloud`` leaves of weights, for ``--json``; None where that
    is nothing. ``copies`` is what further regions have of it; absent where there is one only."""
    if not is_shared(cloud.stack):
        return None
    prefix = weights_prefix(cloud.stack.settings.model)
    looks = (_kept(each, prefix) for each in (cloud, *cloud.further_regions()))
    found = [each for each in looks if each is not None]
    if not found:
        return None
    first, *copies = found
    return {**first, "copies": copies} if copies else first


def _kept(cloud: Connection, prefix: str) -> dict[str, object] | None:
    """What is left at ``prefix`` in one bucket."""
    try:
        region = bucket_region(cloud)
        stored = cloud.weights.stored(prefix)
    except NotFoundError:
        return None
    except TpuflexError as error:
        return {"place": f"gs://{cloud.bucket}/{prefix}", "bytes": None, "why": error.message}
    if stored is None:
        return None
    size = stored.total_bytes
    dollars = storage_per_month(size, region)
    return {
        "place": f"gs://{cloud.bucket}/{prefix}",
        "bytes": size,
        "region": region,
        "usd_per_month": None if dollars is None else float(dollars),
    }


def bucket_region(cloud: Connection) -> str:
    """Where the bucket of the weights is: unless it is the user's own, where the chips are.

    Raises:
        TpuflexError: the user's own cannot be read.
    """
    settings = cloud.stack.settings
    region = cloud.weights_region or settings.region
    existing = settings.model.weights.existing
    if existing is None:
        return region
    found = read_existing_bucket(cloud.apis().storage, existing, region)
    return str(found.get("location") or region).lower()


def kept_line(
    cloud: Connection, kept: Mapping[str, object] | None, served: PlannedWeights | None
) -> str:
    """The same, ``kept``, for people; empty where nothing is left.

    Args:
        cloud: the stack's cloud.
        kept: what is left.
        served: the weights that the slice in the state was made for. The stack file may name others
            by now: what neither served nor was pushed from here, nobody is told to delete.
    """
    if kept is None:
        return ""
    if in_library(cloud.stack):
        return f"Kept in the library: {_kept_places(kept)}. What it holds: tpuflex library status"
    line = f"Kept in your bucket: {_kept_places(kept)}. Other endpoints may serve it."
    try:
        found = cloud.weights.find(weights_prefix(cloud.stack.settings.model))
    except TpuflexError:
        return line  # where it cannot be told, it is not the stack's own
    if not is_own(cloud, served, found):
        return line
    place = str(kept["place"]).removeprefix(f"gs://{cloud.bucket}/")
    return (
        f"{line} To delete what pushes have written there, unless an endpoint uses it: tpuflex"
        f" weights rm {place}"
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
