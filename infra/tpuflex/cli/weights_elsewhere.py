"""Weights of a stack in the library that lie in another bucket already: in that of another region,
or in the one that the stack had before. They are copied within Cloud Storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.cli.prepare_weights import files_text, remember
from tpuflex.cli.stack_library import in_library
from tpuflex.errors import AlreadyExistsError, InterruptedByUser, TpuflexError
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.unseen import reasons
from tpuflex.operate.weights_choice import Elsewhere
from tpuflex.planning.transfer_cost import transfer_rank, transfer_text

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output
    from tpuflex.gcp.weights import WeightsBucket
    from tpuflex.gcp.weights_report import PushReport


def elsewhere(
    cloud: Cloud, say: Callable[[str], None], before: PlannedWeights | None = None
) -> tuple[Elsewhere, ...]:
    """The complete sets that other buckets hold under the name of the weights of the stack of
    ``cloud``: the stack's own bucket first, from which a copy costs nothing, then the library's,
    the cheapest first. None for a stack that is not in the library. What cannot be looked at is
    said.

    Args:
        cloud: the stack's cloud.
        say: takes a line of progress.
        before: the weights that the slice in the state was made for.

    Raises:
        TpuflexError: what the slice was made for cannot be looked at, in a bucket that goes with
            this `up`.
    """
    if not in_library(cloud.stack):
        return ()
    model = cloud.stack.settings.model
    prefix = weights_prefix(model)
    known = PushedWeights(cloud.stack.own_files)
    found: list[Elsewhere] = []
    try:
        for bucket, region in _buckets(cloud):
            there = weights_in(cloud, bucket)
            manifest = there.find(prefix)
            if manifest is None or manifest.manifest is None:
                continue
            check = there.verify(prefix, model.weights.extra_files)
            if check.problems:
                continue
            same = before is not None and (before.bucket, before.prefix) == (bucket, prefix)
            planned = before.manifest_sha256 if before is not None and same else None
            trusted = (known.get(bucket, prefix), planned)
            size = check.manifest.total_bytes
            found.append(Elsewhere(bucket, prefix, region, check.sha256, size, trusted))
    except TpuflexError as error:
        goes = before is not None and before.bucket == cloud.made_bucket
        if goes and not any(each.bucket == cloud.made_bucket for each in found):
            raise  # nothing else may be served in its place, and then its bucket deleted
        say(
            "  warning  it could not be told whether another bucket holds these weights:"
            f" {error.message}"
        )
    return tuple(found)


def lost_texts(cloud: Cloud) -> list[str]:
    """The sets in the stack's own bucket that no copy brings to the library, where that bucket goes
    with the next `up`: of other models and revisions, a line each.

    Raises:
        TpuflexError: it cannot be looked at.
    """
    stack = cloud.stack
    if not in_library(stack):
        return []
    try:
        if not cloud.is_there(cloud.made_bucket):
            return []
    except AlreadyExistsError:  # somebody else's, which stays
        return []
    prefix = weights_prefix(stack.settings.model)
    return [
        f"  warning  gs://{cloud.made_bucket}/{each.prefix}, {each.total_bytes / 1e9:.2f} GB, is"
        " deleted with that bucket, and not copied: to keep it, name its model and revision in the"
        f" stack file, and run `tpuflex weights push --stack {stack.name}`; then go back"
        for each in weights_in(cloud, cloud.made_bucket).list()
        if each.prefix != prefix
    ]


def weights_in(cloud: Cloud, bucket: str) -> WeightsBucket:
    """The sets of weights in ``bucket``, which is the stack's own or the library's."""
    from tpuflex.gcp.weights import weights_bucket

    return weights_bucket(
        bucket,
        project=cloud.stack.settings.project,
        environ=cloud.environ,
        settling=cloud.settling,
        timing=cloud.timing,
    )


def copy_text(cloud: Cloud, origin: Elsewhere, what: str = "weights") -> str:
    """What a copy of ``what`` brings and costs, in words."""
    region = cloud.weights_region or cloud.stack.settings.region
    cost = transfer_text(origin.total_bytes, origin.region, region)
    free = " (the embedded cloud is free)" if cloud.stack.embedded else ""
    return (
        f"{what}: {origin.total_bytes / 1e9:.2f} GB are copied from {origin.place}"
        f" ({origin.region}) to gs://{cloud.bucket}; nothing passes through here, and {cost}{free}"
    )


def copy_weights(
    cloud: Cloud, origin: Elsewhere, output: Output, cancelled: Callable[[], bool]
) -> PushReport:
    """Copy the set ``origin`` into the bucket of the stack of ``cloud``, showing the progress, and
    remember it as what is to be served.

    Args:
        cloud: the stack's cloud.
        origin: what there is a reason to trust.
        output: shows the progress.
        cancelled: whether the user pressed Ctrl-C.

    Raises:
        WeightsError: it is not complete any more.
        ConflictError: somebody writes there, or changes it, meanwhile.
        InterruptedByUser: the user pressed Ctrl-C.
        AccessError, ApiError: Cloud Storage refused.
    """
    from tpuflex.gcp.weights_copy import copy_set  # imports Google's library

    # Before the copy: where one is killed once its manifest is there, the next command knows it.
    remember(cloud, origin.sha256)
    with output.transfer("  copying  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being copied.")
            show(done, total)

        return copy_set(
            weights_in(cloud, origin.bucket).contents(origin.prefix),
            cloud.weights.contents(origin.prefix),
            expected=origin.sha256,
            progress=progress,
            used=cloud.now().date(),
        )


def copied_text(origin: Elsewhere, report: PushReport) -> str:
    """What a copy has brought, in words."""
    return (
        f"{files_text(len(report.sent))}, {report.bytes_sent / 1e6:.1f} MB in"
        f" {report.seconds:.1f} s from {origin.place}; nothing passed through here"
    )


@dataclass
class Filling:
    """Brings weights that are to be pushed from another bucket, if they lie there.

    Attributes:
        cloud: the stack's cloud.
        output: shows what is done.
        cancelled: whether the user pressed Ctrl-C.
        origin: where they lay; None until they were found.
        report: what was copied.
    """

    cloud: Cloud
    output: Output
    cancelled: Callable[[], bool]
    origin: Elsewhere | None = None
    report: PushReport | None = None

    def __call__(self, wanted: Manifest) -> bool:
        """Copy the set of the manifest ``wanted``; whether it lay in another bucket. Raises as
        :func:`copy_weights`."""
        right = {wanted.sha256}
        if self.cloud.stack.settings.model.weights.manifest_sha256 is None:
            right.add(wanted.in_schema_1().sha256)  # the same files, as an older version wrote them
        for each in elsewhere(self.cloud, self.output.progress):
            if each.sha256 in right:
                self.copy(each)
                return True
        return False

    def copy(self, origin: Elsewhere) -> PushReport:
        """Copy ``origin``, which there is a reason to trust. Raises as :func:`copy_weights`."""
        self.output.progress(copy_text(self.cloud, origin))
        report = copy_weights(self.cloud, origin, self.output, self.cancelled)
        self.output.progress(f"  copied   weights: {copied_text(origin, report)}")
        self.origin, self.report = origin, report
        return report


def _buckets(cloud: Cloud) -> Iterator[tuple[str, str]]:
    """Names and regions of the other buckets: those first from which a copy costs least."""
    from tpuflex.gcp.library import list_library

    region = cloud.stack.settings.region
    with suppress(AlreadyExistsError):  # of that name, and somebody else's
        if cloud.is_there(cloud.made_bucket):
            yield cloud.made_bucket, region
    listing = list_library(cloud.apis(), cloud.stack.settings.project)
    if listing.unseen:
        raise TpuflexError("; ".join(reasons(listing.unseen)))
    others = [
        (each.name, each.location.lower())
        for each in listing.resources
        if each.name != cloud.bucket
    ]
    yield from sorted(others, key=lambda other: (*transfer_rank(other[1], region), *other))
