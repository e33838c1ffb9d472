"""The sets of weights in a stack's buckets, for `tpuflex weights ls`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.inventory.unlisted import reasons
from tpuflex.weights.stack_weights import StackWeights, left_in_library
from tpuflex.weights.stored_set import StoredWeights, files_text
from tpuflex.weights.use import Uses, weights_uses

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output


@dataclass(frozen=True, slots=True)
class _Listed:
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


def run_weights_ls(cloud: Connection, output: Output) -> None:
    """Print the sets of weights in the bucket of the stack of ``cloud``; where its zones are in
    several regions, of each, also that its own set is not there. In other regions of the library
    only its own set, if that is there.

    Raises:
        NotFoundError: there is no bucket.
        AccessError, ApiError: it cannot be read.
    """
    home = StackWeights(cloud)
    further = home.further()
    left, unlisted = _left_in_library(cloud)
    regions = bool(further or left)
    found = [*(_listed(each, lacking=regions) for each in (home, *further)), *left]
    if all(each.missing is not None for each in found) and found[0].missing is not None:
        raise found[0].missing
    rows = [(each, one) for each in found for one in each.stored]
    output.document(
        [
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
                "in_use_known": not each.uses.unseen,
            }
            for each, one in rows
        ]
    )
    if not rows:
        output.result("The bucket holds no weights.")
        return
    header = ("PREFIX", "FILES", "MB", "MANIFEST", "USED", "SOURCE")
    output.table(
        ("REGION", *header) if regions else header,
        [
            (
                *((each.region,) if regions else ()),
                one.prefix,
                str(one.files),
                f"{one.total_bytes / 1e6:.1f}",
                _written(each, one),
                "now" if each.uses.of(one.prefix) else last_used_text(one),
                one.source or "-",
            )
            for each, one in rows
        ],
    )
    for line in dict.fromkeys(line for each in found for line in each.uses.unseen):
        output.result(f"Not looked at, so more may be in use: {line}")
    for each in left:
        place = f"gs://{each.bucket}/{each.stored[0].prefix}"
        advice = Advice(
            "To remove the set there, unless an endpoint uses it: {weights_rm} {place}", place=place
        )
        shown = advice.for_stack(cloud.stack.name, os.environ)
        output.result(f"The stack file names no zone in {each.region}. {shown}")
    for line in unlisted:
        output.result(f"Not looked at, so the set may be in more regions: {line}")


def _left_in_library(cloud: Connection) -> tuple[list[_Listed], list[str]]:
    """The stack's own set in those buckets of the library that are in none of its regions, and what
    could not be looked at."""
    others, unseen = left_in_library(cloud)
    found, lines = [], list(reasons(unseen))
    for each in others:
        try:
            stored = each.store.stored(each.prefix)
        except NotFoundError:  # the bucket, which went in this moment
            continue
        except TpuflexError as error:
            lines.append(f"gs://{each.bucket}: {error.message}")
            continue
        if stored is not None:
            uses = weights_uses(each)
            found.append(_Listed(each.bucket, each.elsewhere, (stored,), uses))
    return found, lines


def _listed(weights: StackWeights, *, lacking: bool) -> _Listed:
    """What is in the bucket of ``weights``; with ``lacking`` also the stack's own set where it is
    not, or no bucket is."""
    own = StoredWeights(weights.prefix, None, 0, 0)
    try:
        stored = weights.store.list()
    except NotFoundError as error:
        return _Listed(weights.bucket, weights.region, (own,) if lacking else (), missing=error)
    uses = weights_uses(weights) if stored else Uses({})
    if lacking and own.prefix not in {one.prefix for one in stored}:
        stored = (*stored, own)
    return _Listed(weights.bucket, weights.location(), stored, uses)


def last_used_text(one: StoredWeights) -> str:
    """When ``one`` was last used, in words."""
    return "not known" if one.used is None else one.used.isoformat()


def _written(of: _Listed, one: StoredWeights) -> str:
    if of.missing is not None:
        return "no bucket"
    if one.manifest is None:
        return "incomplete" if one.files else "not there"
    if one.wrong:
        return f"damaged, {files_text(one.wrong)}"
    return f"complete, {one.beside} beside" if one.beside else "complete"
