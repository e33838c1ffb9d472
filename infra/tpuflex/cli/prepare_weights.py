"""The weights of a stack: from their source to its bucket, and which ones were pushed there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.cli.shared_weights import require_same
from tpuflex.cli.source_access import SourceAccess, hub_client, objects_at
from tpuflex.errors import ApiError, Finding, InterruptedByUser, SettingsError, WeightsError
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.weights_choice import not_the_source

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output
    from tpuflex.cli.stack import OpenStack
    from tpuflex.gcp.checkpoint_objects import CheckpointObjects
    from tpuflex.gcp.weights import Check
    from tpuflex.gcp.weights_report import (
        FoundManifest,
        PushReport,
        WeightsCheck,
        WeightsProblem,
    )
    from tpuflex.operate.bucket_models import BucketModels
    from tpuflex.operate.checkpoint_source import GsUrl
    from tpuflex.operate.hub.client import HubClient
    from tpuflex.operate.hub.fetch import HubModels
    from tpuflex.operate.model_source import RemoteSource
    from tpuflex.operate.weights_choice import Weights

Say = Callable[[str], None]


def remember(cloud: Cloud, manifest_sha256: str) -> None:
    """Remember that the weights with this manifest are the right ones for the stack's place in
    its bucket."""
    place = weights_prefix(cloud.stack.settings.model)
    known = PushedWeights(cloud.stack.own_files)
    if known.get(cloud.bucket, place) != manifest_sha256:
        known.put(cloud.bucket, place, manifest_sha256)


def checked(cloud: Cloud, weights: Weights) -> WeightsCheck:
    """How ``weights``, which were found in the bucket of the stack of ``cloud``, match their
    manifest, by size and checksum.

    Raises:
        WeightsError: they were changed meanwhile.
        TpuflexError: they cannot be looked at.
    """
    model = cloud.stack.settings.model
    check = cloud.weights.verify(weights_prefix(model), model.weights.extra_files)
    if check.sha256 != weights.found:
        raise WeightsError(
            f"The manifest in {weights.place} was changed a moment ago.",
            hint="Run it again when whoever pushes there is done.",
        )
    return check


def require_source(weights: Weights, problems: Sequence[WeightsProblem]) -> None:
    """Check that ``weights``, which have ``problems``, can be pushed again from a source that the
    stack names.

    Raises:
        WeightsError: it names none.
    """
    if not weights.source:
        raise WeightsError(
            f"{weights.place} does not match its manifest ({problems[0].path}:"
            f" {problems[0].problem}), and the stack names no source.",
            hint=f"Run: tpuflex weights push DIRECTORY --stack {weights.stack}",
        )


def weights_directory(stack: OpenStack, source: str, say: Say, access: SourceAccess) -> Path:
    """The directory with the weights of ``source``, downloaded and converted if necessary.

    Args:
        stack: the stack.
        source: `model.weights.source` of the stack file.
        say: called with one line per step.
        access: reaches the Hub and buckets.

    Raises:
        WeightsError: the source is missing or cannot be read.
        TpuflexError: the Hub or the bucket refused.
    """
    from embedded_cloud.image_installation import ensure_image
    from embedded_cloud.images import embedded_image
    from tpuflex.operate.hub.snapshot import HubSource
    from tpuflex.operate.model_source import resolve_source

    project = stack.project

    def fetch(model: RemoteSource) -> Path:
        if isinstance(model, HubSource):
            return _of_hub(stack, access.client).directory(model, say, access.transfer)
        require_elsewhere(access.connect(), model)
        return bucket_models(stack, access.objects).directory(model, say, access.transfer)

    return resolve_source(
        source,
        project_root=project.root,
        home=project.home,
        # A conversion needs torch and transformers: the embedded serving image has both.
        python=lambda: ensure_image(embedded_image(), project.home, say).python,
        say=say,
        fetch=fetch,
    )


def check_source(stack: OpenStack, cloud: Cloud | None = None) -> None:
    """Check that the stack's ``weights.source`` exists, without downloading anything.

    Args:
        stack: the stack.
        cloud: its cloud; without it, the Hub or a bucket is not asked for a model of it.

    Raises:
        SettingsError: it is malformed, or the directory holds no checkpoint.
        WeightsError: what the directory holds is damaged.
        NotFoundError, AccessError, ApiError: the Hub or the bucket does not have it, or does not
            give it.
    """
    from tpuflex.operate.hub.snapshot import HubSource
    from tpuflex.operate.model_source import check_source as check_named

    model = stack.settings.model

    def check(remote: RemoteSource) -> None:
        if cloud is None:
            return
        if isinstance(remote, HubSource):
            _of_hub(stack, lambda: hub_client(cloud)).check(remote)
        else:
            require_elsewhere(cloud, remote)
            bucket_models(stack, lambda place: objects_at(cloud, place)).check(remote)

    if model.weights.source is not None:
        check_named(
            model.weights.source, project_root=stack.project.root, model=model.name, check=check
        )


def check_source_here(stack: OpenStack) -> None:
    """Check the stack's ``weights.source``, as far as it is on this machine.

    Raises:
        ApiError: that cannot be told: `up` may run where it is.
        SettingsError, WeightsError: as :func:`check_source`.
    """
    from tpuflex.operate.model_source import source_directory

    source = str(stack.settings.model.weights.source)
    directory = source_directory(source, stack.project.root)
    if directory is not None and not directory.exists():
        raise ApiError(f"the directory {source} is not on this machine")
    check_source(stack)


def require_elsewhere(cloud: Cloud, place: GsUrl) -> None:
    """Check that ``place`` is not where the stack keeps its own weights: what somebody has put
    there would be compared with itself, and trusted.

    Raises:
        SettingsError: it is.
    """
    from tpuflex.operate.hub.snapshot import SOURCE_KEY

    kept = weights_prefix(cloud.stack.settings.model)
    if place.bucket in cloud.buckets.values() and place.prefix == kept:
        problem = f"it is {place}, where the stack keeps its weights"
        remedy = "Name where they come from, or remove it."
        raise SettingsError(cloud.stack.file.name, (Finding(SOURCE_KEY, problem, remedy),))


def bucket_models(stack: OpenStack, objects: Callable[[GsUrl], CheckpointObjects]) -> BucketModels:
    """The models in buckets that the stack may take its weights from.

    Args:
        stack: the stack.
        objects: gives the objects at a place; makes no request.
    """
    from tpuflex.operate.bucket_models import BucketModels

    extra_files = stack.settings.model.weights.extra_files
    return BucketModels(stack.project.home / "models", objects, extra_files)


def _of_hub(stack: OpenStack, client: Callable[[], HubClient]) -> HubModels:
    from tpuflex.operate.hub.fetch import HubModels

    extra_files = stack.settings.model.weights.extra_files
    return HubModels(stack.project.home / "models", client, extra_files)


def files_text(count: int) -> str:
    """``count`` files, in words."""
    return "1 file" if count == 1 else f"{count} files"


def push_weights(
    cloud: Cloud,
    directory: Path,
    output: Output,
    cancelled: Callable[[], bool],
    check: Check | None = None,
    *,
    again: bool = False,
) -> PushReport:
    """Push ``directory`` to the stack's bucket, showing the progress, and remember what was
    pushed.

    Args:
        cloud: the stack's cloud.
        directory: the checkpoint.
        output: shows the progress.
        cancelled: whether the user pressed Ctrl-C.
        check: called before anything is sent; raises what forbids it. By default only the stack
            file's pin does.
        again: send every file, whatever the bucket holds.

    Raises:
        WeightsError: the directory holds no weights, a file cannot be read, or they are not the
            pinned ones.
        NotFoundError: there is no bucket yet.
        AlreadyExistsError: the bucket is somebody else's.
        ConflictError: other weights are there already, in a bucket that outlives the stack; or what
            others have put there would be replaced.
        InterruptedByUser: the user pressed Ctrl-C.
    """
    from tpuflex.operate.fetched_directory import source_of

    model = cloud.stack.settings.model
    prefix = weights_prefix(model)

    def pinned_only(wanted: Manifest, _found: FoundManifest | None) -> None:
        pinned = model.weights.manifest_sha256
        if pinned not in (None, wanted.sha256):
            place = f"gs://{cloud.bucket}/{prefix}"
            raise not_the_source(place, pinned=str(pinned), local=wanted.sha256)

    def allowed(wanted: Manifest, found: FoundManifest | None) -> None:
        (check or pinned_only)(wanted, found)
        require_same(cloud, wanted, found)

    with output.transfer("  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        report = cloud.weights.push(
            directory,
            prefix,
            model=model.name,
            revision=model.weights.revision,
            progress=progress,
            extra_files=model.weights.extra_files,
            check=allowed,
            again=again,
            source=source_of(directory),
            used=cloud.now().date(),
        )
    remember(cloud, report.manifest.sha256)
    return report
