"""The weights of a stack: from their source to its bucket, and which ones were pushed there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.errors import ApiError, Finding, InterruptedByUser, SettingsError, WeightsError
from tpuflex.naming import HF_TOKEN
from tpuflex.planning.model_files import ServerNeeds, left_out_text
from tpuflex.settings.weights_source import (
    SOURCE_KEY,
    GsUrl,
    HubSource,
    LocalDirectory,
    PackagedModel,
)
from tpuflex.weights.checkpoint_directory import LocalModel
from tpuflex.weights.choice import not_the_source
from tpuflex.weights.pushed import PushedWeights
from tpuflex.weights.shared import require_none_other, require_same_everywhere
from tpuflex.weights.source_access import hub_client, objects_at

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.boot.manifest import Manifest
    from tpuflex.planning.model_files import WeightsProblem
    from tpuflex.settings.weights_source import RemoteSource, Source
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output
    from tpuflex.weights.bucket import Check, Differs
    from tpuflex.weights.choice import Weights
    from tpuflex.weights.remote_model import RemoteModel
    from tpuflex.weights.report import (
        FoundManifest,
        PushReport,
        WeightsCheck,
    )

Say = Callable[[str], None]

_NO_MANIFEST = "Its files may be there; they have no manifest, so no host reads them."


def remember(cloud: Connection, manifest_sha256: str) -> None:
    """Remember that the weights with this manifest are the right ones for the stack's place in
    its bucket."""
    place = weights_prefix(cloud.stack.settings.model)
    known = PushedWeights(cloud.stack.own_files)
    if known.get(cloud.bucket, place) != manifest_sha256:
        known.put(cloud.bucket, place, manifest_sha256)


def checked(cloud: Connection, weights: Weights) -> WeightsCheck:
    """How ``weights``, which were found in the bucket of the stack of ``cloud``, match their
    manifest, by size and checksum.

    Raises:
        WeightsError: they were changed meanwhile.
        TpuflexError: they cannot be looked at.
    """
    settings = cloud.stack.settings
    check = cloud.weights.verify(weights_prefix(settings.model), ServerNeeds.of(settings))
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
            f"{weights.place} cannot be served ({problems[0]}), and the stack names no source.",
            hint=f"Run: tpuflex weights push DIRECTORY --stack {weights.stack}",
        )


def weights_origin(
    stack: Stack, source: Source, say: Say, connect: Callable[[], Connection]
) -> LocalModel | RemoteModel:
    """What a push of ``source`` pushes: the model in a directory, converted if necessary; or one
    elsewhere as it is listed now, of which nothing has come yet.

    Args:
        stack: the stack.
        source: where its weights come from.
        say: called with one line per step.
        connect: gives the stack's cloud, when it is needed.

    Raises:
        SettingsError: the source is a directory that does not exist.
        WeightsError: it cannot be read, or could not be served.
        NotFoundError, AccessError, ApiError: the Hub or the bucket does not have it, or does not
            give it.
    """
    from tpuflex.weights.model_source import converted_model, local_model, model_in

    project, needs = stack.project, ServerNeeds.of(stack.settings)
    match source:
        case LocalDirectory():
            local = model_in(source, project.root, needs, stack.settings.model.name)
            say_left_out(local.left_out, say)
            return local
        case PackagedModel():
            from embedded_cloud.image_installation import ensure_image
            from embedded_cloud.images import embedded_image

            # A conversion needs torch and transformers: the embedded serving image has both.
            def python() -> Path:
                return ensure_image(embedded_image(), project.home, say).python

            made = converted_model(source, home=project.home, python=python, say=say)
            return local_model(made, needs)
        case HubSource() | GsUrl():
            remote = _remote_model(connect(), source)
            if isinstance(source, HubSource) and not source.pinned:
                say(
                    f"hub: {source.revision or 'the default branch'} of {source.repository} is"
                    f" {remote.source}. To stay with it, write that to {SOURCE_KEY}"
                )
            if not remote.summed:
                say(
                    f"weights: {files_text(len(remote.files))}, {remote.total_bytes / 1e6:.0f} MB,"
                    f" of {remote.source}, two at a time through {remote.directory}"
                )
            say_left_out(remote.left_out, say)
            return remote


def named_model(stack: Stack, directory: Path, say: Say) -> LocalModel:
    """The model in the ``directory`` that the command line names.

    Raises:
        WeightsError: it holds no model, or one that is incomplete or damaged.
    """
    from tpuflex.weights.model_source import local_model

    local = local_model(directory, ServerNeeds.of(stack.settings))
    say_left_out(local.left_out, say)
    return local


def say_left_out(paths: Collection[str], say: Say) -> None:
    """Say which files of a source are not pushed, if there are any."""
    if paths:
        say(f"weights: {left_out_text(paths)}")


def _remote_model(cloud: Connection, source: RemoteSource) -> RemoteModel:
    from tpuflex.weights.remote_model import FetchedFiles

    stack = cloud.stack
    needs, home = ServerNeeds.of(stack.settings), stack.project.home
    fetched = FetchedFiles(stack.own_files)
    if isinstance(source, HubSource):
        from tpuflex.weights.hub.client import hub_model

        return hub_model(hub_client(cloud), source, needs, home, fetched)
    from tpuflex.weights.bucket_models import bucket_model

    require_elsewhere(cloud, source)
    return bucket_model(objects_at(cloud, source), source, needs, home, fetched)


def check_source(stack: Stack, cloud: Connection | None = None) -> tuple[str, ...]:
    """Check that a server can load the stack's ``weights.source``, as far as that is known without
    fetching it; what of it would not be pushed.

    Args:
        stack: the stack.
        cloud: its cloud; without it, the Hub or a bucket is not asked for a model of it.

    Raises:
        SettingsError: the directory does not exist.
        WeightsError: it holds no model, or one that is incomplete or damaged.
        NotFoundError, AccessError, ApiError: the Hub or the bucket does not have it, or does not
            give it.
    """
    from tpuflex.weights.model_source import model_in

    model, needs = stack.settings.model, ServerNeeds.of(stack.settings)
    match model.weights.source:
        case LocalDirectory() as source:
            return model_in(source, stack.project.root, needs, model.name).left_out
        case HubSource() as source if cloud is not None:
            return hub_client(cloud).snapshot(source, needs).left_out
        case GsUrl() as source if cloud is not None:
            from tpuflex.weights.bucket_models import list_model

            require_elsewhere(cloud, source)
            return list_model(objects_at(cloud, source), source, needs).left_out
    return ()


def check_source_reading(cloud: Connection) -> tuple[str, ...]:
    """The same for somebody who reads no value of a secret, and perhaps on another machine than
    `up` runs on.

    Raises:
        ApiError: that cannot be told.
        TpuflexError: as :func:`check_source`.
    """
    from tpuflex.weights.model_source import directory_of

    stack = cloud.stack
    source, root = stack.settings.model.weights.source, stack.project.root
    if isinstance(source, LocalDirectory) and not directory_of(source, root).exists():
        raise ApiError(f"the directory {source} is not on this machine")
    secret = HF_TOKEN in stack.settings.secrets.roles and not cloud.hub_token.strip()
    if isinstance(source, HubSource) and secret:
        raise ApiError(f"{source} is not asked for: the token is a secret, which is not read")
    return check_source(stack, cloud)


def require_elsewhere(cloud: Connection, place: GsUrl) -> None:
    """Check that ``place`` is not where the stack keeps its own weights: what somebody has put
    there would be compared with itself, and trusted.

    Raises:
        SettingsError: it is.
    """
    kept = weights_prefix(cloud.stack.settings.model)
    if place.bucket in cloud.buckets.values() and place.prefix == kept:
        problem = f"it is {place}, where the stack keeps its weights"
        remedy = "Name where they come from, or leave the key out."
        raise SettingsError(cloud.stack.file.name, (Finding(SOURCE_KEY, problem, remedy),))


def files_text(count: int) -> str:
    """``count`` files, in words."""
    return "1 file" if count == 1 else f"{count} files"


def push_weights(
    cloud: Connection,
    origin: LocalModel | RemoteModel,
    output: Output,
    cancelled: Callable[[], bool],
    check: Check | None = None,
    *,
    differs: Differs | None = None,
    again: bool = False,
) -> PushReport:
    """Push ``origin`` to the stack's bucket, showing the progress, and remember what was pushed.

    Args:
        cloud: the stack's cloud.
        origin: the model in a directory, or one elsewhere.
        output: shows the progress.
        cancelled: whether the user pressed Ctrl-C.
        check: called before anything is sent, or, of a model elsewhere, before the manifest is
            written; raises what forbids it. By default only the stack file's pin does.
        differs: called as soon as a model elsewhere is seen not to be the set that is there; raises
            what forbids that.
        again: send every file, whatever the bucket holds.

    Raises:
        WeightsError: a file cannot be read, or they are not the pinned weights.
        NotFoundError: there is no bucket yet.
        AlreadyExistsError: the bucket is somebody else's.
        ConflictError: other weights are there already, in a bucket that outlives the stack; or what
            others have put there would be replaced.
        InterruptedByUser: the user pressed Ctrl-C.
        TpuflexError: a model elsewhere cannot be fetched.
    """
    model = cloud.stack.settings.model
    prefix, pinned = weights_prefix(model), model.weights.manifest_sha256
    place, used = f"gs://{cloud.bucket}/{prefix}", cloud.now().date()
    replaced = ""

    def allowed(wanted: Manifest, found: FoundManifest | None) -> None:
        nonlocal replaced
        if pinned not in (None, wanted.sha256):
            # Of a model elsewhere, where no set is, the hash is known once its files are there.
            unsent = isinstance(origin, LocalModel) or found is not None
            outcome = "Nothing was sent." if unsent else _NO_MANIFEST
            raise not_the_source(place, pinned=str(pinned), local=wanted.sha256, outcome=outcome)
        if check is not None:
            check(wanted, found)
        require_same_everywhere(cloud, wanted, found)
        if found is not None and found.manifest is not None and found.sha256 != wanted.sha256:
            replaced = found.sha256

    with output.transfer("  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        if isinstance(origin, LocalModel):
            report = cloud.weights.push(
                origin,
                prefix,
                model=model.name,
                revision=model.weights.revision,
                progress=progress,
                check=allowed,
                again=again,
                used=used,
            )
        else:
            remote = origin

            def other(found: FoundManifest) -> None:
                if found.sha256 == pinned:
                    raise not_the_source(place, pinned=found.sha256, local=remote.source)
                if differs is not None:
                    differs(found)
                require_none_other(cloud, found, remote.source)

            for near in cloud.further_regions():
                found = near.weights.find(prefix)
                if found is None:
                    continue
                if found.manifest is None or not remote.lists(found.manifest):
                    require_none_other(near, found, remote.source)
            report = cloud.weights.push_remote(
                remote,
                prefix,
                model=model.name,
                revision=model.weights.revision,
                progress=progress,
                check=allowed,
                differs=other,
                again=again,
                used=used,
            )
    remember(cloud, report.manifest.sha256)
    if replaced:
        output.progress(f"  pushed   in place of the set {replaced}, which {place} had before")
    return report
