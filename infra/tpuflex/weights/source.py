"""What a stack takes its weights from: a directory, a packaged model, the Hugging Face Hub or a
bucket; opened for a push, looked at before one, and reached with the address and token that the
stack has."""

from __future__ import annotations

import datetime as dt
import random
import re
import shlex
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.errors import (
    ApiError,
    ConflictError,
    Finding,
    NotFoundError,
    ServiceDisabledError,
    SettingsError,
    WeightsError,
)
from tpuflex.google.timing import Timing, boottime_seconds
from tpuflex.naming import HF_TOKEN
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.planning.model_files import CONFIG, SAFETENSORS, ServerNeeds, left_out_text
from tpuflex.settings.weights_source import (
    SOURCE_KEY,
    GsUrl,
    HubSource,
    LocalDirectory,
    PackagedModel,
    Source,
)
from tpuflex.stack.environment import HUB_ENDPOINT_VARIABLE, HUB_TOKEN_VARIABLE
from tpuflex.stack.progress import transfer
from tpuflex.weights.checkpoint import read_files, whole_model
from tpuflex.weights.checkpoint_directory import (
    DirectoryFiles,
    LocalModel,
    model_directory,
    require_own_files,
)
from tpuflex.weights.model import manifest_of_model, unwatched
from tpuflex.weights.stored_set import files_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.boot.manifest import Manifest
    from tpuflex.settings.model import ModelSettings
    from tpuflex.settings.weights_source import RemoteSource
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.stack.stack import Stack
    from tpuflex.weights.checkpoint import CheckpointFiles
    from tpuflex.weights.checkpoint_bucket import CheckpointObjects
    from tpuflex.weights.hub.client import HubClient
    from tpuflex.weights.model import Model
    from tpuflex.weights.remote_model import RemoteModel

#: OWNER/NAME (https://huggingface.co/docs/huggingface_hub/package_reference/utilities, repo ids).
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_DOWNLOAD = (
    "Download what is missing or damaged again (`git lfs pull` in a clone), or name the directory"
    " that holds config.json and the *.safetensors files."
)

#: Prefix below which `tpuflex weights push` puts a model.
_PUSHED = re.compile(r"models/([^/]+)/[0-9]+")
#: Directory of a model in the cache of huggingface_hub; a snapshot lies two levels below.
_CACHED = re.compile(r"models--([^-].*?)--(.+)")


def read_checkpoint(
    source: Path | GsUrl,
    *,
    environ: Mapping[str, str],
    today: dt.date,
    name: str = "",
    progress: Callable[[int, int], None] = unwatched,
) -> Checkpoint:
    """What the checkpoint at ``source`` says of itself.

    Args:
        source: a directory, a config.json (then without exact bytes), or a place in Cloud Storage.
        environ: names endpoints and credentials of Cloud Storage.
        today: date of the row that is made.
        name: what to call the model; by default after the directory.
        progress: called with the headers that are read and their number.

    Raises:
        WeightsError: it is damaged, hostile, or no checkpoint.
        NotFoundError: there is nothing at ``source``.
        AccessError: the caller may not read it.
    """
    files = _files(source, environ)
    alone = isinstance(source, Path) and source.is_file()
    return read_files(
        files,
        str(source.parent if alone and isinstance(source, Path) else source),
        name=name or _model_name(source),
        today=today,
        config_name=source.name if alone and isinstance(source, Path) else CONFIG,
        progress=progress,
    )


def _files(source: Path | GsUrl, environ: Mapping[str, str]) -> CheckpointFiles:
    if isinstance(source, GsUrl):
        # Imported late: Google's library takes a second.
        from tpuflex.weights.checkpoint_bucket import checkpoint_objects

        return checkpoint_objects(source.bucket, source.prefix, environ=environ)
    if source.is_dir():
        return DirectoryFiles(source)
    if source.is_file():
        return DirectoryFiles(source.parent, only=source.name)
    raise NotFoundError(
        f"{source} is neither a directory nor a file",
        hint=f"Name a directory that holds {CONFIG} and the *{SAFETENSORS} files, or a {CONFIG}.",
    )


def _model_name(source: Path | GsUrl) -> str:
    """A name for the row, after the last part of its place."""
    if isinstance(source, GsUrl):
        # Where `weights push` puts a model, its revision comes last.
        last = _PUSHED.sub(r"\1", source.prefix).rpartition("/")[2] or source.bucket
    else:
        path = source.absolute()
        directory = path if path.is_dir() else path.parent
        cached = _CACHED.fullmatch(directory.parent.parent.name)
        last = f"{cached[1]}/{cached[2]}" if cached else directory.name
    kept = re.sub(r"[^A-Za-z0-9_./-]+", "-", last).strip("-._")[:96]
    return kept or "model"


def source_model(
    stack: Stack, source: Source, say: Callable[[str], None], connect: Callable[[], Connection]
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
    from tpuflex.weights.packaged_model import converted_model

    project, needs = stack.project, stack.needs
    match source:
        case LocalDirectory():
            local = model_in(source, project.root, needs, stack.settings.model.name)
            say_left_out(local.left_out, say)
            return local
        case PackagedModel():
            from embedded_cloud.machines.image_installation import ensure_image
            from embedded_cloud.machines.images import embedded_image

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
            if len(remote.sums()) < len(remote.paths):
                say(
                    f"weights: {files_text(len(remote.files))}, {remote.total_bytes / 1e6:.0f} MB,"
                    f" of {remote.source}, two at a time through {remote.directory}"
                )
            say_left_out(remote.left_out, say)
            return remote


def named_model(stack: Stack, directory: Path, say: Callable[[str], None]) -> LocalModel:
    """The model in the ``directory`` that the command line names.

    Raises:
        WeightsError: it holds no model, or one that is incomplete or damaged.
    """

    local = local_model(directory, stack.needs)
    say_left_out(local.left_out, say)
    return local


@dataclass(frozen=True, slots=True)
class WeightsHash:
    """What a push would write.

    Attributes:
        manifest: the manifest.
    """

    manifest: Manifest

    def to_json(self) -> dict[str, object]:
        """The document of ``--json``."""
        return {
            "manifest_sha256": self.manifest.sha256,
            "files": len(self.manifest.files),
            "bytes": self.manifest.total_bytes,
        }


def hash_weights(
    stack: Stack, directory: Path | None, report: Report, connect: Callable[[], Connection]
) -> WeightsHash | None:
    """What a push of ``directory`` would write, or of the stack's source; None where there is
    neither.

    Args:
        stack: the stack.
        directory: the checkpoint; None for what the stack file names.
        report: takes the progress of what comes from elsewhere.
        connect: gives the stack's cloud, when it is needed.

    Raises:
        WeightsError: it holds no model, one that is incomplete or damaged, or cannot be read.
        TpuflexError: a model elsewhere cannot be fetched.
    """
    settings = stack.settings.model
    name, revision = settings.name, settings.weights.revision
    model: Model
    if directory is not None:
        model = named_model(stack, directory, report)
    elif settings.weights.source is not None:
        model = source_model(stack, settings.weights.source, report, connect)
    else:
        return None
    if len(model.sums()) == len(model.paths):
        return WeightsHash(manifest_of_model(model, name=name, revision=revision))
    with transfer(report, "  fetching weights") as show:
        return WeightsHash(manifest_of_model(model, show, name=name, revision=revision))


def say_left_out(paths: Collection[str], say: Callable[[str], None]) -> None:
    """Say which files of a source are not pushed, if there are any."""
    if paths:
        say(f"weights: {left_out_text(paths)}")


def _remote_model(cloud: Connection, source: RemoteSource) -> RemoteModel:
    from tpuflex.weights.remote_model import FetchedFiles

    stack = cloud.stack
    needs, home = stack.needs, stack.project.home
    fetched = FetchedFiles(stack.own_files)
    if isinstance(source, HubSource):
        from tpuflex.weights.hub.client import hub_model

        return hub_model(hub_client(cloud), source, needs, home, fetched)
    from tpuflex.weights.checkpoint_bucket import bucket_model

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

    model, needs = stack.settings.model, stack.needs
    match model.weights.source:
        case LocalDirectory() as source:
            return model_in(source, stack.project.root, needs, model.name).left_out
        case HubSource() as source if cloud is not None:
            return hub_client(cloud).snapshot(source, needs).left_out
        case GsUrl() as source if cloud is not None:
            from tpuflex.weights.checkpoint_bucket import list_model

            require_elsewhere(cloud, source)
            return list_model(objects_at(cloud, source), source, needs).left_out
    return ()


def check_source_reading(cloud: Connection) -> tuple[str, ...]:
    """As :func:`check_source`, for a caller who reads no value of a secret, and perhaps runs on
    another machine than `up` does.

    Raises:
        ApiError: that cannot be determined.
        TpuflexError: as :func:`check_source`.
    """

    stack = cloud.stack
    source, root = stack.settings.model.weights.source, stack.project.root
    if isinstance(source, LocalDirectory) and not directory_of(source, root).exists():
        raise ApiError(f"the directory {source} is not on this machine")
    secret = HF_TOKEN in stack.settings.secrets.roles and not cloud.hub_token.strip()
    if isinstance(source, HubSource) and secret:
        raise ApiError(f"{source} is not asked for: the token is a secret, which is not read")
    return check_source(stack, cloud)


def require_elsewhere(cloud: Connection, place: GsUrl) -> None:
    """Check that ``place`` is not where the stack keeps its own weights: what a user has put
    there would be compared with itself, and trusted.

    Raises:
        SettingsError: it is.
    """
    kept = weights_prefix(cloud.stack.settings.model)
    if place.bucket in cloud.buckets.values() and place.prefix == kept:
        problem = f"it is {place}, where the stack keeps its weights"
        remedy = "Name where they come from, or leave the key out."
        raise SettingsError(cloud.stack.file.name, (Finding(SOURCE_KEY, problem, remedy),))


def directory_of(source: LocalDirectory, project_root: Path) -> Path:
    """The directory that ``source`` is in the project in ``project_root``; it may not be there."""
    return project_root / Path(source.path).expanduser()


def local_checkpoint(project_root: Path, model: str, source: Source | None) -> Checkpoint | None:
    """What the files of a model say of it, if they are in a directory on this machine; where they
    cannot be read, why. None where nothing is known of them here.

    Args:
        project_root: the directory that a relative path starts from.
        model: the model's name.
        source: where its weights come from.
    """
    if not isinstance(source, LocalDirectory):
        return None
    directory = directory_of(source, project_root)
    if not directory.is_dir():
        return None
    today = dt.datetime.now(dt.UTC).date()
    try:
        found = model_directory(directory)
        return read_checkpoint(found, environ={}, today=today, name=model)
    except WeightsError as error:
        return Checkpoint(str(directory), None, unknown=error)


def local_files_reader(project_root: Path) -> Callable[[ModelSettings], Checkpoint | None]:
    """Reads the files of a stack's model of the project in ``project_root`` that are on this
    machine, as :func:`local_checkpoint` does."""
    return lambda model: local_checkpoint(project_root, model.name, model.weights.source)


def local_model(directory: Path, needs: ServerNeeds, hint: str = "") -> LocalModel:
    """The model in ``directory``, if a server can load it.

    Args:
        directory: where it is; also a model's folder in the cache of huggingface_hub.
        needs: what the server reads.
        hint: what to do if it cannot be served.

    Raises:
        WeightsError: the directory holds no model, or one that is incomplete or damaged.
    """
    place = model_directory(directory)
    found = whole_model(
        DirectoryFiles(place),
        str(place),
        needs,
        hint=hint or _DOWNLOAD,
        check=lambda names: require_own_files(place, names),
    )
    return LocalModel(place, found.taken, found.left_out)


def model_in(
    source: LocalDirectory, project_root: Path, needs: ServerNeeds, model: str = ""
) -> LocalModel:
    """The model that ``source`` is in the project in ``project_root``.

    Args:
        source: the directory.
        project_root: the directory that a relative path starts from.
        needs: what the server reads.
        model: the model's name; the hint says how to fetch one of the Hub.

    Raises:
        SettingsError: there is no such directory.
        WeightsError: it holds no model, or one that is incomplete or damaged.
    """
    directory, fetching = directory_of(source, project_root), fetching_text(model, source.path)
    if not directory.is_dir():
        raise _wrong(
            f"the directory {directory} does not exist",
            "Name the directory that holds config.json and the *.safetensors files.",
            fetching,
        )
    return local_model(directory, needs, fetching)


def fetching_text(model: str, directory: str) -> str:
    """What fetches ``model`` from the Hub into ``directory``; empty if its name is none there.

    https://huggingface.co/docs/huggingface_hub/guides/cli#hf-download
    """
    if not _HUB_NAME.fullmatch(model):
        return ""
    return (
        f"{shlex.join(('hf', 'download', model, '--local-dir', directory))}\n"
        "(in the project's directory; `pip install huggingface_hub` brings hf)"
    )


def _wrong(problem: str, remedy: str, hint: str = "") -> SettingsError:
    return SettingsError("the stack file", (Finding(SOURCE_KEY, problem, remedy),), hint=hint)


def objects_at(cloud: Connection, place: GsUrl) -> CheckpointObjects:
    """What is at a place in a bucket, as the caller may read it; makes no request."""
    from tpuflex.weights.checkpoint_bucket import checkpoint_objects

    return checkpoint_objects(place.bucket, place.prefix, environ=cloud.environ)


def hub_client(cloud: Connection) -> HubClient:
    """A client of the Hub, as the stack of ``cloud`` reaches it."""
    return _client(cloud.environ, lambda: hub_token(cloud), cloud.timing)


def hub_client_without_retries(environ: Mapping[str, str], token: str) -> HubClient:
    """A client of the Hub that asks once, for what can be done without."""
    return _client(
        environ, lambda: token, Timing(boottime_seconds, time.time, lambda _: True, random.random)
    )


def _client(environ: Mapping[str, str], token: Callable[[], str], timing: Timing) -> HubClient:
    from tpuflex.weights.hub.client import HubClient

    return HubClient(environ.get(HUB_ENDPOINT_VARIABLE, "").rstrip("/"), token, timing)


def hub_token(cloud: Connection) -> str:
    """The token for the Hub: HF_TOKEN, else the secret that the stack file names; empty for none.

    Raises:
        NotFoundError: the secret has no such version.
        TpuflexError: Secret Manager refused.
    """
    if token := cloud.hub_token.strip():
        return token
    try:
        return secret_token(cloud)
    except ServiceDisabledError:
        return ""  # a new project, which can hold no secret yet


def secret_token(cloud: Connection) -> str:
    """The token of the secret that the stack file names; empty where it names none.

    Raises:
        NotFoundError: the secret has no such version.
        ConflictError: it was disabled or destroyed.
        TpuflexError: Secret Manager refused.
    """
    secrets = cloud.stack.settings.secrets
    if HF_TOKEN not in secrets.roles:
        return ""
    version = cloud.secret_version(HF_TOKEN)
    try:
        return cloud.secrets.access(version)
    except ConflictError as error:
        raise ConflictError(
            error.message,
            hint="Enable it in Secret Manager, or write another version under tpuflex:secrets in"
            " the stack file.",
        ) from error
    except NotFoundError as error:
        if HF_TOKEN in secrets.existing:
            raise NotFoundError(
                f"tpuflex:secrets.hf_token: {version} does not exist",
                hint="Write a version that is there. A push from here takes"
                f" {HUB_TOKEN_VARIABLE}, too.",
            ) from error
        raise NotFoundError(
            f"Version {secrets.versions[HF_TOKEN]} of the token for the Hub does not exist.",
            hint=f"Add it: tpuflex secrets put {HF_TOKEN} --stack {cloud.stack.name}\n"
            f"A push from here takes {HUB_TOKEN_VARIABLE}, too.",
        ) from error
