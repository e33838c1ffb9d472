"""What is known of the files of a stack's model: what is pushed, or else its source. The stack is
planned by them, and by its model's name only where nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tpuflex.boot.places import weights_prefix
from tpuflex.errors import NotFoundError, SettingsError, TpuflexError, WeightsError
from tpuflex.operate.checkpoint_source import read_files
from tpuflex.operate.model_source import files_here
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.settings.rules import check
from tpuflex.settings.weights_source import GsUrl, HubSource

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack
    from tpuflex.operate.checkpoint_files import CheckpointFiles
    from tpuflex.settings.load import FilesReader
    from tpuflex.settings.model import ModelSettings, StackSettings


def reader_of(project_root: Path, *, later: bool) -> FilesReader:
    """Reads the files of a model that are on this machine.

    Args:
        project_root: the directory that a relative path starts from.
        later: whether :func:`planned_by_files` follows, which reads those elsewhere.
    """

    here = files_here(project_root)

    def read(model: ModelSettings) -> Checkpoint | Literal["later"] | None:
        found = here(model)
        elsewhere = isinstance(model.weights.source, HubSource | GsUrl)
        return "later" if found is None and later and elsewhere else found

    return read


def planned_by_files(cloud: Cloud) -> Cloud:
    """``cloud`` with its stack planned by the files of its model, wherever they are; by the model's
    name where they cannot be read, which then says why.

    Raises:
        SettingsError: planned so, it cannot be served; lists every finding.
    """
    stack = cloud.stack
    settings, unread = stack.settings, ""
    if settings.catalog.checkpoint is not None:
        return cloud
    try:
        settings = with_checkpoint(settings, _elsewhere(cloud))
    except TpuflexError as error:
        unread = error.message.rstrip(".")
    if findings := check(settings):
        raise SettingsError(stack.file.name, findings)
    return replace(cloud, stack=replace(stack, settings=settings, files_unread=unread))


def with_checkpoint(settings: StackSettings, found: Checkpoint) -> StackSettings:
    """``settings`` with what is known of the files of their model."""
    return settings.model_copy(update={"catalog": settings.catalog.by_files(found)})


def files_text(stack: OpenStack) -> str:
    """By which files the stack is planned, or why by none, and how they can be known; empty where
    they were not looked for."""
    found = stack.settings.catalog.checkpoint
    if found is not None:
        return f"those of {found.where}"
    if not stack.files_unread:
        return ""
    return (
        f"not known ({stack.files_unread}): planned by what is known of the"
        " model's name. `tpuflex memory --model-dir DIR` plans by files"
    )


def _elsewhere(cloud: Cloud) -> Checkpoint:
    """What the files of the stack's model say of it: those that are pushed, else its source.

    Raises:
        TpuflexError: there are none, or they cannot be read.
    """
    files, where = _pushed(cloud) or _of_source(cloud)
    try:
        name, today = cloud.stack.settings.model.name, cloud.now().date()
        return read_files(files, where, name=name, today=today)
    except WeightsError as error:
        return Checkpoint(where, None, unknown=error)


def _pushed(cloud: Cloud) -> tuple[CheckpointFiles, str] | None:
    from tpuflex.gcp.checkpoint_objects import CheckpointObjects
    from tpuflex.gcp.storage_client import storage_bucket

    settings = cloud.stack.settings
    prefix = weights_prefix(settings.model)
    found = cloud.weights.find(prefix) if cloud.own_bucket() else None
    if found is None or found.manifest is None:
        return None
    bucket = storage_bucket(cloud.bucket, project=settings.project, environ=cloud.environ)
    return CheckpointObjects(bucket, prefix), f"gs://{cloud.bucket}/{prefix}"


def _of_source(cloud: Cloud) -> tuple[CheckpointFiles, str]:
    from tpuflex.cli.source_access import objects_at

    source = cloud.stack.settings.model.weights.source
    if isinstance(source, GsUrl):
        return objects_at(cloud, source), str(source)
    what = "the stack names no source" if source is None else f"{source} cannot be looked into"
    raise NotFoundError(f"nothing is pushed, and {what}")
