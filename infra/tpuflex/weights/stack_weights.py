"""The bucket of a stack's weights: its own, the library's of its project, or one of the user's own.
The last two outlive the stack, and others may serve weights from there, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.catalog.weight_formats import MANIFEST_NAME
from tpuflex.errors import AlreadyExistsError, ConflictError, NotFoundError
from tpuflex.google.existing_bucket import read_existing_bucket, require_pushable
from tpuflex.inventory.library import list_library, read_library_bucket
from tpuflex.inventory.listing import Unlisted
from tpuflex.naming import library_names
from tpuflex.weights.library import in_library, require_library

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.weights.bucket import WeightsBucket
    from tpuflex.weights.stored_set import FoundManifest


@dataclass(frozen=True)
class StackWeights:
    """The weights of a stack in the bucket of one of its regions.

    Attributes:
        cloud: the stack's cloud.
        elsewhere: the region, where it is not the stack's home; also one that the stack file does
            not name, if the library has a bucket there.
    """

    cloud: Connection
    elsewhere: str = ""

    @property
    def stack(self) -> Stack:
        """The stack."""
        return self.cloud.stack

    @property
    def region(self) -> str:
        """Where the chips are that read them."""
        return self.elsewhere or self.stack.settings.region

    @property
    def bucket(self) -> str:
        """Name of their bucket. In a region that the stack file does not name, the library's."""
        project = self.stack.settings.project
        named = self.cloud.buckets.get(self.region)
        return named or library_names(project).bucket(project, self.region)

    @property
    def prefix(self) -> str:
        """Where they are in it, without a slash at the end."""
        return weights_prefix(self.stack.settings.model)

    @property
    def place(self) -> str:
        """Where they are, as ``gs://BUCKET/PREFIX``."""
        return f"gs://{self.bucket}/{self.prefix}"

    def location(self) -> str:
        """Where the bucket is: unless it is the user's own, in the region.

        Raises:
            TpuflexError: the user's own cannot be read.
        """
        existing = self.stack.settings.model.weights.existing
        if existing is None:
            return self.region
        found = read_existing_bucket(self.cloud.apis().storage, existing, self.region)
        return str(found.get("location") or self.region).lower()

    def further(self) -> tuple[StackWeights, ...]:
        """The stack's weights in each of its regions except its home."""
        home = self.stack.settings.region
        return tuple(StackWeights(self.cloud, each) for each in self.cloud.buckets if each != home)

    def everywhere(self) -> tuple[StackWeights, ...]:
        """These, and those in each of the stack's regions except its home."""
        return (self, *self.further())

    def exists(self) -> bool:
        """Whether the bucket exists.

        Raises:
            AlreadyExistsError: it exists in another project; or it should be the user's own,
                and tpuflex has made it.
            NotFoundError: it is to be the user's own, and there is none.
            AccessError, ApiError: its owner cannot be determined.
        """
        settings = self.stack.settings
        if (existing := settings.model.weights.existing) is not None:
            read_existing_bucket(self.cloud.apis().storage, existing, settings.region)
            return True
        return self.cloud.is_there(self.bucket)

    @cached_property
    def store(self) -> WeightsBucket:
        """A client of the bucket, which is not somebody else's; raises as :meth:`exists`."""
        from tpuflex.weights.bucket import weights_bucket

        self.exists()
        settings = self.stack.settings
        return weights_bucket(
            self.bucket,
            project=settings.project,
            existing=settings.model.weights.existing,
            environ=self.cloud.environ,
            settling=self.cloud.settling,
            timing=self.cloud.timing,
        )

    def found(self) -> FoundManifest | None:
        """The manifest that is there; None if there is none, or no such bucket."""
        return self.store.find(self.prefix)


def weights_in(cloud: Connection, bucket: str) -> StackWeights | None:
    """The weights of the stack of ``cloud`` in ``bucket``, wherever the library has it; None where
    that is none of the library's, or the stack is not in it.

    Raises:
        AccessError, ApiError: it cannot be determined.
    """
    if not in_library(cloud.stack):
        return None
    try:
        found = read_library_bucket(cloud.apis(), bucket, cloud.stack.settings.project)
    except (NotFoundError, AlreadyExistsError):
        return None
    there = StackWeights(cloud, found.location)
    return there if there.bucket == bucket else None


def left_in_library(cloud: Connection) -> tuple[tuple[StackWeights, ...], tuple[Unlisted, ...]]:
    """The weights of the stack of ``cloud`` in each region where the library has a bucket and the
    stack file no zone, where the stack may have had weights before; and why that could not be
    told."""
    if not in_library(cloud.stack):
        return (), ()
    listing = list_library(cloud.apis(), cloud.stack.settings.project)
    own = set(cloud.buckets.values())
    found = (
        StackWeights(cloud, each.location)
        for each in sorted(listing.resources, key=lambda one: one.location)
        if each.name not in own
    )
    named = {each.name for each in listing.resources}
    return tuple(each for each in found if each.bucket in named), listing.unlisted


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
        AlreadyExistsError: the library's belongs to another owner; tpuflex has made the user's own.
        AccessError: it cannot be told; or the caller may not push there.
        ApiError: it cannot be determined.
    """
    require_library(cloud)
    settings = cloud.stack.settings
    if (existing := settings.model.weights.existing) is not None:
        storage = cloud.apis().storage
        read_existing_bucket(storage, existing, settings.region)
        if pushes:
            require_pushable(storage, existing)


def require_same(weights: StackWeights, wanted: str, found: FoundManifest | None) -> None:
    """Check that nothing writes over a set of other weights in the bucket of ``weights``: other
    endpoints may serve it, and their hosts refuse what is not the set that they were made for.
    Where the bucket outlives the stack, what cannot be read counts as such a set.

    Args:
        weights: the stack's weights, in one of its regions.
        wanted: SHA-256 of the manifest that would be written; or what else names other weights,
            such as their source.
        found: the manifest that is there.

    Raises:
        ConflictError: something would.
    """
    if found is None or (found.manifest is None and not is_shared(weights.stack)):
        return
    if found.manifest is None:
        place = weights.place
        raise ConflictError(
            f"{place} has a manifest that cannot be read, so nobody can tell which weights other"
            " stacks may serve from there. Nothing was sent there.",
            hint=f"An earlier version of the object {place}/{MANIFEST_NAME} may be the right one."
            f" {other_set_advice(weights)}",
        )
    if found.sha256 != wanted:
        raise _other_weights(weights, found.sha256, wanted)


def require_same_everywhere(
    weights: StackWeights, wanted: str, found: FoundManifest | None
) -> None:
    """Check as :func:`require_same` before a push, and before the copies to the stack's further
    regions that follow it. In buckets that the stack makes itself, any set may be replaced.

    Raises:
        ConflictError: as :func:`require_same`.
        TpuflexError: it cannot be determined of a further region.
    """
    if not is_shared(weights.stack):
        return
    require_same(weights, wanted, found)
    for near in weights.further():
        require_same(near, wanted, near.found())


def require_pinned(weights: StackWeights) -> None:
    """Check as :func:`require_same` that the pinned set may be pushed, before its source is read:
    no push of another one gets so far.

    Raises:
        ConflictError: as :func:`require_same`.
        TpuflexError: it cannot be determined.
    """
    model = weights.stack.settings.model
    pinned = model.weights.manifest_sha256
    if pinned is not None and is_shared(weights.stack):
        require_same(weights, pinned, weights.found())


def _other_weights(weights: StackWeights, there: str, wanted: str) -> ConflictError:
    return ConflictError(
        f"{weights.place} holds other weights already (manifest {there}; these are"
        f" {wanted}), which other stacks may serve. Nothing was sent there.",
        hint=other_set_advice(weights),
    )


def other_set_advice(weights: StackWeights) -> str:
    """What to do where the bucket of ``weights`` holds another set in the place of the stack's
    weights, which no push replaces."""
    revision = weights.stack.settings.model.weights.revision
    return (
        "Give these another name in the stack file, for example"
        f' tpuflex:model.weights.revision: "{_next(revision)}". To remove what is'
        " there, unless an endpoint uses it: tpuflex weights rm"
        f" {weights.place} --stack {weights.stack.name}"
    )


def _next(revision: str) -> str:
    return str(int(revision) + 1) if revision.isdecimal() else f"{revision[:60]}-2"
