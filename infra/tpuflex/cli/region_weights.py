"""Weights of a stack whose zones are in several regions: what its home holds is copied to the
library's bucket of each, within Cloud Storage, before chips are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.cli.weights_elsewhere import copy_text
from tpuflex.errors import ConflictError, InterruptedByUser
from tpuflex.operate.weights_choice import Elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output
    from tpuflex.gcp.weights_report import FoundManifest, PushReport


def filling_texts(cloud: Cloud, wanted: str, size: int | None = None) -> list[str]:
    """What :func:`fill_regions` would copy, and what that costs, a line for each region.

    Args:
        cloud: the stack's cloud.
        wanted: SHA-256 of the manifest of the set in the stack's home.
        size: its bytes, where it is not there yet and is copied there first.

    Raises:
        ConflictError: a region holds a complete set under the same name that is none of these.
        TpuflexError: it cannot be told.
    """
    prefix = weights_prefix(cloud.stack.settings.model)
    others = cloud.further_regions()
    if others and size is None:
        home = cloud.weights.find(prefix)
        size = None if home is None or home.manifest is None else home.manifest.total_bytes
    texts = []
    for near in others:
        found = near.weights.find(prefix)
        _require_same(near, wanted, found)
        if found is not None and found.manifest is not None:
            if damage := _damage_text(near):
                texts.append(damage)
        elif size is not None:
            region = cloud.stack.settings.region
            origin = Elsewhere(cloud.bucket, prefix, region, wanted, size, ())
            texts.append(copy_text(near, origin))
    return texts


def lacking_texts(cloud: Cloud) -> list[str]:
    """The regions that :func:`fill_regions` would copy to once the weights are pushed to the home
    of the stack of ``cloud``, a line each.

    Raises:
        TpuflexError: it cannot be told.
    """
    prefix = weights_prefix(cloud.stack.settings.model)
    texts = []
    for near in cloud.further_regions():
        found = near.weights.find(prefix)
        if found is None or found.manifest is None:
            texts.append(
                f"weights: once they are pushed, they are copied from gs://{cloud.bucket} to"
                f" gs://{near.bucket} ({near.weights_region}), and the network costs that"
            )
    return texts


def fill_regions(
    cloud: Cloud,
    wanted: str,
    output: Output,
    cancelled: Callable[[], bool],
    *,
    again: bool = False,
) -> tuple[tuple[Cloud, PushReport], ...]:
    """Have the set of weights in the home of the stack of ``cloud`` in its other regions, too. What
    is there is compared with it by size and checksum; what broke off goes on, and what was damaged
    is copied anew. While the home holds none, which somebody may have allowed, none is copied.

    Gives what was copied, with the cloud of each region; nothing for one that has it all.

    Args:
        cloud: the stack's cloud.
        wanted: SHA-256 of the set's manifest.
        output: shows the progress of a copy.
        cancelled: whether the user pressed Ctrl-C.
        again: copy every file, whatever is there.

    Raises:
        ConflictError: other weights are in its place, or somebody writes there.
        WeightsError: the set in the home is not complete.
        InterruptedByUser: the user pressed Ctrl-C.
        AccessError, ApiError: Cloud Storage refused.
    """
    prefix = weights_prefix(cloud.stack.settings.model)
    others = cloud.further_regions()
    home = cloud.weights.find(prefix) if others else None
    if home is None or home.manifest is None:
        return ()
    copied = []
    for near in others:
        found = near.weights.find(prefix)
        _require_same(near, wanted, found)
        if found is not None and found.manifest is not None:
            damage = _damage_text(near)
            if not damage and not again:
                continue
            if damage:
                output.progress(f"  warning  {damage}")
        copied.append((near, _copy(cloud, near, wanted, output, cancelled, again=again)))
    return tuple(copied)


def _copy(
    cloud: Cloud,
    near: Cloud,
    wanted: str,
    output: Output,
    cancelled: Callable[[], bool],
    *,
    again: bool,
) -> PushReport:
    from tpuflex.gcp.weights_copy import copy_set  # imports Google's library

    prefix = weights_prefix(cloud.stack.settings.model)
    with output.transfer(f"  copying  weights to {near.weights_region}") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being copied.")
            show(done, total)

        report = copy_set(
            cloud.weights.contents(prefix),
            near.weights.contents(prefix),
            expected=wanted,
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


def _damage_text(near: Cloud) -> str:
    """How the set in the bucket of ``near`` does not match its manifest, and what becomes of it;
    empty where it does."""
    model = near.stack.settings.model
    prefix = weights_prefix(model)
    problems = near.weights.verify(prefix, model.weights.extra_files).problems
    if not problems:
        return ""
    return (
        f"gs://{near.bucket}/{prefix} does not match its manifest ({problems[0].path}:"
        f" {problems[0].problem}): what is wrong is copied anew"
    )


def _require_same(near: Cloud, wanted: str, found: FoundManifest | None) -> None:
    if found is None or found.manifest is None or found.sha256 == wanted:
        return
    place = f"gs://{near.bucket}/{weights_prefix(near.stack.settings.model)}"
    raise ConflictError(
        f"{place} holds other weights (manifest {found.sha256}; these are {wanted}), which other"
        f" stacks may serve, and hosts in {near.weights_region} would read it.",
        hint="Give these another tpuflex:model.weights.revision. To remove those, unless an"
        f" endpoint uses them: tpuflex weights rm {place} --stack {near.stack.name}",
    )
