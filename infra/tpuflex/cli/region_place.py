"""A model in a bucket, as a machine within the region copies it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.cli.prepare_weights import bucket_models, require_elsewhere
from tpuflex.cli.region_bucket import elsewhere_text
from tpuflex.cli.region_source import Say, Seen
from tpuflex.cli.source_access import objects_at
from tpuflex.copier.job import BucketOrigin, JobFile
from tpuflex.errors import Finding
from tpuflex.gcp.source_bucket import read_source_bucket, require_source_grantable
from tpuflex.operate.hub.snapshot import SOURCE_KEY
from tpuflex.operate.region_copy.grants import Grant, source_grant

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack
    from tpuflex.gcp.checkpoint_objects import CheckpointObject
    from tpuflex.operate.checkpoint_source import GsUrl

#: What would end the text in a condition, or begin something else in it.
_NOT_IN_CONDITIONS = frozenset("'\"\\")


@dataclass(frozen=True, slots=True)
class PlaceSource:
    """A model in a bucket, which the machine's account is let read for the time of the copy.

    Attributes:
        place: where it is.
    """

    place: GsUrl

    def findings(self, stack: OpenStack) -> Iterator[Finding]:
        """Why a machine cannot be let read it; asks for nothing."""
        del stack
        if not _NOT_IN_CONDITIONS.isdisjoint(self.place.prefix):
            problem = f"{self.place} has a character that no condition of a role can name"
            yield Finding(SOURCE_KEY, problem, "Copy it to a prefix without quotes.")

    def require_grantable(self, cloud: Cloud) -> None:
        """Check that an account can be let read that place alone, by the caller; and that it is not
        where the stack keeps its own weights.

        Raises:
            SettingsError: it is.
            AccessError: it cannot be.
            NotFoundError, ApiError: there is no such bucket, or it cannot be told.
        """
        require_elsewhere(cloud, self.place)
        require_source_grantable(cloud.apis(), self.place.bucket)

    def seen(self, cloud: Cloud, say: Say) -> Seen:
        """What a push from here would fetch, as the bucket lists it now, after the same checks.

        Raises:
            NotFoundError, AccessError, ApiError, WeightsError: as
                :meth:`tpuflex.operate.bucket_models.BucketModels.listing`.
        """
        del say
        models = bucket_models(cloud.stack, lambda place: objects_at(cloud, place))
        listing = models.listing(self.place)
        origin = BucketOrigin(self.place.bucket, self.place.prefix)
        files = tuple(map(_job_file, listing.files))
        return Seen(str(self.place), origin, files, listing.left_out)

    def grants(self, cloud: Cloud) -> tuple[Grant, ...]:
        """To read the place."""
        del cloud
        return (source_grant(self.place.bucket, self.place.prefix),)

    def reads(self, cloud: Cloud) -> str:
        """The place."""
        del cloud
        return str(self.place)

    def elsewhere_texts(self, cloud: Cloud) -> Iterator[str]:
        """What it costs that the bucket is not in the machine's region.

        Raises:
            NotFoundError, AccessError, ApiError: the bucket cannot be read.
        """
        found = read_source_bucket(cloud.apis().storage, self.place.bucket)
        yield from elsewhere_text(f"gs://{self.place.bucket}", found, cloud.stack.settings.region)


def _job_file(file: CheckpointObject) -> JobFile:
    crc32c = base64.b64encode(bytes.fromhex(file.crc32c)).decode()
    return JobFile(file.name, file.size, crc32c=crc32c, generation=file.generation)
