"""What is known of the files of a stack's model: what is pushed, or else its source. The stack is
planned by them, and by its model's name only where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tpuflex.errors import NotFoundError, SettingsError, TpuflexError, WeightsError
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.settings.memory_rules import quantization_findings
from tpuflex.settings.rules import check
from tpuflex.settings.weights_source import GsUrl, HubSource, LocalDirectory, PackagedModel
from tpuflex.weights.checkpoint import read_files
from tpuflex.weights.source import (
    hub_client_without_retries,
    hub_token,
    local_checkpoint,
    local_files_reader,
    objects_at,
)
from tpuflex.weights.stack_weights import StackWeights

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.settings.load import FilesReader
    from tpuflex.settings.model import ModelSettings
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.weights.checkpoint import CheckpointFiles


def reader_of(project_root: Path, *, later: bool) -> FilesReader:
    """Reads the files of a model that are on this machine.

    Args:
        project_root: the directory that a relative path starts from.
        later: whether :func:`planned_by_files` follows, which reads those elsewhere.
    """

    here = local_files_reader(project_root)

    def read(model: ModelSettings) -> Checkpoint | Literal["later"] | None:
        found = here(model)
        elsewhere = isinstance(model.weights.source, HubSource | GsUrl)
        return "later" if found is None and later and elsewhere else found

    return read


def planned_by_files(cloud: Connection, *, reading: bool = False) -> Connection:
    """``cloud`` with its stack planned by the files of its model, wherever they are; by the model's
    name where they cannot be read, which then says why.

    Args:
        cloud: the stack's cloud.
        reading: whether for a caller who reads no value of a secret.

    Raises:
        SettingsError: planned so, it cannot be served; lists every finding.
        WeightsError: the source is no whole model, and nothing is pushed.
    """
    stack = cloud.stack
    settings, unread = stack.settings, ""
    here = settings.checkpoint
    try:
        if stack.stand_in is None:
            found = _pushed(cloud) or here or _of_source(cloud, reading=reading)
            settings = settings.by_files(found)
        else:
            unread = "the weights are a stand-in"
    except WeightsError:
        raise
    except TpuflexError as error:
        unread = "" if here else error.message.rstrip(".")
    if findings := check(settings):
        raise SettingsError(stack.file.name, findings)
    return replace(cloud, stack=replace(stack, settings=settings, files_unread=unread))


def known_by_source(cloud: Connection, directory: Path | None = None) -> Connection:
    """``cloud`` with its stack known by the files that a push of it takes.

    Args:
        cloud: the stack's cloud.
        directory: the checkpoint; None for what the stack file names.

    Raises:
        SettingsError: the server could not read them.
        TpuflexError: they cannot be read.
    """
    stack = cloud.stack
    model = stack.settings.model
    source = model.weights.source
    if directory is not None:
        source = LocalDirectory(str(directory.absolute()))
    elif stack.stand_in is not None:
        return cloud
    found = local_checkpoint(stack.project.root, model.name, source)
    if found is None and isinstance(source, HubSource | GsUrl):
        found = _of_source(cloud, reading=False)
    if found is None:
        return cloud
    settings = stack.settings.by_files(found)
    if findings := tuple(quantization_findings(settings)):
        raise SettingsError(stack.file.name, findings, hint="Nothing was sent.")
    return replace(cloud, stack=replace(stack, settings=settings))


def planned_by(stack: Stack) -> str:
    """By which files the memory of a stack is planned; or by which model of the catalog, where that
    is not plain, why not by files, and how they can be known. Empty where the name says all."""
    settings = stack.settings
    if settings.checkpoint is not None:
        return f"those of {settings.checkpoint.where}"
    row = settings.catalog.model(settings.model.name)
    other = row is not None and row.name != settings.model.name
    pinned = isinstance(settings.model.weights.source, PackagedModel)  # with its files, by hash
    if not other and (pinned or not stack.files_unread):
        return ""
    why = f" ({stack.files_unread})" if stack.files_unread else ""
    name = f"what is known of {row.name}" if row is not None and other else "the model's name"
    return f"not known{why}: planned by {name}. By files: tpuflex memory --model-dir DIR"


def _pushed(cloud: Connection) -> Checkpoint | None:
    """What is pushed says of itself; of a damaged set, why that is not known. None for none."""
    from tpuflex.google.storage_client import storage_bucket
    from tpuflex.weights.checkpoint_bucket import CheckpointObjects

    weights = StackWeights(cloud)
    found = weights.found() if weights.exists() else None
    if found is None or found.manifest is None:
        return None
    bucket = storage_bucket(
        weights.bucket, project=cloud.stack.settings.project, environ=cloud.environ
    )
    try:
        return _read(cloud, CheckpointObjects(bucket, weights.prefix), weights.place)
    except WeightsError as error:
        return Checkpoint(weights.place, None, unknown=error)


def _of_source(cloud: Connection, *, reading: bool) -> Checkpoint:
    """What the source of the weights, where none are pushed, says of itself; for somebody who is
    ``reading`` also where it is no whole model.

    Raises:
        WeightsError: it is none.
        TpuflexError: there is none, or it cannot be read.
    """
    source = cloud.stack.settings.model.weights.source
    try:
        match source:
            case GsUrl():
                return _read(cloud, objects_at(cloud, source), str(source))
            case HubSource():
                token = cloud.hub_token if reading else hub_token(cloud)
                return hub_client_without_retries(cloud.environ, token).reading(
                    source,
                    lambda files, commit: _read(
                        cloud, files, str(HubSource(source.repository, commit))
                    ),
                )
    except WeightsError as error:
        if not reading:
            raise
        return Checkpoint(str(source), None, unknown=error)
    what = "the stack names no source" if source is None else f"{source} cannot be looked into"
    raise NotFoundError(f"nothing is pushed, and {what}")


def _read(cloud: Connection, files: CheckpointFiles, where: str) -> Checkpoint:
    name, today = cloud.stack.settings.model.name, cloud.now().date()
    return read_files(files, where, name=name, today=today)
