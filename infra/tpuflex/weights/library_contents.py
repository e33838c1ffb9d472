"""What the library of a Google Cloud project holds, what that costs, and who may read it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.places import COMPILE_CACHE_PREFIX
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.inventory.library import Reader, bucket_readers, list_library
from tpuflex.planning.rates import storage_per_month
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.storage_errors import translated_errors

if TYPE_CHECKING:
    from tpuflex.inventory.cloud_resource import CloudResource
    from tpuflex.stack.connection import Connection
    from tpuflex.weights.stored_set import StoredWeights


@dataclass(frozen=True, slots=True)
class Contents:
    """One bucket of a library.

    Attributes:
        bucket: the bucket.
        models: the sets of weights in it.
        size: bytes that are billed: those of all versions of all objects.
        programs: bytes of them that are compiled programs.
        readers: who may read from it, by its own policy.
    """

    bucket: CloudResource
    models: tuple[StoredWeights, ...]
    size: int
    programs: int
    readers: tuple[Reader, ...]

    @property
    def region(self) -> str:
        """Where it is."""
        return self.bucket.location

    @property
    def per_month(self) -> Decimal | None:
        """US dollars a month for what is in it; None where the price was not read."""
        return storage_per_month(self.size, self.region)

    @property
    def endpoints(self) -> tuple[Reader, ...]:
        """The endpoints that may read from it."""
        return tuple(each for each in self.readers if each.endpoint)

    def in_use(self, one: StoredWeights) -> bool:
        """Whether an endpoint may read ``one`` of its sets."""
        return any(each.where == one.prefix for each in self.endpoints)

    def to_json(self) -> dict[str, object]:
        """It in the documents of ``--json``."""
        per_month = self.per_month
        return {
            "bucket": self.bucket.name,
            "region": self.region,
            "state_id": self.bucket.marker.state_id or None,
            "bytes": self.size,
            "programs_bytes": self.programs,
            "usd_per_month": None if per_month is None else float(per_month),
            "models": [
                {
                    "prefix": each.prefix,
                    "model": each.manifest.model if each.manifest else None,
                    "revision": each.manifest.revision if each.manifest else None,
                    "source": each.source or None,
                    "complete": each.complete,
                    "wrong": each.wrong,
                    "files": each.files,
                    "bytes": each.total_bytes,
                    "last_used": each.used,
                    "in_use": self.in_use(each),
                }
                for each in self.models
            ],
            "readers": [each.to_json() for each in self.readers],
        }


def library_contents(cloud: Connection) -> tuple[Contents, ...]:
    """Every bucket of the library, whichever state has made it.

    Raises:
        TpuflexError: the buckets cannot be listed, or one cannot be looked into.
    """
    found = []
    for bucket in listed_buckets(cloud):
        try:
            found.append(_contents(cloud, bucket))
        except NotFoundError:
            continue  # deleted since it was listed
    return tuple(sorted(found, key=lambda each: each.region))


def listed_buckets(cloud: Connection) -> tuple[CloudResource, ...]:
    """Every bucket of the library, whichever state has made it, by its labels alone.

    Raises:
        TpuflexError: the buckets cannot be listed.
    """
    apis, project = cloud.apis(), cloud.stack.settings.project
    listing = list_library(apis, project)
    if listing.unlisted:
        # Asked once more for an error of its kind.
        apis.storage.call("GET", "/storage/v1/b", query={"project": project})
        raise TpuflexError(f"The buckets of {project} cannot be listed: {listing.unlisted[0]}")
    return listing.resources


def _contents(cloud: Connection, bucket: CloudResource) -> Contents:
    project, name = cloud.stack.settings.project, bucket.name
    stored = storage_bucket(name, project=project, environ=cloud.environ)
    missing = Advice("Somebody has deleted it in this moment. To make it: {library_up}")
    with translated_errors(name, project=project, missing=missing):
        sizes = [(blob.name, blob.size or 0) for blob in stored.list_blobs(versions=True)]
    models = weights_bucket(name, project=project, environ=cloud.environ).list()
    programs = [size for path, size in sizes if path.startswith(f"{COMPILE_CACHE_PREFIX}/")]
    total = sum(size for _, size in sizes)
    readers = bucket_readers(cloud.apis(), name)
    return Contents(bucket, tuple(models), total, sum(programs), readers)


def no_library(cloud: Connection) -> NotFoundError:
    """What is said where the project of ``cloud`` has no library."""
    project, stack = cloud.stack.settings.project, cloud.stack.name
    return NotFoundError(
        f"Project {project} has no library of weights.",
        hint=f"To make one: tpuflex library up --stack {stack}",
    )
