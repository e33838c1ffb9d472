"""Weights of a stack whose zones are in several regions: what its home holds is copied to the
library's bucket of each, within Cloud Storage, before chips are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.errors import InterruptedByUser
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.planning.rates import transfer_text
from tpuflex.weights.origin import remember
from tpuflex.weights.shared import require_same

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output
    from tpuflex.weights.report import PushReport, WeightsCheck


@dataclass(frozen=True, slots=True)
class RegionSet:
    """A set of files that hosts read in the region where they are.

    Attributes:
        prefix: where it is in each bucket.
        sha256: SHA-256 of its manifest.
        needs: what the server reads.
    """

    prefix: str
    sha256: str
    needs: ServerNeeds


def weights_set(cloud: Connection, sha256: str) -> RegionSet:
    """The weights of the stack of ``cloud``, with the manifest ``sha256``. That they are missing
    somebody may have allowed."""
    settings = cloud.stack.settings
    return RegionSet(weights_prefix(settings.model), sha256, ServerNeeds.of(settings))


def filling_texts(
    cloud: Connection, wanted: RegionSet, size: int | None = None, *, again: bool = False
) -> list[str]:
    """What :func:`fill_regions` would copy, and what that costs, a line for each region.

    Args:
        cloud: the stack's cloud.
        wanted: what every region is to have.
        size: its bytes, where it is not there yet and is copied there first.
        again: whether every file is copied, whatever is there.

    Raises:
        ConflictError: a region holds a complete set under the same name that is none of these.
        TpuflexError: it cannot be told.
    """
    prefix, others = wanted.prefix, cloud.further_regions()
    if others and size is None:
        home = cloud.weights.find(prefix)
        size = None if home is None or home.manifest is None else home.manifest.total_bytes
    texts = (filling_text(cloud, near, wanted, size, again=again) for near in others)
    return [text for text in texts if text]


def filling_text(
    cloud: Connection, near: Connection, wanted: RegionSet, size: int | None, *, again: bool = False
) -> str:
    """The same for the region of ``near`` alone; empty where nothing is copied there. Raises as
    :func:`filling_texts`."""
    found = near.weights.find(wanted.prefix)
    require_same(near, wanted.sha256, found)
    damage = ""
    if found is not None and found.manifest is not None:
        check = near.weights.verify(wanted.prefix, wanted.needs)
        damage = _damage_text(near, wanted, check)
        if not again:
            wrong = {each.path for each in check.problems}
            size = sum(file.size for file in check.manifest.files if file.path in wrong)
        if not damage and not again:
            return ""
    if size is None:
        return damage
    region = cloud.stack.settings.region
    free = " (the embedded cloud is free)" if cloud.stack.embedded else ""
    copied = (
        f"weights: {size / 1e9:.2f} GB are copied from gs://{cloud.bucket}/{wanted.prefix}"
        f" ({region}) to gs://{near.bucket}; nothing passes through here, and"
        f" {transfer_text(size, region, near.weights_region or region)}{free}"
    )
    return "; ".join(filter(None, (damage, copied)))


def lacking_texts(cloud: Connection) -> list[str]:
    """The regions that :func:`fill_regions` would copy to once the weights are pushed to the home
    of the stack of ``cloud``, a line each.

    Raises:
        ConflictError: a region holds a complete set under their name that is not the pinned one.
        TpuflexError: it cannot be told.
    """
    weights = cloud.stack.settings.model.weights
    prefix = weights_prefix(cloud.stack.settings.model)
    texts = []
    for near in cloud.further_regions():
        found = near.weights.find(prefix)
        if weights.manifest_sha256 is not None:  # without one, only the push says what they are
            require_same(near, weights.manifest_sha256, found)
        if found is None or found.manifest is None:
            texts.append(
                f"weights: once they are pushed, they are copied from gs://{cloud.bucket} to"
                f" gs://{near.bucket} ({near.weights_region}), and the network costs that"
            )
    return texts


def fill_regions(
    cloud: Connection,
    wanted: RegionSet,
    output: Output,
    cancelled: Callable[[], bool],
    *,
    again: bool = False,
) -> tuple[tuple[Connection, PushReport], ...]:
    """Have what the home of the stack of ``cloud`` has in its other regions, too. What is there is
    compared with it by size and checksum; what broke off goes on, and what was damaged is copied
    anew. While the home holds no weights, which somebody may have allowed, none are copied.

    Gives what was copied, with the cloud of each region; nothing for one that has it all.

    Args:
        cloud: the stack's cloud.
        wanted: what every region is to have.
        output: shows the progress of a copy.
        cancelled: whether the user pressed Ctrl-C.
        again: copy every file, whatever is there.

    Raises:
        ConflictError: something else is in its place, or somebody writes there.
        WeightsError: the set in the home is not complete.
        InterruptedByUser: the user pressed Ctrl-C.
        AccessError, ApiError: Cloud Storage refused.
    """
    prefix, others = wanted.prefix, cloud.further_regions()
    if not others:
        return ()
    home = cloud.weights.find(prefix)
    if home is None or home.manifest is None:
        return ()
    copied = []
    for near in others:
        found = near.weights.find(prefix)
        require_same(near, wanted.sha256, found)
        # Before a copy, which may be killed when all of it is there.
        remember(near, wanted.sha256)
        if found is not None and found.manifest is not None:
            check = near.weights.verify(prefix, wanted.needs)
            damage = _damage_text(near, wanted, check)
            if not damage and not again:
                continue
            if damage:
                output.progress(f"  warning  {damage}")
        copied.append((near, _copy(cloud, near, wanted, output, cancelled, again=again)))
    return tuple(copied)


def _copy(
    cloud: Connection,
    near: Connection,
    wanted: RegionSet,
    output: Output,
    cancelled: Callable[[], bool],
    *,
    again: bool,
) -> PushReport:
    from tpuflex.weights.bucket_copy import copy_set  # imports Google's library

    with output.transfer(f"  copying  weights to {near.weights_region}") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while copying the weights.")
            show(done, total)

        report = copy_set(
            cloud.weights.contents(wanted.prefix),
            near.weights.contents(wanted.prefix),
            expected=wanted.sha256,
            progress=progress,
            used=cloud.now().date(),
            again=again,
        )
    output.progress(
        f"  copied   weights: {report.bytes_sent / 1e6:.1f} MB in {report.seconds:.1f} s from"
        f" gs://{cloud.bucket} to gs://{near.bucket} ({near.weights_region}); nothing passed"
        " through here"
    )
    return report


def _damage_text(near: Connection, wanted: RegionSet, check: WeightsCheck) -> str:
    """How the set in the bucket of ``near`` does not match its manifest, and what becomes of it;
    empty where it does."""
    problems = check.problems
    if not problems:
        return ""
    return (
        f"gs://{near.bucket}/{wanted.prefix} does not match its manifest ({problems[0]}):"
        " what is wrong is copied anew"
    )
