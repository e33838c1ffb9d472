"""The sets of weights in a stack's buckets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.inventory.unlisted import reasons
from tpuflex.weights.stack_weights import StackWeights, left_in_library
from tpuflex.weights.stored_set import StoredWeights
from tpuflex.weights.use import Uses, weights_uses

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection


@dataclass(frozen=True, slots=True)
class RegionListing:
    """What the bucket of one region holds.

    Attributes:
        bucket: its name.
        region: where it is.
        stored: the sets of weights.
        uses: who uses them.
        missing: why there is nothing, where there is no bucket.
    """

    bucket: str
    region: str
    stored: tuple[StoredWeights, ...]
    uses: Uses = field(default_factory=lambda: Uses({}))
    missing: NotFoundError | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The sets in a stack's buckets.

    Attributes:
        regions: what each of its regions holds.
        left: the stack's own set in regions that its file does not name any more.
        unlisted: why there may be more of those, a line each.
    """

    regions: tuple[RegionListing, ...]
    left: tuple[RegionListing, ...]
    unlisted: tuple[str, ...]

    @property
    def rows(self) -> tuple[tuple[RegionListing, StoredWeights], ...]:
        """Each set, with where it is."""
        found = (*self.regions, *self.left)
        return tuple((each, one) for each in found for one in each.stored)

    def to_json(self) -> list[dict[str, object]]:
        """The document of ``--json``."""
        return [
            {
                "bucket": each.bucket,
                "region": each.region,
                "prefix": one.prefix,
                "complete": one.complete,
                "wrong": one.wrong,
                "files": one.files,
                "bytes": one.total_bytes,
                "beside": one.beside,
                "beside_bytes": one.beside_bytes,
                "source": one.source,
                "last_used": one.used,
                "in_use": list(each.uses.of(one.prefix)),
                "in_use_known": not each.uses.unlisted,
            }
            for each, one in self.rows
        ]


def list_weights(cloud: Connection) -> Listing:
    """The sets of weights in the bucket of the stack of ``cloud``; where its zones are in several
    regions, of each, also that its own set is not there. In other regions of the library only its
    own set, if that is there.

    Raises:
        NotFoundError: there is no bucket.
        AccessError, ApiError: it cannot be read.
    """
    home = StackWeights(cloud)
    left, unlisted = _left_in_library(cloud)
    everywhere = home.everywhere()
    lacking = len(everywhere) > 1 or bool(left)
    found = tuple(_listed(each, lacking=lacking) for each in everywhere)
    if found[0].missing is not None and all(each.missing for each in (*found, *left)):
        raise found[0].missing
    return Listing(found, tuple(left), tuple(unlisted))


def _left_in_library(cloud: Connection) -> tuple[list[RegionListing], list[str]]:
    """The stack's own set in those buckets of the library that are in none of its regions, and what
    could not be looked at."""
    others, unlisted = left_in_library(cloud)
    found, lines = [], list(reasons(unlisted))
    for each in others:
        try:
            stored = each.store.stored(each.prefix)
        except NotFoundError:  # the bucket, which went in this moment
            continue
        except TpuflexError as error:
            lines.append(f"gs://{each.bucket}: {error.message}")
            continue
        if stored is not None:
            found.append(RegionListing(each.bucket, each.elsewhere, (stored,), weights_uses(each)))
    return found, lines


def _listed(weights: StackWeights, *, lacking: bool) -> RegionListing:
    """What is in the bucket of ``weights``; with ``lacking`` also the stack's own set where it is
    not, or no bucket is."""
    own = StoredWeights(weights.prefix, None, 0, 0)
    try:
        stored = weights.store.list()
    except NotFoundError as error:
        return RegionListing(
            weights.bucket, weights.region, (own,) if lacking else (), missing=error
        )
    uses = weights_uses(weights) if stored else Uses({})
    if lacking and own.prefix not in {one.prefix for one in stored}:
        stored = (*stored, own)
    return RegionListing(weights.bucket, weights.location(), stored, uses)
