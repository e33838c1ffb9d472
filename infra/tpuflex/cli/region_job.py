"""What a machine is told to copy within the region, and whether it is there already."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import WeightsFile
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.shared_weights import is_shared
from tpuflex.copier.job import Job, git_object_id
from tpuflex.errors import WeightsError
from tpuflex.gcp.endpoints import Endpoints
from tpuflex.gcp.foreign_objects import MARK
from tpuflex.gcp.weights_files import translated
from tpuflex.gcp.weights_objects import TIMEOUT
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.region_copy.bundle import MOST_BYTES

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.region_source import Seen
    from tpuflex.gcp.weights_objects import SetObjects

#: Roles typically have effect after two minutes, sometimes after seven or more
#: (https://cloud.google.com/iam/docs/access-change-propagation).
_SETTLING_SECONDS = 600


def copy_job(cloud: Cloud, seen: Seen, *, again: bool) -> Job:
    """What a machine is told to copy.

    Args:
        cloud: the stack's cloud.
        seen: what there is.
        again: whether every file is sent, whatever the bucket holds.

    Raises:
        WeightsError: a name cannot be served, or there are too many.
    """
    settings, endpoints = cloud.stack.settings, Endpoints.from_environ(cloud.environ)
    weights, prefix = settings.model.weights, weights_prefix(settings.model)
    pinned = weights.manifest_sha256 or ""
    pushed = PushedWeights(cloud.stack.own_files).get(cloud.bucket, prefix) or ""
    job = Job(
        origin=seen.origin,
        files=seen.files,
        bucket=cloud.bucket,
        prefix=prefix,
        model=settings.model.name,
        revision=weights.revision,
        source=seen.source,
        pinned=pinned,
        known=tuple(sorted({pinned, pushed} - {""})),
        again=again,
        storage=endpoints.storage,
        secretmanager=endpoints.secretmanager,
        create_only=is_shared(cloud.stack),
        settling_seconds=_SETTLING_SECONDS,
        mark={} if weights.brought is None else MARK,
    )
    _require_names(job)
    if len(job.to_json().encode()) > MOST_BYTES:
        raise WeightsError(
            f"{seen.source} has {len(job.files)} files: more than a machine's metadata names",
            hint="Push it from here: tpuflex weights push",
        )
    return job


def _require_names(job: Job) -> None:
    """Check that every file has a name that can be served; what a push from here checks, too."""
    for file in job.files:
        try:
            WeightsFile(path=file.path, size=file.size, crc32c="AAAAAA==", sha256="0" * 64)
        except ValueError as error:
            raise WeightsError(
                f"{file.path!r} is not a name that can be served",
                hint="Push the other files from a directory: tpuflex weights push DIRECTORY",
            ) from error


def of_git(there: SetObjects, job: Job) -> bool:
    """Whether what is ``there`` of the files of ``job`` that are kept in Git is what the Hub lists:
    of these it says no SHA-256, so that no manifest can be compared with it, and they are read.

    Raises:
        AccessError, ApiError: they cannot be read.
    """
    if there.manifest is None:
        return False
    wanted = {file.path: file for file in job.files if file.git_id}
    with translated(there.bucket):
        for entry in there.manifest.files:
            if (file := wanted.pop(entry.path, None)) is None:
                continue
            blob = there.objects.get(entry.path)
            if blob is None or blob.size != file.size:
                return False
            exact = there.bucket.blob(blob.name, generation=blob.generation)
            text = exact.download_as_bytes(raw_download=True, timeout=TIMEOUT)
            id_ = git_object_id(len(text))
            id_.update(text)
            if (id_.hexdigest(), hashlib.sha256(text).hexdigest()) != (file.git_id, entry.sha256):
                return False
    return not wanted


def lists(manifest: Manifest, job: Job) -> bool:
    """Whether ``manifest`` is of the files of ``job``, as far as is listed of them: of a model of
    the Hub the SHA-256 of what is in LFS, of one in a bucket the CRC32C."""
    if (manifest.model, manifest.revision) != (job.model, job.revision):
        return False
    listed = {file.path: file for file in manifest.files}
    if listed.keys() != {file.path for file in job.files}:
        return False
    return all(
        listed[file.path].size == file.size
        and file.sha256 in ("", listed[file.path].sha256)
        and file.crc32c in ("", listed[file.path].crc32c)
        for file in job.files
    )
