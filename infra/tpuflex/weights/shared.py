"""What holds of weights that outlive the stack: in the library of its project, or in a bucket of
the user's own. Others may serve them, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.boot.places import weights_prefix
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.google.existing_bucket import read_existing_bucket, require_pushable
from tpuflex.planning.rates import month_text, storage_per_month
from tpuflex.weights.library import in_library, require_library
from tpuflex.weights.pushed import PushedWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpuflex.boot.manifest import Manifest
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.weights.report import FoundManifest


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


def require_same(cloud: Connection, wanted: str, found: FoundManifest | None) -> None:
    """Check that nothing writes over a set of other weights in the bucket of ``cloud``: other
    endpoints may serve it, and their hosts refuse what is not the set that they were made for.
    Where the bucket outlives the stack, what cannot be read counts as such a set.

    Args:
        cloud: the stack's cloud, in one of its regions.
        wanted: SHA-256 of the manifest that would be written; or what else names other weights,
            such as their source.
        found: the manifest that is there.

    Raises:
        ConflictError: something would.
    """
    if found is None or (found.manifest is None and not is_shared(cloud.stack)):
        return
    if found.manifest is None:
        place = f"gs://{cloud.bucket}/{weights_prefix(cloud.stack.settings.model)}"
        raise ConflictError(
            f"{place} has a manifest that cannot be read, so nobody can tell which weights other"
            " stacks may serve from there. Nothing was sent there.",
            hint=f"An earlier version of the object {place}/{MANIFEST_NAME} may be the right one."
            f" {other_set_advice(cloud)}",
        )
    if found.sha256 != wanted:
        raise _other_weights(cloud, found.sha256, wanted)


def require_same_everywhere(
    cloud: Connection, wanted: Manifest, found: FoundManifest | None
) -> None:
    """The same before a push of ``wanted`` to a bucket that outlives the stack, where ``found`` is
    there; and before the copies that follow, in the stack's further regions.

    Raises:
        ConflictError: as :func:`require_same`.
        TpuflexError: it cannot be told of a further region.
    """
    if not is_shared(cloud.stack):
        return
    prefix = weights_prefix(cloud.stack.settings.model)
    require_same(cloud, wanted.sha256, found)
    for near in cloud.further_regions():
        require_same(near, wanted.sha256, near.weights.find(prefix))


def require_none_other(cloud: Connection, found: FoundManifest, wanted: str) -> None:
    """The same where ``found`` is seen not to be of the source ``wanted``, of which there is no
    manifest yet.

    Raises:
        ConflictError: as :func:`require_same`, if the bucket outlives the stack.
    """
    if is_shared(cloud.stack):
        require_same(cloud, wanted, found)


def require_pinned(cloud: Connection) -> None:
    """The same of a push of what the stack of ``cloud`` pins, before its source is read: a push of
    anything else is refused for that.

    Raises:
        ConflictError: it would.
        TpuflexError: it cannot be told.
    """
    model = cloud.stack.settings.model
    pinned = model.weights.manifest_sha256
    if pinned is not None and is_shared(cloud.stack):
        require_same(cloud, pinned, cloud.weights.find(weights_prefix(model)))


def _other_weights(cloud: Connection, there: str, wanted: str) -> ConflictError:
    prefix = weights_prefix(cloud.stack.settings.model)
    return ConflictError(
        f"gs://{cloud.bucket}/{prefix} holds other weights already (manifest {there}; these are"
        f" {wanted}), which other stacks may serve. Nothing was sent there.",
        hint=other_set_advice(cloud),
    )


def other_set_advice(cloud: Connection) -> str:
    """What to do where the bucket of ``cloud`` holds another set in the place of the stack's
    weights, which no push replaces."""
    model = cloud.stack.settings.model
    return (
        "Give these another name in the stack file, for example"
        f' tpuflex:model.weights.revision: "{_next(model.weights.revision)}". To remove what is'
        " there, unless an endpoint uses it: tpuflex weights rm"
        f" gs://{cloud.bucket}/{weights_prefix(model)} --stack {cloud.stack.name}"
    )


def note_weights_use(cloud: Connection, say: Callable[[str], None]) -> None:
    """Note in the bucket, if it outlives the stack of ``cloud``, that its weights are used today;
    where they are in several regions in the bucket of each.
    Where that is refused it is said, and nothing else comes of it: what nobody knows the last use
    of is not removed for want of use.
    """
    if is_shared(cloud.stack):
        for each in (cloud, *cloud.further_regions()):
            _note_use(each, say)


def _note_use(cloud: Connection, say: Callable[[str], None]) -> None:
    from tpuflex.weights.usage import note_use  # imports Google's library

    prefix = weights_prefix(cloud.stack.settings.model)
    try:
        note_use(cloud.weights.contents(prefix), cloud.now().date())
    except NotFoundError:
        return  # removed in this moment
    except TpuflexError as error:
        say(
            f"  warning  it could not be noted that gs://{cloud.bucket}/{prefix} is used today:"
            f" {error.message}"
        )


def note_last_use(cloud: Connection, served: PlannedWeights, say: Callable[[str], None]) -> None:
    """The same where the slice of the stack is gone that was made for ``served``. What the stack
    file names may be other weights by now, which it has not used."""
    if (served.bucket, served.prefix) == (cloud.bucket, weights_prefix(cloud.stack.settings.model)):
        note_weights_use(cloud, say)


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


def is_own(cloud: Connection, served: PlannedWeights | None, found: FoundManifest | None) -> bool:
    """Whether the set of the manifest ``found`` in the bucket of ``cloud`` is the stack's own: one
    that it has served, or that was pushed there from here. By place and name alone it may be a
    colleague's.

    Args:
        cloud: the stack's cloud, in one of its regions.
        served: the weights that the slice in the state was made for.
        found: what is there; None for files without a manifest, which are the stack's where its
            weights were.
    """
    if found is None:
        return _was_there(cloud, served)
    return found.sha256 in known_manifests(cloud, served)


def known_manifests(cloud: Connection, served: PlannedWeights | None) -> frozenset[str]:
    """SHA-256 of the manifests that are the stack's own in the bucket of ``cloud``. What is the
    stack's in its home is it in every region, which the home's is copied to.

    Args:
        cloud: the stack's cloud, in one of its regions.
        served: the weights that the slice in the state was made for.
    """
    home = cloud.buckets[cloud.stack.settings.region]
    prefix = weights_prefix(cloud.stack.settings.model)
    pushed = PushedWeights(cloud.stack.own_files)
    known = {pushed.get(bucket, prefix) for bucket in (cloud.bucket, home)}
    if (
        served is not None
        and served.prefix == prefix
        and (served.holds(cloud.bucket) or served.holds(home))
    ):
        known.add(served.manifest_sha256)
    return frozenset(each for each in known if each)


def _was_there(cloud: Connection, served: PlannedWeights | None) -> bool:
    """Whether weights of the stack were ever in the bucket of ``cloud``."""
    prefix = weights_prefix(cloud.stack.settings.model)
    if served is not None and served.prefix == prefix and served.holds(cloud.bucket):
        return True
    return PushedWeights(cloud.stack.own_files).get(cloud.bucket, prefix) is not None


def _next(revision: str) -> str:
    return str(int(revision) + 1) if revision.isdecimal() else f"{revision[:60]}-2"
