"""The bucket that a machine copies into, where it outlives the stack: what keeps a copy from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.cli.region_job import lists
from tpuflex.gcp.brought_bucket import read_brought_bucket, require_grantable
from tpuflex.gcp.library import bucket_readers

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.copier.job import Job
    from tpuflex.gcp.transport import JsonObject
    from tpuflex.gcp.weights_objects import SetObjects


def require_bucket_grantable(cloud: Cloud) -> None:
    """Check that the machine's account can be let into a bucket of the user's own, by the caller.

    Raises:
        AccessError: it cannot be.
        NotFoundError, AlreadyExistsError, ApiError: the bucket cannot be used, or not be read.
    """
    brought, region = cloud.stack.settings.model.weights.brought, cloud.stack.settings.region
    if brought is not None:
        storage = cloud.apis().storage
        require_grantable(storage, brought, read_brought_bucket(storage, brought, region))
        bucket_readers(cloud.apis(), brought.name)  # whether its policy can be read


def elsewhere_texts(cloud: Cloud) -> Iterator[str]:
    """What it costs that a bucket of the user's own is not in the machine's region.

    Raises:
        NotFoundError, AlreadyExistsError, AccessError, ApiError: the bucket cannot be read.
    """
    brought, region = cloud.stack.settings.model.weights.brought, cloud.stack.settings.region
    if brought is None:
        return
    found = read_brought_bucket(cloud.apis().storage, brought, region)
    yield from elsewhere_text(brought.url, found, region)


def elsewhere_text(url: str, found: JsonObject, region: str) -> Iterator[str]:
    """What it costs that the bucket ``url``, which the cloud has as ``found``, is not in the
    ``region`` of the machine."""
    location = str(found.get("location", ""))
    if location.lower() != region:
        yield (
            f"{url} is in {location}, and the machine in {region}: Google may bill what goes from"
            " one to the other (https://cloud.google.com/vpc/network-pricing)."
        )


def wrong_paths(there: SetObjects, job: Job) -> list[str]:
    """What is in the place of the set of ``job`` and is not its, as far as sizes, marks, and what
    is listed of its files tell."""
    found = there.objects
    wrong = [
        file.path
        for file in job.files
        if (blob := found.get(file.path)) is not None
        and (
            blob.size != file.size
            or (file.crc32c and blob.crc32c != file.crc32c)
            or not there.of_a_push(blob)
        )
    ]
    manifest = there.manifest_object
    listed = there.manifest is not None and lists(there.manifest, job)
    if manifest is not None and not (listed and there.of_a_push(manifest)):
        wrong.append(MANIFEST_NAME)
    return wrong
