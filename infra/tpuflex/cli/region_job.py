"""What a machine is to copy within the region: a model of the Hub, as it is seen from here."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tpuflex.boot.config import weights_prefix
from tpuflex.boot.manifest import WeightsFile
from tpuflex.cli.shared_weights import is_shared
from tpuflex.cli.source_access import ENDPOINT_VARIABLE, secret_token
from tpuflex.copier.job import Job, JobFile, git_object_id
from tpuflex.errors import Finding, SettingsError, WeightsError
from tpuflex.gcp.endpoints import Endpoints, is_loopback
from tpuflex.gcp.foreign_objects import MARK
from tpuflex.gcp.weights_files import translated
from tpuflex.gcp.weights_objects import TIMEOUT
from tpuflex.naming import HF_TOKEN
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.snapshot import SOURCE_KEY, HubSource
from tpuflex.operate.pushed_weights import PushedWeights
from tpuflex.operate.region_copy.bundle import MOST_BYTES

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack
    from tpuflex.gcp.weights_objects import SetObjects
    from tpuflex.operate.hub.snapshot import Snapshot

_HUB = "https://huggingface.co"
#: Roles typically have effect after two minutes, sometimes after seven or more
#: (https://cloud.google.com/iam/docs/access-change-propagation).
_SETTLING_SECONDS = 600


def hub_source(source: str | None) -> HubSource:
    """The model of the Hub that ``source`` names.

    Raises:
        SettingsError: it names none: nothing else is where a machine could fetch it.
    """
    found = None if source is None else HubSource.parse(source)
    if found is None:
        problem = "is not set" if source is None else f"is {source!r}, which no machine copies"
        raise SettingsError(
            "the stack file",
            (Finding(SOURCE_KEY, f"it {problem}", "Write hf://OWNER/NAME@COMMIT."),),
            hint="Anything else is pushed from here: tpuflex weights push",
        )
    return found


def require_grants_allowed(stack: OpenStack) -> None:
    """Check that the machine's account may be let in where it has to: not into a bucket or a secret
    of the user's own on which tpuflex is to grant nothing.

    Raises:
        SettingsError: the stack keeps its weights, or the Hub's token, there.
    """
    weights, secrets = stack.settings.model.weights, stack.settings.secrets
    findings = []
    if weights.brought is not None and not weights.manage_grants:
        problem = f"it is false, so no machine is let into {weights.brought.url}"
        findings.append(Finding("tpuflex:model.weights.manage_grants", problem))
    if (token := secrets.brought.get(HF_TOKEN)) is not None and not secrets.manage_grants:
        problem = f"it is false, so no machine may read {token.version}"
        findings.append(Finding("tpuflex:secrets.manage_grants", problem))
    if findings:
        raise SettingsError(
            stack.file.name,
            tuple(findings),
            hint=f"Push from here: tpuflex weights push --stack {stack.name}",
        )


def hub_snapshot(cloud: Cloud, source: HubSource) -> Snapshot:
    """What the Hub lists. It is asked with the token that the machine will have, and no other: what
    may not be read is refused before anything is made."""
    client = HubClient(hub_address(cloud, default=""), lambda: secret_token(cloud), cloud.timing)
    return client.snapshot(source, cloud.stack.settings.model.weights.extra_files)


def hub_address(cloud: Cloud, *, default: str = _HUB) -> str:
    """Address of the Hub, as a machine may be told it.

    Raises:
        SettingsError: a machine could not reach it, or it has a password in it.
    """
    found = cloud.environ.get(ENDPOINT_VARIABLE, "").rstrip("/") or default
    if "@" in urlsplit(found).netloc:
        raise SettingsError(
            "the environment",
            (Finding(ENDPOINT_VARIABLE, "it has a user in it", "Write it without."),),
            hint="It would stand in the metadata of the machine, which many may read.",
        )
    if is_loopback(found) and not Endpoints.from_environ(cloud.environ).embedded:
        raise SettingsError(
            "the environment",
            (Finding(ENDPOINT_VARIABLE, "it is on this machine", "Unset it."),),
            hint="A machine in the region cannot reach it.",
        )
    return found


def copy_job(cloud: Cloud, snapshot: Snapshot, *, again: bool) -> Job:
    """What a machine is told to copy.

    Args:
        cloud: the stack's cloud.
        snapshot: what the Hub lists.
        again: whether every file is sent, whatever the bucket holds.

    Raises:
        WeightsError: a name cannot be served, or there are too many.
    """
    settings, endpoints = cloud.stack.settings, Endpoints.from_environ(cloud.environ)
    weights, prefix = settings.model.weights, weights_prefix(settings.model)
    pinned = weights.manifest_sha256 or ""
    pushed = PushedWeights(cloud.stack.own_files).get(cloud.bucket, prefix) or ""
    job = Job(
        repository=snapshot.repository,
        commit=snapshot.commit,
        files=tuple(
            JobFile(file.path, file.size, file.sha256, "" if file.sha256 else file.git_id)
            for file in snapshot.files
        ),
        bucket=cloud.bucket,
        prefix=prefix,
        model=settings.model.name,
        revision=weights.revision,
        source=snapshot.source,
        pinned=pinned,
        known=tuple(sorted({pinned, pushed} - {""})),
        again=again,
        token_version=cloud.secret_version(HF_TOKEN) if HF_TOKEN in settings.secrets.roles else "",
        hub=hub_address(cloud),
        storage=endpoints.storage,
        secretmanager=endpoints.secretmanager,
        create_only=is_shared(cloud.stack),
        settling_seconds=_SETTLING_SECONDS,
        mark={} if weights.brought is None else MARK,
    )
    _require_names(job)
    if len(job.to_json().encode()) > MOST_BYTES:
        raise WeightsError(
            f"{snapshot.source} has {len(job.files)} files: more than a machine's metadata names",
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
    wanted = {file.path: file for file in job.files if not file.sha256}
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
    """Whether ``manifest`` is of the files of ``job``, as far as the Hub says their SHA-256."""
    if (manifest.model, manifest.revision) != (job.model, job.revision):
        return False
    listed = {file.path: (file.size, file.sha256) for file in manifest.files}
    if listed.keys() != {file.path for file in job.files}:
        return False
    return all(
        listed[file.path] == (file.size, file.sha256 or listed[file.path][1]) for file in job.files
    )
